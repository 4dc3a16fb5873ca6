//! The decisions of the guard, then the actor with a store that fails.

use std::time::Duration;

use svc_kit::supervision::{Supervisor, SupervisorSpec};

use super::{
    core::{contradicts, state_after},
    *,
};
use crate::tests::{file_url, settings};

#[test]
fn a_write_that_contradicts_the_known_state_is_followed_by_a_look() {
    let failed = state_after(Err(AgentStoreError::CorruptRow("a row".to_owned())));
    assert!(matches!(&failed, StoreState::Failed(reason) if reason.contains("a row")), "{failed:?}");
    for (state, written, not_written) in [
        (state_after(Ok(())), false, true),
        (failed, true, false),
        (state_after(Err(AgentStoreError::Lost)), true, false),
    ] {
        assert_eq!((contradicts(&state, true), contradicts(&state, false)), (written, not_written), "{state:?}");
    }
    assert_eq!(state_after(Err(AgentStoreError::Lost)), StoreState::Lost);
}

#[tokio::test]
async fn a_failed_write_shows_at_once_and_the_state_outlives_the_actor() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = AgentStore::open(settings(&file_url(directory.path()), 1, None)).await.expect("opens");
    let (guard, child) = StoreGuardHandle::child_spec(store.clone());
    let tree = Supervisor::new("test");
    tree.start(SupervisorSpec::one_for_one(vec![child])).await.expect("starts");
    assert_eq!(guard.state(), StoreState::Writable);
    store.close().await;
    guard.note_write(false);
    let limit = Duration::from_secs(4);
    let shown = tokio::time::timeout(limit, async {
        while guard.state() == StoreState::Writable {
            tokio::task::yield_now().await;
        }
    });
    shown.await.expect("before the next look of the timer");
    assert!(matches!(guard.state(), StoreState::Failed(_)), "{:?}", guard.state());
    assert!(guard.actor.kill());
    assert!(matches!(guard.state(), StoreState::Failed(_)));
    assert!(guard.actor.wait_until_up(limit).await);
    assert!(matches!(guard.state(), StoreState::Failed(_)));
    tree.shutdown(Duration::from_secs(1)).await;
}
