//! The actor on a paused clock, with work that is due. The rules of sessions are those of the kit.

use std::{sync::Mutex, time::Duration};

use svc_kit::supervision::{Supervisor, SupervisorSpec};
use tokio::{sync::mpsc, time::Instant};

use super::*;

/// Work that tells each read of the outbox.
struct Work {
    reads: mpsc::UnboundedSender<Instant>,
    next: Mutex<Result<Option<i64>, AgentStoreError>>,
}

impl DirectoryWork for Work {
    fn wake_due_sessions(&self, now: i64, _: usize) -> BoxFuture<'_, Result<Option<i64>, AgentStoreError>> {
        let _ = self.reads.send(Instant::now());
        let next = std::mem::replace(&mut *self.next.lock().expect("not poisoned"), Ok(None));
        Box::pin(async move { next.map(|next| next.map(|after| now + after)) })
    }

    fn clean(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test(start_paused = true)]
async fn the_outbox_is_read_when_messages_are_due_and_at_most_four_times_a_second() {
    let (reads, mut read) = mpsc::unbounded_channel();
    let work = Arc::new(Work { reads, next: Mutex::new(Ok(Some(7))) });
    let (directory, tree) = (PeerDirectory::default(), Supervisor::new("test"));
    let children = directory.child_specs(Arc::clone(&work) as Arc<dyn DirectoryWork>);
    tree.start(SupervisorSpec::one_for_one(children.into())).await.expect("starts");
    let mut last = read.recv().await.expect("a read at the start");
    let mut pause = async || {
        let at = read.recv().await.expect("a read");
        at.duration_since(std::mem::replace(&mut last, at)).as_millis()
    };
    assert_eq!(pause().await / 100, 70, "the next message is due");
    assert_eq!(pause().await / 1_000, 60, "no message is due");
    for _ in 0..5 {
        directory.outbox_changed();
    }
    assert_eq!(pause().await / 10, 25, "the changes of a moment are one read");
    *work.next.lock().expect("not poisoned") = Err(AgentStoreError::Lost);
    directory.outbox_changed();
    assert_eq!(pause().await / 10, 25);
    assert_eq!(pause().await / 1_000, 5, "the store has failed");
    assert!(directory.actor.kill());
    assert!(pause().await < 1_000, "the next incarnation reads at its start");
    tree.shutdown(Duration::from_secs(1)).await;
}
