//! Tests of the order of the steps, and of the actor.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use svc_kit::{
    Session,
    supervision::{Supervisor, SupervisorSpec},
};
use tokio::sync::Notify;

use super::{
    Args, FlowSessionHandle, FlowSteps, StepEnd,
    core::{Next, Turn},
};

const PAUSE: Duration = Duration::from_millis(1);

#[test]
fn a_change_during_a_step_has_another_step_follow_and_a_pause_ends_once() {
    let mut turn = Turn::default();
    assert_eq!(turn.woken(), Some(Next::Step));
    assert_eq!(turn.woken(), None, "a step is being taken");
    assert_eq!(turn.stepped(StepEnd::AtRest), Some(Next::Step), "the flow has changed meanwhile");
    assert_eq!(turn.stepped(StepEnd::After(PAUSE)), Some(Next::Pause(PAUSE, 2)));
    assert_eq!(turn.woken(), Some(Next::Step), "a change does not wait for the pause");
    assert_eq!(turn.pause_over(2), None, "it is over too late");
    assert_eq!(turn.stepped(StepEnd::After(PAUSE)), Some(Next::Pause(PAUSE, 3)));
    assert_eq!(turn.pause_over(2), None);
    assert_eq!(turn.pause_over(3), Some(Next::Step));
    assert_eq!(turn.stepped(StepEnd::Again), Some(Next::Step));
    assert_eq!(turn.stepped(StepEnd::AtRest), Some(Next::Rest));
}

/// Steps with ends that are given, and the number of those that were taken.
struct Scripted {
    ends: Mutex<Vec<StepEnd>>,
    steps: AtomicUsize,
    wakes: AtomicU64,
    rested: Notify,
}

impl FlowSteps for Scripted {
    fn step<'a>(&'a self, flow_id: &'a str, _: Duration) -> BoxFuture<'a, StepEnd> {
        async move {
            assert_eq!(flow_id, "f");
            self.steps.fetch_add(1, Ordering::SeqCst);
            self.ends.lock().expect("a lock").pop().unwrap_or(StepEnd::AtRest)
        }
        .boxed()
    }

    fn is_at_rest(&self, flow_id: &Arc<str>, wakes: u64) {
        assert_eq!(&**flow_id, "f");
        self.wakes.store(wakes, Ordering::SeqCst);
        self.rested.notify_one();
    }
}

#[tokio::test]
async fn a_session_goes_on_until_nothing_is_left() {
    let ends = vec![StepEnd::AtRest, StepEnd::After(PAUSE), StepEnd::Again];
    let steps = Arc::new(Scripted {
        ends: Mutex::new(ends),
        steps: AtomicUsize::new(0),
        wakes: AtomicU64::new(9),
        rested: Notify::new(),
    });
    let session = FlowSessionHandle::new("f");
    let spec = session.child_spec(Args { flow_id: "f".into(), steps: Arc::clone(&steps) as Arc<dyn FlowSteps> });
    let supervisor = Supervisor::new("flows");
    supervisor.start(SupervisorSpec::one_for_one(vec![spec])).await.expect("started");
    steps.rested.notified().await;
    assert_eq!(steps.steps.load(Ordering::SeqCst), 3);
    assert_eq!(steps.wakes.load(Ordering::SeqCst), 0, "the directory has not woken it since its start");
    session.wake(7);
    steps.rested.notified().await;
    assert_eq!((steps.steps.load(Ordering::SeqCst), steps.wakes.load(Ordering::SeqCst)), (4, 7));
    assert!(!session.has_ended());
    supervisor.shutdown(PAUSE).await;
    assert!(session.has_ended());
}
