//! Tests of the times and rates.

use std::time::{Duration, Instant};

use super::core::{RequestRates, SweepCause, SweepTimes};

#[test]
fn a_sweep_begins_after_a_change_after_a_while_and_after_a_failure() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let cause = SweepCause::default();
    let changed = SweepCause { document: 2, ..cause };
    let mut times = SweepTimes::default();
    assert!(times.begins(cause, at(0)), "the first");
    assert!(!times.begins(changed, at(1)), "one at a time");
    times.ended(true);
    assert!(!times.begins(cause, at(14)) && !times.begins(changed, at(2)));
    assert!(times.begins(changed, at(3)), "after a change");
    times.ended(true);
    assert!(!times.begins(changed, at(17)) && times.begins(changed, at(18)), "after a while");
    times.ended(false);
    assert!(times.begins(changed, at(29)), "after a failure");
}

#[test]
fn a_peer_has_its_requests_in_a_minute_and_others_are_not_touched() {
    let (mut rates, start) = (RequestRates::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let taken = (0..20).filter(|_| rates.take("a", 10, at(0)).is_none()).count();
    assert_eq!((taken, rates.take("b", 10, at(1))), (10, None));
    assert_eq!(rates.take("a", 10, at(20)), Some(40));
    assert_eq!(rates.take("a", 10, at(60)), None);
    for peer in 0..30_000 {
        assert_eq!(rates.take(&peer.to_string(), 1, at(61)), None, "none is locked out by others");
    }
}
