//! The directory of sessions: starts on demand, uses, ends, and its bounds.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures::FutureExt;

use crate::{
    AskError, Handle, SessionDirectory, SessionError, SessionLease,
    supervision::{ChildSpec, RestartMode, Supervisor, SupervisorSpec},
};

use super::fixture::{Args, FaultyActor, Msg, TEST_TIMEOUT};

struct Fixture {
    root: Supervisor,
    sessions: SessionDirectory<Arc<str>, Handle<Msg>>,
    starts: Arc<AtomicU32>,
}

impl Fixture {
    async fn start(limit: usize) -> Self {
        let (root, sessions) = (Supervisor::new("root"), SessionDirectory::new("sessions", limit));
        root.start(SupervisorSpec::one_for_one(vec![sessions.child_spec()])).await.expect("the tree starts");
        Self { root, sessions, starts: Arc::default() }
    }

    async fn session(&self, key: &str) -> Result<SessionLease<Arc<str>, Handle<Msg>>, SessionError> {
        let starts = Arc::clone(&self.starts);
        let describe = || {
            let session = Handle::new("probe", format!("session/{key}"), 8);
            let args = Args { starts, ..Args::default() };
            let child = ChildSpec::worker::<FaultyActor>(&session, args).restart_mode(RestartMode::Temporary);
            (session, child)
        };
        self.sessions.session(key.into(), describe).await
    }

    fn starts(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }

    /// Names of the sessions that run.
    async fn names(&self) -> Vec<String> {
        let report = self.root.report().await;
        report[0].children.iter().map(|session| session.name.clone()).collect()
    }

    async fn until(&self, mut holds: impl AsyncFnMut() -> bool) {
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            while !holds().await {
                tokio::task::yield_now().await;
            }
        });
        waited.await.expect("in time");
    }
}

#[tokio::test]
async fn a_key_has_one_session_for_all_that_ask_at_once() {
    let fixture = Fixture::start(8).await;
    let leases = futures::future::join_all((0..20).map(|_| fixture.session("a"))).await;
    let mut numbers: Vec<u64> = leases.iter().map(|lease| lease.as_ref().expect("a session").number()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<u64>>(), "each use has a number");
    assert_eq!((fixture.starts(), fixture.sessions.session_count()), (1, 1));
    let other = fixture.session("b").await.expect("a session");
    assert_eq!(other.ask(Msg::Count).await, Ok(1));
    assert_eq!(fixture.names().await, ["session/a", "session/b"]);
    assert!(fixture.sessions.running("c").is_none() && fixture.sessions.peek("c").is_none());
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_one_session() {
    let fixture = Fixture::start(8).await;
    assert!(fixture.session("a").now_or_never().is_none(), "the start takes more than a moment");
    let lease = fixture.session("a").await.expect("a session");
    assert_eq!((fixture.starts(), lease.ask(Msg::Count).await), (1, Ok(1)));
    drop(lease);
    fixture.sessions.end_unused("a").await;
    assert_eq!(fixture.names().await, Vec::<String>::new(), "nothing uses it");
}

#[tokio::test]
async fn sessions_are_bounded_and_one_that_has_stopped_leaves_its_place() {
    let fixture = Fixture::start(2).await;
    let first = fixture.session("a").await.expect("a session");
    let _second = fixture.session("b").await.expect("a session");
    assert!(!fixture.sessions.has_place());
    assert_eq!(fixture.session("c").await.err(), Some(SessionError::TooMany { limit: 2 }));
    assert!(fixture.session("a").await.is_ok(), "a session that runs needs no place");
    first.tell(Msg::Fail).expect("delivered");
    fixture.until(async || fixture.sessions.has_place()).await;
    assert!(fixture.session("c").await.is_ok());
    assert_eq!(fixture.names().await, ["session/b", "session/c"]);
}

#[tokio::test]
async fn a_session_that_has_stopped_is_replaced_and_its_users_do_not_count_for_the_next() {
    let fixture = Fixture::start(8).await;
    let first = fixture.session("a").await.expect("a session");
    assert!(matches!(first.ask(|_| Msg::Panic).await, Err::<u64, _>(AskError::ActorDied { .. })));
    fixture.until(async || fixture.sessions.running("a").is_none()).await;
    let second = fixture.session("a").await.expect("a session");
    assert_eq!((fixture.starts(), second.number()), (2, 0));
    drop(first);
    fixture.sessions.end_unused("a").await;
    assert_eq!(second.ask(Msg::Count).await, Ok(1), "it is in use");
}

#[tokio::test]
async fn a_session_ends_when_nothing_uses_it() {
    let fixture = Fixture::start(8).await;
    let (first, second) = (fixture.session("a").await.expect("one"), fixture.session("a").await.expect("the same"));
    drop(first);
    fixture.sessions.end_unused("a").await;
    assert_eq!(second.ask(Msg::Count).await, Ok(1), "one of two uses is left");
    let handle = fixture.sessions.peek("a").expect("it runs");
    drop(second);
    fixture.sessions.end_unused("a").await;
    assert!(matches!(handle.ask(Msg::Count).await, Err(AskError::NotDelivered { .. })));
    assert_eq!((fixture.sessions.session_count(), fixture.names().await.len()), (0, 0));
    fixture.sessions.end_unused("a").await;
}

#[tokio::test]
async fn a_session_at_rest_ends_unless_it_was_used_since() {
    let fixture = Fixture::start(8).await;
    drop(fixture.session("a").await.expect("a session"));
    let number = fixture.sessions.running("a").expect("it runs").number();
    assert_eq!(number, 1, "the start is the use 0");
    fixture.sessions.end_at_rest("a", 0).await;
    assert_eq!(fixture.sessions.session_count(), 1, "it was used since");
    let lease = fixture.sessions.running("a").expect("it runs");
    fixture.sessions.end_at_rest("a", 2).await;
    assert_eq!(fixture.sessions.session_count(), 1, "it is in use");
    drop(lease);
    fixture.sessions.end_at_rest("a", 2).await;
    assert_eq!(fixture.sessions.session_count(), 0);
}

#[tokio::test]
async fn a_restart_of_the_supervisor_empties_the_directory() {
    let fixture = Fixture::start(8).await;
    let lost = fixture.session("a").await.expect("a session");
    assert!(fixture.root.kill("sessions").await);
    fixture.until(async || fixture.sessions.session_count() == 0 && fixture.root.is_up()).await;
    assert!(lost.ask(Msg::Count).await.is_err());
    let lease = fixture.session("a").await.expect("a session");
    assert_eq!((lease.ask(Msg::Count).await, fixture.starts()), (Ok(1), 2));
}
