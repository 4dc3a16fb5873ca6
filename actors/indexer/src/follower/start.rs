//! What a chain holds where an indexer begins in the middle of it: everything that can be found there is read as if the first
//! block had touched it. Digests cannot be listed; those anchored earlier stay unknown.

use futures::{StreamExt, TryStreamExt, stream};
use svc_kit::upstream::NodeError;
use svc_wire::{
    instant,
    proto::{
        cosmos::{
            feegrant::v1beta1::{QueryAllowancesByGranterRequest, QueryAllowancesByGranterResponse},
            group::v1::{QueryProposalsByGroupPolicyRequest, QueryProposalsByGroupPolicyResponse},
        },
        svc::pp::v1 as pp_pb,
    },
};

use super::{Reading, Source, reading::page};
use crate::block::{BlockFacts, Cause, Touched};

/// Ids asked for at once.
const STRIDE: u64 = 64;
/// Strides without an entity that end the search for authorizations: revoked ones leave gaps.
const GAPS: usize = 16;
/// Most the chain's lists answer.
const MOST: u32 = 1_024;

/// Notes everything the node has at the block's height.
pub async fn discover(source: Source<'_>, facts: &mut BlockFacts) -> Result<(), NodeError> {
    let cause = Cause { msg: "Start".to_owned(), account: None };
    let height = facts.height;
    let mut found: Vec<Touched> = Vec::new();
    for (kind, patience) in [
        (Touched::Ecosystem as fn(u64) -> Touched, 1),
        (Touched::Schema, 1),
        (Touched::Participant, 1),
        (Touched::ExchangeRate, 1),
        (Touched::OperatorAuthorization, GAPS),
        (Touched::VsOperatorAuthorization, GAPS),
    ] {
        found.extend(dense(source, kind, patience, height).await?.into_iter().map(|(one, _)| one));
    }
    for (corporation, reading) in dense(source, Touched::Corporation, 1, height).await? {
        let (Touched::Corporation(corporation_id), Reading::Change(change)) = (&corporation, reading) else { continue };
        let policy = change.name.unwrap_or_default();
        found.extend(owned(source, *corporation_id, &policy, height).await?);
        found.push(corporation);
    }
    found.extend(sessions(source, height).await?);
    // What the block did itself keeps its own cause.
    for one in found.into_iter().filter(|one| !facts.touched.contains_key(one)).collect::<Vec<_>>() {
        facts.note(one, &cause);
    }
    Ok(())
}

/// Entities with ids from 1 on, until so many strides in a row hold none.
async fn dense(
    source: Source<'_>,
    kind: fn(u64) -> Touched,
    patience: usize,
    height: u64,
) -> Result<Vec<(Touched, Reading)>, NodeError> {
    let mut found = Vec::new();
    let (mut first, mut empty) = (1, 0);
    loop {
        let reads = (first..first + STRIDE).map(|id| async move {
            let one = kind(id);
            let reading = source.read(&one, height).await?;
            Ok::<_, NodeError>((one, reading))
        });
        let read: Vec<_> = stream::iter(reads).buffered(8).try_collect().await?;
        let is_there = |(_, reading): &(Touched, Reading)| match reading {
            Reading::Change(change) => change.body.is_some(),
            Reading::Allowance { allowance, .. } => allowance.is_some(),
        };
        let before = found.len();
        found.extend(read.into_iter().filter(is_there));
        empty = if found.len() == before { empty + 1 } else { 0 };
        if empty == patience {
            return Ok(found);
        }
        first += STRIDE;
    }
}

/// What hangs on a corporation: its group and proposals, its deposit, and the fees it pays for others.
async fn owned(source: Source<'_>, id: u64, policy: &str, height: u64) -> Result<Vec<Touched>, NodeError> {
    let mut found = vec![Touched::Group { corporation_id: id, policy: policy.to_owned() }, Touched::TrustDeposit(id)];
    let mut key = Vec::new();
    loop {
        let request = QueryProposalsByGroupPolicyRequest { address: policy.to_owned(), pagination: page(key) };
        let reply: Option<QueryProposalsByGroupPolicyResponse> =
            source.ask_group("ProposalsByGroupPolicy", &request, height).await?;
        let reply = reply.unwrap_or_default();
        found.extend(reply.proposals.iter().map(|proposal| Touched::Proposal(proposal.id)));
        key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
        if key.is_empty() {
            break;
        }
    }
    loop {
        let request = QueryAllowancesByGranterRequest { granter: policy.to_owned(), pagination: page(key) };
        let path = "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter";
        let reply: QueryAllowancesByGranterResponse = source.node.query(path, &request, height).await?;
        found.extend(
            reply
                .allowances
                .into_iter()
                .map(|grant| Touched::FeeAllowance { granter: grant.granter, grantee: grant.grantee }),
        );
        key = reply.pagination.map(|page| page.next_key).unwrap_or_default();
        if key.is_empty() {
            return Ok(found);
        }
    }
}

/// Sessions are listed by the time of their last change, strictly after an instant; those of one block share theirs, so the next
/// page begins just before the last one's.
async fn sessions(source: Source<'_>, height: u64) -> Result<Vec<Touched>, NodeError> {
    let mut found = Vec::new();
    let mut modified_after = None;
    loop {
        let request = pp_pb::QueryListParticipantSessionsRequest { modified_after, response_max_size: MOST };
        let reply: Option<pp_pb::QueryListParticipantSessionsResponse> =
            source.ask("pp", "ListParticipantSessions", &request, height).await?;
        let reply = reply.unwrap_or_default();
        let is_last = reply.participant_sessions.len() < MOST as usize;
        let last = reply.participant_sessions.last().and_then(|session| session.modified.as_ref()).map(instant::nanos);
        let known = found.len();
        for session in reply.participant_sessions {
            let one = Touched::Session(session.id);
            if !found.contains(&one) {
                found.push(one);
            }
        }
        if is_last || found.len() == known {
            return Ok(found);
        }
        modified_after = last.map(|last| instant::from_nanos(last - 1));
    }
}
