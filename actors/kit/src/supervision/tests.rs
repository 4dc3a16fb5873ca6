//! Tests of the restart policy.

use std::time::Duration;

use tokio::time::Instant;

use super::core::*;
use crate::backoff::Backoff;

fn policy(strategy: RestartStrategy) -> RestartPolicy {
    let mut policy =
        RestartPolicy::new(strategy, RestartIntensity { max_restarts: 3, period: Duration::from_secs(10) });
    for (id, restart) in [(1, RestartMode::Permanent), (2, RestartMode::Transient), (3, RestartMode::Temporary)] {
        policy.add(id, restart, Backoff::RESTART);
    }
    policy
}

fn restarted(decision: &RestartDecision) -> Vec<u64> {
    match decision {
        RestartDecision::Restart { children, .. } => children.clone(),
        RestartDecision::Forget | RestartDecision::Escalate => Vec::new(),
    }
}

#[test]
fn a_restart_depends_on_the_mode_of_the_child_and_on_its_exit() {
    let now = Instant::now();
    for (id, exit, expected) in [
        (1, ExitReason::Normal, vec![1]),
        (1, ExitReason::Failed, vec![1]),
        (2, ExitReason::Normal, vec![]),
        (2, ExitReason::Failed, vec![2]),
        (3, ExitReason::Normal, vec![]),
        (3, ExitReason::Failed, vec![]),
        (9, ExitReason::Failed, vec![]),
    ] {
        let decision = policy(RestartStrategy::OneForOne).decide_on_exit(id, exit, now, 0.5);
        assert_eq!(restarted(&decision), expected, "{id} {exit:?}");
    }
}

#[test]
fn rest_for_one_restarts_the_later_children_too() {
    let now = Instant::now();
    assert_eq!(
        restarted(&policy(RestartStrategy::RestForOne).decide_on_exit(1, ExitReason::Failed, now, 0.5)),
        [1, 2, 3]
    );
    assert_eq!(restarted(&policy(RestartStrategy::RestForOne).decide_on_exit(2, ExitReason::Failed, now, 0.5)), [2, 3]);
}

#[test]
fn too_many_restarts_within_the_window_escalate_and_old_ones_do_not_count() {
    let (mut policy, start) = (policy(RestartStrategy::OneForOne), Instant::now());
    for _ in 0..3 {
        assert!(matches!(policy.decide_on_exit(1, ExitReason::Failed, start, 0.5), RestartDecision::Restart { .. }));
    }
    assert_eq!(policy.decide_on_exit(2, ExitReason::Failed, start, 0.5), RestartDecision::Escalate);
    let later = start + Duration::from_secs(10);
    policy.record_start(1, start);
    assert_eq!(policy.decide_on_exit(1, ExitReason::Failed, later, 0.5), RestartDecision::Escalate, "never healthy");
    policy.record_start(1, start);
    let healthy = start + HEALTHY_AFTER;
    assert!(matches!(policy.decide_on_exit(1, ExitReason::Failed, healthy, 0.5), RestartDecision::Restart { .. }));
}

/// With the delays of the backoff fewer than ten restarts fit into ten seconds.
#[test]
fn one_child_that_keeps_failing_escalates_despite_its_backoff() {
    let intensity = RestartIntensity { max_restarts: 10, period: Duration::from_secs(10) };
    let mut policy = RestartPolicy::new(RestartStrategy::OneForOne, intensity);
    policy.add(1, RestartMode::Permanent, Backoff::RESTART);
    let (start, mut now) = (Instant::now(), Instant::now());
    let mut restarts = 0;
    while let RestartDecision::Restart { delay, .. } = policy.decide_on_exit(1, ExitReason::Failed, now, 0.5) {
        restarts += 1;
        now += delay;
        policy.record_start(1, now);
    }
    assert_eq!(restarts, 10);
    assert!(now.duration_since(start) > intensity.period, "the period alone would allow it forever");
}

#[test]
fn the_backoff_grows_and_starts_again_after_a_healthy_run() {
    let intensity = RestartIntensity { max_restarts: 100, period: Duration::from_secs(1) };
    let mut policy = RestartPolicy::new(RestartStrategy::OneForOne, intensity);
    policy.add(1, RestartMode::Permanent, Backoff::RESTART);
    let mut now = Instant::now();
    let mut delay_of_next = |healthy: Duration| {
        policy.record_start(1, now);
        now += healthy;
        match policy.decide_on_exit(1, ExitReason::Failed, now, 0.5) {
            RestartDecision::Restart { delay, .. } => delay.as_millis(),
            RestartDecision::Forget | RestartDecision::Escalate => panic!("expected a restart"),
        }
    };
    assert_eq!([5, 20, 80], [(); 3].map(|()| delay_of_next(Duration::from_secs(2))));
    assert_eq!(delay_of_next(HEALTHY_AFTER), 5);
}
