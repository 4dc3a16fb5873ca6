//! The barrier's decisions, and the actor through a restart.

use std::time::Duration;

use svc_kit::{
    RetainedState,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use tokio::time::Instant;

use super::{Barrier, BarrierHandle, core::HeightWaiters};

#[test]
fn each_waiter_is_answered_once_at_its_height_or_above() {
    let mut waiters = HeightWaiters::new(10);
    assert_eq!(waiters.add(10, "now"), Some("now"));
    for (height, waiter) in [(12, "b"), (11, "a"), (12, "c"), (20, "d")] {
        assert_eq!(waiters.add(height, waiter), None);
    }
    assert_eq!((waiters.lag(|_| true), waiters.lag(|waiter| *waiter != "d")), (10, 2));
    assert_eq!(waiters.advance_to(11), ["a"]);
    assert_eq!(waiters.advance_to(9), [""; 0], "a lower height changes nothing");
    assert_eq!(waiters.advance_to(15), ["b", "c"]);
    waiters.retain(|waiter| *waiter != "d");
    assert_eq!((waiters.len(), waiters.lag(|_| true), waiters.height()), (0, 0, 15));
    waiters.fall_back_to(20);
    assert_eq!(waiters.height(), 15);
    waiters.fall_back_to(12);
    assert_eq!((waiters.height(), waiters.add(13, "e")), (12, None), "the index was rolled back");
    assert_eq!(waiters.advance_to(13), ["e"]);
}

#[tokio::test]
async fn a_caller_is_answered_although_the_barrier_dies_while_it_waits() {
    let barrier = BarrierHandle::new("barrier", 16, RetainedState::default());
    let supervisor = Supervisor::new("test");
    let children = vec![ChildSpec::worker::<Barrier>(barrier.actor(), barrier.args(false))];
    supervisor.start(SupervisorSpec::one_for_one(children)).await.expect("starts");
    let waiting = tokio::spawn({
        let barrier = barrier.clone();
        async move { barrier.await_write_height(5, Instant::now() + Duration::from_secs(20)).await }
    });
    while barrier.actor().observe().await.is_none_or(|state| state["waiting"] != 1) {
        tokio::task::yield_now().await;
    }
    assert!(supervisor.kill("barrier").await);
    barrier.advance(5);
    assert_eq!(waiting.await.expect("ends"), Ok(5));
    barrier.fall_back(3);
    assert_eq!(barrier.height(), 3);
    let soon = || Instant::now() + Duration::from_millis(200);
    assert!(barrier.await_write_height(5, soon()).await.is_err(), "the height was reached by an index that is gone");
    barrier.advance(5);
    assert_eq!(barrier.await_write_height(5, soon()).await, Ok(5));
    supervisor.shutdown(Duration::from_secs(1)).await;
}
