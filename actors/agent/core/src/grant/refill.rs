//! The time of the next look at a write whose fee nothing pays. Pure.

use std::time::Duration;

use prost_types::Timestamp;
use svc_wire::timestamp;

/// Time after the refill of an allowance at which it is looked at: the node refills it with a block of that time or later.
const AFTER_REFILL: Duration = Duration::from_secs(1);

/// Time until the refill of an allowance; none once it has come.
pub fn time_to_refill(refills_at: &Timestamp, now: &Timestamp) -> Duration {
    let left = timestamp::unix_nanos(refills_at) - timestamp::unix_nanos(now);
    u64::try_from(left).map_or(Duration::ZERO, Duration::from_nanos)
}

/// Pause before the next look: the usual one, which also finds coins that no event announces, and no later than the refill.
pub fn pause_before_look(usual: Duration, refills_in: Option<Duration>) -> Duration {
    refills_in.map_or(usual, |left| usual.min(left.saturating_add(AFTER_REFILL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_look_is_at_the_refill_where_that_is_sooner_than_the_usual_one() {
        let at = |seconds, nanos| Timestamp { seconds, nanos };
        let now = at(1_000, 500_000_000);
        for (usual, refills_at, expected) in [
            (600_000, None, 600_000),
            (600_000, Some(at(1_030, 500_000_000)), 31_000),
            (600_000, Some(at(1_000, 750_000_000)), 1_250),
            (600_000, Some(at(1_599, 500_000_000)), 600_000),
            (600_000, Some(at(87_400, 0)), 600_000),
            // The block of that time has not come yet.
            (600_000, Some(at(1_000, 500_000_000)), 1_000),
            (600_000, Some(at(990, 0)), 1_000),
            (500, Some(at(990, 0)), 500),
            (60_000, Some(at(1_010, 500_000_000)), 11_000),
        ] {
            let refills_in = refills_at.as_ref().map(|at| time_to_refill(at, &now));
            let pause = pause_before_look(Duration::from_millis(usual), refills_in);
            assert_eq!(pause, Duration::from_millis(expected), "{usual} {refills_at:?}");
        }
    }
}
