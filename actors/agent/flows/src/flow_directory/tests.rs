//! The reading of participants, then the actor with sessions.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use svc_kit::supervision::{Supervisor, SupervisorSpec};
use tokio::sync::mpsc;

use super::{
    core::{MAX_ATTEMPTS, MAX_NAMED, ReadEnd, ReadStep, Reading},
    *,
};
use crate::flow_session::StepEnd;

fn page(after: Option<&str>, is_whole: bool) -> Option<ReadStep> {
    Some(ReadStep::Page { after: after.map(str::to_owned), is_whole })
}

fn at(height: u64, ids: impl IntoIterator<Item = u64>) -> Vec<NamedParticipant> {
    ids.into_iter().map(|id| NamedParticipant { id, height }).collect()
}

#[test]
fn events_go_before_pages_and_a_failed_part_is_read_again() {
    let mut reading = Reading::default();
    assert_eq!(reading.begin(), None);
    reading.want(false);
    assert_eq!(reading.begin(), page(None, false));
    reading.name(at(7, [3, 1]));
    assert_eq!(reading.begin(), None, "one part at a time");
    assert!(reading.ended(ReadEnd::Page(Some(Some("f".into())))));
    assert_eq!(reading.begin(), Some(ReadStep::Named(at(7, [1, 3]))));
    assert!(!reading.ended(ReadEnd::Named(at(7, [3]))));
    assert!(!reading.has_named());
    reading.name(at(8, [4]));
    assert_eq!(reading.begin(), Some(ReadStep::Named(at(8, [4]))), "others do not wait for the pause");
    assert!(reading.ended(ReadEnd::Named(vec![])));
    reading.pause_over();
    reading.name(at(6, [3]));
    assert_eq!(reading.begin(), Some(ReadStep::Named(at(7, [3]))), "the later height counts");
    assert!(reading.ended(ReadEnd::Named(vec![])));
    reading.pause_over();
    assert_eq!(reading.begin(), page(Some("f"), false));
    assert!(!reading.ended(ReadEnd::Page(None)));
    reading.want(true);
    assert_eq!(reading.begin(), page(Some("f"), false), "the page once more");
    assert!(reading.ended(ReadEnd::Page(Some(None))));
    assert_eq!(reading.begin(), page(None, true));
    assert!(reading.ended(ReadEnd::Page(Some(None))));
    assert_eq!(reading.begin(), None);
}

#[test]
fn a_height_that_never_comes_is_given_up_and_the_next_reading_is_whole() {
    let mut reading = Reading::default();
    let unreachable = at(u64::MAX, [5]);
    for attempt in 0..MAX_ATTEMPTS {
        reading.name(if attempt == 0 { unreachable.clone() } else { Vec::new() });
        reading.pause_over();
        assert_eq!(reading.begin(), Some(ReadStep::Named(unreachable.clone())), "attempt {attempt}");
        assert!(!reading.ended(ReadEnd::Named(unreachable.clone())));
    }
    reading.pause_over();
    assert_eq!(reading.begin(), None);
    for is_whole in [true, false] {
        reading.want(false);
        assert_eq!(reading.begin(), page(None, is_whole));
        assert!(reading.ended(ReadEnd::Page(Some(None))));
    }
}

#[test]
fn too_many_names_become_a_reading_of_all() {
    let mut reading = Reading::default();
    reading.name(at(1, 0..MAX_NAMED as u64));
    let Some(ReadStep::Named(some)) = reading.begin() else { panic!("a part") };
    assert!(!reading.ended(ReadEnd::Named(some)));
    reading.name(at(1, [u64::MAX]));
    assert_eq!(reading.begin(), page(None, true));
}

/// Flows that are due until their step was taken.
struct Work {
    directory: FlowDirectory,
    due: Mutex<Vec<String>>,
    steps: mpsc::UnboundedSender<String>,
    most_sessions: AtomicUsize,
    fails: AtomicBool,
}

impl FlowSteps for Work {
    fn step<'a>(&'a self, flow_id: &'a str, _: Duration) -> BoxFuture<'a, StepEnd> {
        self.most_sessions.fetch_max(self.directory.session_count(), Ordering::SeqCst);
        self.due.lock().expect("not poisoned").retain(|id| id != flow_id);
        let _ = self.steps.send(flow_id.to_owned());
        let fails = self.fails.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            assert!(!fails, "the test wants the session to die");
            StepEnd::AtRest
        })
    }

    fn is_at_rest(&self, flow_id: &Arc<str>, wakes: u64) {
        self.directory.session_is_at_rest(flow_id, wakes);
    }
}

impl FlowWork for Work {
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<DueFlows, AgentStoreError>> {
        let ids: Vec<String> = self.due.lock().expect("not poisoned").iter().take(limit).cloned().collect();
        let first_at = (!ids.is_empty()).then(now_millis);
        Box::pin(async move { Ok(DueFlows { ids, first_at }) })
    }

    fn wake_waiting(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn measure(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn follow_participant(&self, _: NamedParticipant) -> BoxFuture<'_, bool> {
        Box::pin(async { true })
    }

    fn participants<'a>(&'a self, _: Option<&'a str>, _: bool) -> BoxFuture<'a, Option<ParticipantPage>> {
        Box::pin(async { Some(ParticipantPage::default()) })
    }
}

/// Waits on the paused clock until no session is left.
async fn until_at_rest(directory: &FlowDirectory) {
    while directory.session_count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn due_flows_share_the_places_and_a_session_that_died_takes_its_step_again() {
    let (directory, tree) = (FlowDirectory::new(2), Supervisor::new("test"));
    let (steps, mut stepped) = mpsc::unbounded_channel();
    let work = Arc::new(Work {
        directory: directory.clone(),
        due: Mutex::new(["a", "b", "c", "d", "e"].map(str::to_owned).into()),
        steps,
        most_sessions: AtomicUsize::new(0),
        fails: AtomicBool::new(false),
    });
    let children = directory.child_specs(Arc::clone(&work) as Arc<dyn FlowWork>);
    tree.start(SupervisorSpec::one_for_one(children.into())).await.expect("starts");
    let mut taken = Vec::new();
    while taken.len() < 5 {
        taken.push(stepped.recv().await.expect("a step"));
    }
    taken.sort_unstable();
    assert_eq!(taken, ["a", "b", "c", "d", "e"], "each once");
    until_at_rest(&directory).await;
    assert!(work.most_sessions.load(Ordering::SeqCst) <= 2);
    // Its step is due until it was taken.
    work.fails.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        work.due.lock().expect("not poisoned").push("a".to_owned());
        directory.actor.tell(Msg::Changed(vec!["a".to_owned()])).expect("delivered");
        assert_eq!(stepped.recv().await.as_deref(), Some("a"));
        // The session that died has left its place.
        while directory.sessions.running("a").is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    until_at_rest(&directory).await;
    tree.shutdown(Duration::from_secs(1)).await;
}
