//! The first block of a store. All entities that the node can list are read as if this block had changed them: those of earlier
//! blocks, or those of the genesis. The node cannot list digests. Those of the genesis are in the genesis document; a store that begins
//! in the middle of a chain asks the node for each earlier digest that a read needs.

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::proto::cosmos::{
    feegrant::v1beta1::{QueryAllowancesByGranterRequest, QueryAllowancesByGranterResponse},
    group::v1::{
        QueryProposalsByGroupPolicyRequest, QueryProposalsByGroupPolicyResponse, QueryVotesByProposalRequest,
        QueryVotesByProposalResponse,
    },
};

use super::{
    error::{GenesisFailure, IngestError},
    node_reader::{EntityReading, NodeReader, page_request},
    whole_lists::{list_authorizations, list_sessions},
};
use crate::{
    block::{BlockFacts, ChangeCause, EntityRef, VoteRecord},
    store::{EntityKind, IndexStore},
};

/// Ids of one batch.
const ID_BATCH: u64 = 64;
/// Empty batches after which the walk over the ids of authorizations ends: revoked ones leave gaps.
const MAX_EMPTY_BATCHES: usize = 16;

/// Records all entities that the node has at the height of the block. Fails when a read fails.
pub async fn discover_entities(source: NodeReader<'_>, facts: &mut BlockFacts) -> Result<(), IngestError> {
    let cause = ChangeCause { message: "Start".to_owned(), account: None };
    for one in list_entities(source, facts.height).await? {
        if let EntityRef::Proposal(id) = one {
            for vote in list_votes(source, id, facts.height).await? {
                // A vote of this block is there already, with its message.
                let is_same = |known: &VoteRecord| known.proposal == id && known.voter == vote.voter;
                if !facts.votes.iter().any(is_same) {
                    facts.votes.push(vote);
                }
            }
        }
        // An entity that the block itself changed keeps its own cause.
        if !facts.entities.contains_key(&one) {
            facts.record_entity(one, &cause);
        }
    }
    Ok(())
}

/// Lists all entities that the node has at a height, but for digests. Fails when a read fails.
pub async fn list_entities(source: NodeReader<'_>, height: u64) -> Result<Vec<EntityRef>, IngestError> {
    let mut found: Vec<EntityRef> = Vec::new();
    let corporations = scan_ids(source, EntityRef::Corporation, 1, height).await?;
    if corporations.is_empty() {
        // Everything but exchange rates belongs to a corporation, and no corporation is ever removed.
        let rates = scan_ids(source, EntityRef::ExchangeRate, 1, height).await?;
        return Ok(rates.into_iter().map(|(rate, _)| rate).collect());
    }
    if height == 1 {
        found.extend(list_genesis_digests(source.node).await?);
    }
    let kinds: [fn(u64) -> EntityRef; 4] =
        [EntityRef::Ecosystem, EntityRef::Schema, EntityRef::Participant, EntityRef::ExchangeRate];
    for kind in kinds {
        found.extend(scan_ids(source, kind, 1, height).await?.into_iter().map(|(one, _)| one));
    }
    for (corporation, reading) in corporations {
        let (EntityRef::Corporation(corporation_id), EntityReading::Change(change)) = (&corporation, reading) else {
            continue;
        };
        let policy = change.name.unwrap_or_default();
        found.extend(list_corporation_entities(source, *corporation_id, &policy, height).await?);
        found.extend(list_authorizations(source, *corporation_id, height).await?);
        found.push(corporation);
    }
    found.extend(list_sessions(source, height).await?);
    Ok(found)
}

/// Most chunks of a genesis document that are read.
const MAX_GENESIS_CHUNKS: u64 = 64;

/// Lists the digests of the genesis. Fails when no node serves a document that can be read.
async fn list_genesis_digests(node: &NodeClient) -> Result<Vec<EntityRef>, GenesisFailure> {
    let mut failure = None;
    for one in std::iter::once(node.pinned()).chain(node.alternatives()) {
        match read_genesis(&one).await.and_then(|document| genesis_digests(&document)) {
            Ok(digests) => return Ok(digests),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or_else(|| GenesisFailure::new("there is no node")))
}

/// Reads the bytes of the genesis document.
async fn read_genesis(node: &NodeClient) -> Result<Vec<u8>, GenesisFailure> {
    let (mut document, mut chunk) = (Vec::new(), 0);
    loop {
        let part = node.call_raw("genesis_chunked", json!({"chunk": chunk.to_string()})).await;
        let part = part.map_err(|error| GenesisFailure::new(IngestError::Node(error).public_message()))?;
        let total = part["total"].as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        if !(1..=MAX_GENESIS_CHUNKS).contains(&total) {
            return Err(GenesisFailure::new(format!("it has {total} chunks, 1 to {MAX_GENESIS_CHUNKS} are read")));
        }
        let data = STANDARD.decode(part["data"].as_str().unwrap_or_default());
        document.extend(data.map_err(|error| GenesisFailure::new(error.to_string()))?);
        chunk += 1;
        if chunk >= total {
            return Ok(document);
        }
    }
}

/// Returns the digests in a genesis document. The member of an empty module may be absent.
fn genesis_digests(document: &[u8]) -> Result<Vec<EntityRef>, GenesisFailure> {
    let genesis: Value = serde_json::from_slice(document).map_err(|error| GenesisFailure::new(error.to_string()))?;
    let state = genesis["app_state"].as_object().ok_or_else(|| GenesisFailure::new("it has no app_state"))?;
    let digests = match state.get("di").map(|module| &module["digests"]) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(digests)) => digests,
        Some(_) => return Err(GenesisFailure::new("its digests are not a list")),
    };
    let one = |digest: &Value| Some(EntityRef::Digest(digest["digest"].as_str()?.to_owned()));
    digests
        .iter()
        .map(|digest| one(digest).ok_or_else(|| GenesisFailure::new("one of its digests has no text")))
        .collect()
}

/// Returns a corporation that the node has at a height and the store lacks.
pub async fn find_missing_corporation(
    source: NodeReader<'_>,
    store: &IndexStore,
    height: u64,
) -> Result<Option<u64>, IngestError> {
    for (corporation, _) in scan_ids(source, EntityRef::Corporation, 1, height).await? {
        if let EntityRef::Corporation(id) = corporation
            && store.entity(EntityKind::Corporation, id, height).await?.is_none()
        {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Reads entities with ids from 1 on, until `max_empty_batches` successive batches are empty.
async fn scan_ids(
    source: NodeReader<'_>,
    kind: fn(u64) -> EntityRef,
    max_empty_batches: usize,
    height: u64,
) -> Result<Vec<(EntityRef, EntityReading)>, NodeClientError> {
    let mut found = Vec::new();
    let (mut first, mut empty_batches) = (1, 0);
    loop {
        let reads = (first..first + ID_BATCH).map(|id| async move {
            let one = kind(id);
            let reading = source.read_entity(&one, height).await?;
            Ok::<_, NodeClientError>((one, reading))
        });
        let read: Vec<_> = stream::iter(reads).buffered(8).try_collect().await?;
        let is_there = |(_, reading): &(EntityRef, EntityReading)| match reading {
            EntityReading::Change(change) => change.body.is_some(),
            EntityReading::Allowance { allowance, .. } => allowance.is_some(),
        };
        let before = found.len();
        found.extend(read.into_iter().filter(is_there));
        empty_batches = if found.len() == before { empty_batches + 1 } else { 0 };
        if empty_batches == max_empty_batches {
            return Ok(found);
        }
        first += ID_BATCH;
    }
}

/// Lists the entities of a corporation: its group and proposals, its deposit, and the fee allowances that it grants.
async fn list_corporation_entities(
    source: NodeReader<'_>,
    id: u64,
    policy: &str,
    height: u64,
) -> Result<Vec<EntityRef>, NodeClientError> {
    let mut found =
        vec![EntityRef::Group { corporation_id: id, policy: policy.to_owned() }, EntityRef::TrustDeposit(id)];
    let mut key = Vec::new();
    loop {
        let request = QueryProposalsByGroupPolicyRequest { address: policy.to_owned(), pagination: page_request(key) };
        let reply: Option<QueryProposalsByGroupPolicyResponse> =
            source.query_group_module("ProposalsByGroupPolicy", &request, height).await?;
        let reply = reply.unwrap_or_default();
        found.extend(reply.proposals.iter().map(|proposal| EntityRef::Proposal(proposal.id)));
        key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
        if key.is_empty() {
            break;
        }
    }
    loop {
        let request = QueryAllowancesByGranterRequest { granter: policy.to_owned(), pagination: page_request(key) };
        let path = "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter";
        let reply: Option<QueryAllowancesByGranterResponse> = source.query(path, &request, height).await?;
        let reply = reply.unwrap_or_default();
        found.extend(
            reply
                .allowances
                .into_iter()
                .map(|grant| EntityRef::FeeAllowance { granter: grant.granter, grantee: grant.grantee }),
        );
        key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
        if key.is_empty() {
            return Ok(found);
        }
    }
}

/// Lists the votes of an open proposal.
async fn list_votes(source: NodeReader<'_>, proposal_id: u64, height: u64) -> Result<Vec<VoteRecord>, NodeClientError> {
    let (mut found, mut key) = (Vec::new(), Vec::new());
    loop {
        let request = QueryVotesByProposalRequest { proposal_id, pagination: page_request(key) };
        let reply: Option<QueryVotesByProposalResponse> =
            source.query_group_module("VotesByProposal", &request, height).await?;
        let reply = reply.unwrap_or_default();
        found.extend(reply.votes.iter().map(VoteRecord::from_state));
        key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
        if key.is_empty() {
            return Ok(found);
        }
    }
}

/// Finds authorizations by their ids, as far as the gaps of revoked ones are not longer than [`MAX_EMPTY_BATCHES`] batches. The lists of the
/// node have them all; this walk shows one that a list hides.
pub async fn walk_authorizations(source: NodeReader<'_>, height: u64) -> Result<Vec<EntityRef>, NodeClientError> {
    let mut found = Vec::new();
    let kinds: [fn(u64) -> EntityRef; 2] = [EntityRef::OperatorAuthorization, EntityRef::VsOperatorAuthorization];
    for kind in kinds {
        let read = scan_ids(source, kind, MAX_EMPTY_BATCHES, height).await?;
        found.extend(read.into_iter().map(|(one, _)| one));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_genesis_has_its_digests_or_cannot_be_read() {
        let digest = |text: &str| EntityRef::Digest(text.to_owned());
        for (document, expected) in [
            (
                r#"{"app_state": {"di": {"digests": [{"digest": "a"}, {"digest": "b"}]}}}"#,
                Ok(vec![digest("a"), digest("b")]),
            ),
            (r#"{"app_state": {"di": {"digests": []}}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {"digests": null}}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {}}}"#, Ok(vec![])),
            (r#"{"app_state": {}}"#, Ok(vec![])),
            (r#"{"app_state": {"di": {"digests": [{"digest": 7}]}}}"#, Err("one of its digests has no text")),
            (r#"{"app_state": {"di": {"digests": {}}}}"#, Err("its digests are not a list")),
            (r#"{"chain_id": "c"}"#, Err("it has no app_state")),
        ] {
            assert_eq!(genesis_digests(document.as_bytes()), expected.map_err(GenesisFailure::new), "{document}");
        }
        assert!(genesis_digests(b"<html>").is_err());
    }
}
