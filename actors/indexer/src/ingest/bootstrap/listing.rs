//! The lists of a node that a first state is read from.

use futures::{StreamExt, TryStreamExt, stream};
use svc_net::upstream::NodeClientError;
use svc_wire::proto::cosmos::{
    feegrant::v1beta1::{QueryAllowancesByGranterRequest, QueryAllowancesByGranterResponse},
    group::v1::{
        QueryProposalsByGroupPolicyRequest, QueryProposalsByGroupPolicyResponse, QueryVotesByProposalRequest,
        QueryVotesByProposalResponse,
    },
};

use super::{
    genesis::list_genesis_digests,
    pages::{Listing, PAGE_SIZE, StartEntry},
    position::{OwnedList, ScannedKind, StartPosition},
};
use crate::{
    block::{EntityRef, VoteRecord},
    ingest::{
        error::IngestError,
        node_reader::{EntityReading, NodeReader, page_request},
        whole_lists::{list_authorizations, list_sessions},
    },
    store::{EntityFilter, EntityKind, IdRange, IndexStore},
};

/// Ids of one batch.
const ID_BATCH: u64 = 64;
/// Empty batches after which the walk over the ids of authorizations ends: revoked ones leave gaps.
const MAX_EMPTY_BATCHES: usize = 16;

/// Reads the list at a position, and the votes on the proposals of a store where there is one. `None` at the end.
pub async fn read_list(
    source: NodeReader<'_>,
    store: Option<&IndexStore>,
    position: &StartPosition,
    height: u64,
) -> Result<Option<Listing>, IngestError> {
    Ok(Some(match position {
        StartPosition::Ids { kind, first, is_last } => list_ids(source, *kind, (*first, *is_last), height).await?,
        StartPosition::NextCorporation { after } => match next_corporation(source, *after, height).await? {
            Some((id, policy)) => {
                let group = EntityRef::Group { corporation_id: id, policy: policy.clone() };
                let next = StartPosition::OfCorporation { id, policy, list: OwnedList::Proposals, key: Vec::new() };
                Listing::of([group, EntityRef::TrustDeposit(id)], next)
            }
            None => Listing::of([], StartPosition::AFTER_CORPORATIONS),
        },
        StartPosition::OfCorporation { id, policy, list, key } => {
            let (found, key) = match list {
                OwnedList::Proposals => list_proposals(source, policy, key, height).await?,
                OwnedList::Allowances => list_allowances(source, policy, key, height).await?,
                OwnedList::Authorizations => (list_authorizations(source, *id, height).await?, Vec::new()),
            };
            Listing::of(found, StartPosition::after_list(*id, policy, *list, key))
        }
        StartPosition::Sessions { after } => {
            let (found, next) = list_sessions(source, *after, height).await?;
            let next = next.map(|instant| StartPosition::Sessions { after: Some(instant) });
            Listing::of(
                found.into_iter().map(EntityRef::Session),
                next.unwrap_or_else(|| StartPosition::after_sessions(height)),
            )
        }
        StartPosition::GenesisDigests => {
            Listing::of(list_genesis_digests(source.node).await?, StartPosition::FIRST_VOTES)
        }
        StartPosition::Votes { proposal, key } => match store {
            Some(store) => list_votes(source, store, (*proposal, key), height).await?,
            None => return Ok(None),
        },
        StartPosition::End => return Ok(None),
    }))
}

/// Lists all entities that the node has at a height, but for digests of later blocks than the genesis.
pub async fn list_entities(source: NodeReader<'_>, height: u64) -> Result<Vec<EntityRef>, IngestError> {
    let (mut found, mut position) = (Vec::new(), StartPosition::FIRST);
    while let Some(listing) = read_list(source, None, &position, height).await? {
        found.extend(listing.entries.into_iter().filter_map(|entry| match entry {
            StartEntry::Entity(entity, _) => Some(entity),
            StartEntry::Vote(_) => None,
        }));
        position = listing.next;
    }
    Ok(found)
}

async fn list_ids(
    source: NodeReader<'_>,
    kind: ScannedKind,
    (first, is_last): (u64, bool),
    height: u64,
) -> Result<Listing, NodeClientError> {
    let (mut entries, mut next_id) = (Vec::new(), Some(first));
    while let Some(begin) = next_id.filter(|_| entries.len() + ID_BATCH as usize <= PAGE_SIZE) {
        let batch = read_batch(source, |id| kind.entity(id), begin, height).await?;
        next_id = (!batch.is_empty()).then_some(begin + ID_BATCH);
        entries.extend(batch.into_iter().map(|(entity, reading)| StartEntry::Entity(entity, Some(Box::new(reading)))));
    }
    let next = StartPosition::after_ids(kind, (first, is_last), entries.is_empty(), next_id);
    Ok(Listing { entries, next })
}

/// Reads the entities of a batch of ids that are there.
async fn read_batch(
    source: NodeReader<'_>,
    entity: impl Fn(u64) -> EntityRef,
    first: u64,
    height: u64,
) -> Result<Vec<(EntityRef, EntityReading)>, NodeClientError> {
    let entities: Vec<EntityRef> = (first..first + ID_BATCH).map(entity).collect();
    let reads = entities.into_iter().map(|one| async move {
        let reading = source.read_entity(&one, height).await?;
        Ok::<_, NodeClientError>((one, reading))
    });
    let read: Vec<_> = stream::iter(reads).buffered(8).try_collect().await?;
    Ok(read.into_iter().filter(|(_, reading)| reading.is_there()).collect())
}

/// Reads entities with ids from 1 on, until `max_empty_batches` successive batches are empty.
pub async fn scan_ids(
    source: NodeReader<'_>,
    kind: fn(u64) -> EntityRef,
    max_empty_batches: usize,
    height: u64,
) -> Result<Vec<EntityRef>, NodeClientError> {
    let mut found = Vec::new();
    let (mut first, mut empty_batches) = (1, 0);
    while empty_batches < max_empty_batches {
        let batch = read_batch(source, kind, first, height).await?;
        empty_batches = if batch.is_empty() { empty_batches + 1 } else { 0 };
        found.extend(batch.into_iter().map(|(entity, _)| entity));
        first += ID_BATCH;
    }
    Ok(found)
}

/// Finds authorizations by their ids, as far as the gaps of revoked ones are not longer than [`MAX_EMPTY_BATCHES`] batches. The lists of the
/// node have them all; this walk shows one that a list hides.
pub async fn walk_authorizations(source: NodeReader<'_>, height: u64) -> Result<Vec<EntityRef>, NodeClientError> {
    let mut found = Vec::new();
    let kinds: [fn(u64) -> EntityRef; 2] = [EntityRef::OperatorAuthorization, EntityRef::VsOperatorAuthorization];
    for kind in kinds {
        found.extend(scan_ids(source, kind, MAX_EMPTY_BATCHES, height).await?);
    }
    Ok(found)
}

/// Returns the first corporation after an id, with its policy address. No corporation is ever removed: a batch without one is the end.
async fn next_corporation(
    source: NodeReader<'_>,
    after: u64,
    height: u64,
) -> Result<Option<(u64, String)>, NodeClientError> {
    for id in after + 1..=after + ID_BATCH {
        if let EntityReading::Change(change) = source.read_entity(&EntityRef::Corporation(id), height).await?
            && change.body.is_some()
        {
            return Ok(Some((id, change.name.unwrap_or_default())));
        }
    }
    Ok(None)
}

/// A page of entities, and the key of the next one.
type KeyedPage = (Vec<EntityRef>, Vec<u8>);

async fn list_proposals(
    source: NodeReader<'_>,
    policy: &str,
    key: &[u8],
    height: u64,
) -> Result<KeyedPage, NodeClientError> {
    let pagination = page_request(key.to_vec());
    let request = QueryProposalsByGroupPolicyRequest { address: policy.to_owned(), pagination };
    let reply: Option<QueryProposalsByGroupPolicyResponse> =
        source.query_group_module("ProposalsByGroupPolicy", &request, height).await?;
    let reply = reply.unwrap_or_default();
    let found = reply.proposals.iter().map(|proposal| EntityRef::Proposal(proposal.id)).collect();
    Ok((found, reply.pagination.map(|page| page.next_key).unwrap_or_default()))
}

/// Lists the fee allowances that an account grants.
async fn list_allowances(
    source: NodeReader<'_>,
    policy: &str,
    key: &[u8],
    height: u64,
) -> Result<KeyedPage, NodeClientError> {
    let pagination = page_request(key.to_vec());
    let request = QueryAllowancesByGranterRequest { granter: policy.to_owned(), pagination };
    let path = "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter";
    let reply: Option<QueryAllowancesByGranterResponse> = source.query(path, &request, height).await?;
    let reply = reply.unwrap_or_default();
    let allowance = |grant: svc_wire::proto::cosmos::feegrant::v1beta1::Grant| EntityRef::FeeAllowance {
        granter: grant.granter,
        grantee: grant.grantee,
    };
    let found = reply.allowances.into_iter().map(allowance).collect();
    Ok((found, reply.pagination.map(|page| page.next_key).unwrap_or_default()))
}

/// Lists votes on an open proposal of the store: from a key on, or without one those on the first proposal after it.
async fn list_votes(
    source: NodeReader<'_>,
    store: &IndexStore,
    (proposal, key): (u64, &[u8]),
    height: u64,
) -> Result<Listing, IngestError> {
    let proposal_id = if key.is_empty() {
        let range = IdRange { min_id: Some(proposal + 1), ..IdRange::default() };
        let found = store.list_page(EntityKind::Proposal, height, &EntityFilter::default(), range, 1).await?;
        let Some(next) = found.first() else { return Ok(Listing::of([], StartPosition::End)) };
        next.id
    } else {
        proposal
    };
    let request = QueryVotesByProposalRequest { proposal_id, pagination: page_request(key.to_vec()) };
    let reply: Option<QueryVotesByProposalResponse> =
        source.query_group_module("VotesByProposal", &request, height).await?;
    let reply = reply.unwrap_or_default();
    let entries = reply.votes.iter().map(|vote| StartEntry::Vote(VoteRecord::from_state(vote))).collect();
    let key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
    Ok(Listing { entries, next: StartPosition::Votes { proposal: proposal_id, key } })
}
