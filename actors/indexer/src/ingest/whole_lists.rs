//! Lists of the chain that have a bound and no cursor. They are read to their end; a list that may be cut is an error.

use std::collections::BTreeSet;

use svc_net::upstream::{CutList, LIST_LIMIT, require_whole};
use svc_wire::{
    proto::svc::{de::v1 as de_pb, pp::v1 as pp_pb},
    timestamp,
};

use super::{error::IngestError, node_reader::NodeReader};
use crate::block::{self, EntityRef, KnownMessages};

/// Returns a list that is known to have every entry.
fn require_answer<T>(subject: &str, answer: Option<Vec<T>>) -> Result<Vec<T>, CutList> {
    require_whole(subject, answer.ok_or_else(|| CutList::new(subject, "the node has no such list"))?)
}

/// Lists the authorizations of a corporation. The ids of revoked ones are gaps of any size, so that no walk over the ids finds the end.
pub async fn list_authorizations(
    source: NodeReader<'_>,
    corporation_id: u64,
    height: u64,
) -> Result<Vec<EntityRef>, IngestError> {
    let request = de_pb::QueryListOperatorAuthorizationsRequest {
        corporation_id,
        response_max_size: LIST_LIMIT,
        ..Default::default()
    };
    let reply: Option<de_pb::QueryListOperatorAuthorizationsResponse> =
        source.query_module("de", "ListOperatorAuthorizations", &request, height).await?;
    let subject = format!("operator authorizations of corporation {corporation_id}");
    let operators = require_answer(&subject, reply.map(|reply| reply.operator_authorizations))?;
    let request = de_pb::QueryListVsOperatorAuthorizationsRequest {
        corporation_id,
        response_max_size: LIST_LIMIT,
        ..Default::default()
    };
    let reply: Option<de_pb::QueryListVsOperatorAuthorizationsResponse> =
        source.query_module("de", "ListVSOperatorAuthorizations", &request, height).await?;
    let subject = format!("VS operator authorizations of corporation {corporation_id}");
    let vs_operators = require_answer(&subject, reply.map(|reply| reply.vs_operator_authorizations))?;
    let operators = operators.iter().map(|one| EntityRef::OperatorAuthorization(one.id));
    let vs_operators = vs_operators.iter().map(|one| EntityRef::VsOperatorAuthorization(one.id));
    Ok(operators.chain(vs_operators).collect())
}

/// The page of sessions after a page.
#[derive(Debug, PartialEq, Eq)]
enum NextSessions {
    /// There is none.
    End,
    /// It begins after an instant, nanoseconds since the epoch.
    After(i128),
    /// Every session of the page was changed at this instant: the block of the instant names all of them.
    BlockOf(i128),
    /// The page has no order in which another one could follow.
    Unordered,
}

/// Decides from the times of a page, which are in the order of the changes. `None` stands for a session without a time.
fn next_sessions(times: &[Option<i128>]) -> NextSessions {
    if times.len() < LIST_LIMIT as usize {
        return NextSessions::End;
    }
    match (times.first().copied().flatten(), times.last().copied().flatten()) {
        (Some(first), Some(last)) if first == last => NextSessions::BlockOf(last),
        // Sessions of one block share a time, and the page may end between two of them.
        (Some(first), Some(last)) if first < last => NextSessions::After(last - 1),
        _ => NextSessions::Unordered,
    }
}

/// The subject of errors about lists of sessions.
const SESSIONS: &str = "participant sessions";

/// Lists sessions whose last change is after an instant, nanoseconds since the epoch, and returns the instant after which the next ones
/// are, with some of these again. The node lists them by the time of their last change.
pub async fn list_sessions(
    source: NodeReader<'_>,
    after: Option<i128>,
    height: u64,
) -> Result<(BTreeSet<String>, Option<i128>), IngestError> {
    let request = pp_pb::QueryListParticipantSessionsRequest {
        modified_after: after.map(timestamp::from_unix_nanos),
        response_max_size: LIST_LIMIT,
    };
    let reply: Option<pp_pb::QueryListParticipantSessionsResponse> =
        source.query_module("pp", "ListParticipantSessions", &request, height).await?;
    let page = reply.ok_or_else(|| CutList::new(SESSIONS, "the node has no such list"))?.participant_sessions;
    let times: Vec<_> = page.iter().map(|one| one.modified.as_ref().map(timestamp::unix_nanos)).collect();
    let ids: BTreeSet<String> = page.into_iter().map(|one| one.id).collect();
    match next_sessions(&times) {
        NextSessions::End => Ok((ids, None)),
        NextSessions::After(instant) if after.is_none_or(|before| before < instant) => Ok((ids, Some(instant))),
        NextSessions::BlockOf(instant) => {
            let of_block = sessions_of_instant(source, instant, height).await?;
            if let Some(unknown) = ids.difference(&of_block).next() {
                let reason = format!("session {unknown} is in no event of the block of its last change");
                return Err(CutList::new(SESSIONS, reason).into());
            }
            Ok((of_block, Some(instant)))
        }
        NextSessions::After(_) | NextSessions::Unordered => {
            Err(CutList::new(SESSIONS, "a page is not in the order of the changes").into())
        }
    }
}

/// Returns the sessions that the block of an instant names.
async fn sessions_of_instant(
    source: NodeReader<'_>,
    instant: i128,
    height: u64,
) -> Result<BTreeSet<String>, IngestError> {
    let cut = |reason: String| CutList::new(SESSIONS, reason);
    let known = KnownMessages::compiled(source.registry.namespace()).map_err(|error| cut(error.to_string()))?;
    let first = find_block_of(source, instant, height).await?;
    let mut found = BTreeSet::new();
    for at in first..=height {
        let block = source.node.read_at_any(|node| async move { node.block(at).await }).await?;
        let results = source.node.read_at_any(|node| async move { node.block_results(at).await }).await?;
        let facts = block::decode_block(&block, &results, &known).ok_or(IngestError::InvalidBlockTime(at))?;
        if facts.time != instant {
            break;
        }
        found.extend(facts.entities.into_keys().filter_map(|one| match one {
            EntityRef::Session(id) => Some(id),
            _ => None,
        }));
    }
    if found.is_empty() {
        return Err(cut(format!("more than {LIST_LIMIT} share an instant, of which no block is there")).into());
    }
    Ok(found)
}

/// Returns the first block that is not before an instant. Times of blocks grow with their heights; the heights that no node has any more
/// are the lowest ones.
async fn find_block_of(source: NodeReader<'_>, instant: i128, height: u64) -> Result<u64, IngestError> {
    let (mut low, mut high) = (1, height);
    while low < high {
        let middle = low + (high - low) / 2;
        let is_before = match source.node.read_at_any(|node| async move { node.block(middle).await }).await {
            Ok(block) => {
                let time = timestamp::parse_rfc3339(&block.block.header.time);
                let time = time.as_ref().map(timestamp::unix_nanos).ok_or(IngestError::InvalidBlockTime(middle))?;
                time < instant
            }
            Err(error) if error.is_pruned() => true,
            Err(error) => return Err(error.into()),
        };
        if is_before {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_of_sessions_is_followed_by_one_that_repeats_its_last_instant() {
        let page = |len: usize, first: Option<i128>, last: Option<i128>| {
            let mut times = vec![first; len];
            if let Some(one) = times.last_mut() {
                *one = last;
            }
            times
        };
        for (times, expected) in [
            (vec![], NextSessions::End),
            (page(1_023, Some(1), Some(2)), NextSessions::End),
            (page(1_024, Some(1), Some(2)), NextSessions::After(1)),
            (page(1_024, Some(1), Some(9)), NextSessions::After(8)),
            (page(1_024, Some(9), Some(9)), NextSessions::BlockOf(9)),
            (page(1_024, Some(9), Some(2)), NextSessions::Unordered),
            (page(1_024, None, Some(2)), NextSessions::Unordered),
            (page(1_024, Some(2), None), NextSessions::Unordered),
        ] {
            assert_eq!(next_sessions(&times), expected);
        }
    }

    #[test]
    fn a_list_as_long_as_a_node_gives_may_be_cut() {
        assert_eq!(require_answer("s", Some(vec![0; 1_023])).map(|entries| entries.len()), Ok(1_023));
        for answer in [Some(vec![0; 1_024]), None] {
            let error = require_answer("s", answer).expect_err("it may be cut");
            assert!(error.to_string().starts_with("the list of s may be cut: the node "), "{error}");
        }
    }
}
