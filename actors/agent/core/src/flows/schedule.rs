//! The time at which a flow is looked at again. Pure.

use std::time::Duration;

use svc_didcomm::flow::{FlowRecord, FlowState, Progress, next_work};

/// Longest time behind which a flow that waits for people is looked at again.
pub const BLOCKED_PAUSE: Duration = Duration::from_secs(60);
/// Shortest one: many reasons pass with the next blocks.
const LEAST_BLOCKED_PAUSE: Duration = Duration::from_secs(1);

/// The time behind which a flow that waits is looked at again: the longer, the longer it waits. `now` is in milliseconds since the epoch.
pub fn pause_of(record: &FlowRecord, now: i64) -> Duration {
    let since = record.blocked.as_ref().map_or(now, |blocked| blocked.at);
    let waited = Duration::from_millis(now.saturating_sub(since).max(0).unsigned_abs());
    (waited / 2).clamp(LEAST_BLOCKED_PAUSE, BLOCKED_PAUSE)
}

/// The time of the next look at a flow that has changed; none while it waits for its peer, for a call or for the chain.
pub fn next_look(progress: &Progress, now: i64) -> Option<i64> {
    let record = &progress.record;
    // A message of the peer ends its silence, and no look does.
    let is_blocked = record.blocked.is_some() && !record.is_blocked_by_silence() && !record.state.is_terminal();
    // A credential that was revoked leaves the document and the store.
    let has_lost = progress.changes.contains(&FlowState::CredRevoked);
    match (is_blocked, next_work(record).is_some() || has_lost) {
        (true, _) => Some(now.saturating_add(i64::try_from(pause_of(record, now).as_millis()).unwrap_or(i64::MAX))),
        (false, true) => Some(now),
        (false, false) => record.silent_from(),
    }
}

#[cfg(test)]
mod tests {
    use svc_didcomm::flow::{Exchange, PATIENCE_MILLIS, PEER_SILENT};

    use super::{super::testing::direct_validation, *};

    #[test]
    fn a_flow_is_looked_at_when_it_has_a_step_and_the_rarer_the_longer_it_waits() {
        let mut progress = Progress::of(direct_validation(1_000));
        assert_eq!(next_look(&progress, 1_000), None, "the operator decides");
        progress.block("NO_GRANT", "no grant", 1_000);
        for (now, pause) in [(1_000, 1_000), (3_000, 1_000), (21_000, 10_000), (1_000_000, 60_000)] {
            assert_eq!(next_look(&progress, now), Some(now + pause));
        }
        progress.go_on(2_000);
        progress.changes.push(FlowState::CredRevoked);
        assert_eq!(next_look(&progress, 2_000), Some(2_000));
        progress.changes.clear();
        progress.record.state = FlowState::CredOffered;
        progress.record.exchange = Some(Exchange { thread: "x".to_owned(), is_requested: false, is_delivered: false });
        assert_eq!(next_look(&progress, 2_000), Some(2_000 + PATIENCE_MILLIS), "the offer may stay unanswered");
        progress.block(PEER_SILENT, "no answer", 400_000);
        assert_eq!(next_look(&progress, 400_000), None, "the peer goes on, or people do");
        progress.record.state = FlowState::Error;
        progress.block("NO_GRANT", "no grant", 2_000);
        assert_eq!(next_look(&progress, 2_000), None, "it has ended");
    }
}
