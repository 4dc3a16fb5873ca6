//! The directory of sessions with peers: starts one when a peer has work, and ends it when it is idle.
//!
//! It owns the time of the next message that is due, and starts and ends the sessions of a [`SessionDirectory`]. When the directory dies,
//! the sessions go on; its next incarnation reads the due messages from the store.

mod actor;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use svc_agent_core::peer_tag::peer_tag;
use svc_agent_store::AgentStoreError;
use svc_kit::{Handle, SessionDirectory, SessionError, impl_actor_message, supervision::ChildSpec};

use crate::peer_session::PeerSessionHandle;

/// Sessions at the same time.
const MAX_SESSIONS: usize = 10_000;
/// Messages that may wait: one of a kind is enough.
const MAILBOX: usize = 4_096;

/// The work of the directory, which starts sessions.
pub trait DirectoryWork: Send + Sync + 'static {
    /// Wakes the sessions whose messages are due, so many at a time; returns the time at which the next one is.
    fn wake_due_sessions(&self, now: i64, limit: usize) -> BoxFuture<'_, Result<Option<i64>, AgentStoreError>>;
    /// Removes old rows.
    fn clean(&self) -> BoxFuture<'_, ()>;
}

/// Messages of the directory.
pub(crate) enum Msg {
    /// The outbox of a connection has changed, or the time of its next message has come.
    Wake,
    /// A session has nothing to do.
    SessionIdle(Arc<str>),
    /// Old rows are removed.
    Clean,
}

impl_actor_message!(Msg { Wake, SessionIdle, Clean });

/// The sessions, and the address of the directory.
#[derive(Clone)]
pub struct PeerDirectory {
    actor: Handle<Msg>,
    sessions: SessionDirectory<Arc<str>, PeerSessionHandle>,
}

/// A session in use: it does not end meanwhile.
pub(crate) type SessionLease = svc_kit::SessionLease<Arc<str>, PeerSessionHandle>;

impl Default for PeerDirectory {
    /// A directory without sessions.
    fn default() -> Self {
        let actor = Handle::new("peer_directory", "peer_directory", MAILBOX);
        Self { actor, sessions: SessionDirectory::new("peer_sessions", MAX_SESSIONS) }
    }
}

impl PeerDirectory {
    /// The child specifications that start the supervisor of the sessions and the actor.
    pub fn child_specs(&self, work: Arc<dyn DirectoryWork>) -> [ChildSpec; 2] {
        let args = actor::Args { directory: self.clone(), work };
        [self.sessions.child_spec(), ChildSpec::worker::<actor::PeerDirectoryActor>(&self.actor, args)]
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.sessions.session_count()
    }

    /// The session with a peer, by the comparable form of the DID that it is known by. One that does not run is started.
    pub(crate) async fn session(
        &self,
        peer: &str,
        child_spec: impl FnOnce(&PeerSessionHandle, Arc<str>) -> ChildSpec,
    ) -> Result<SessionLease, SessionError> {
        let peer: Arc<str> = peer.into();
        let describe = || {
            let session = PeerSessionHandle::new(&peer_tag(&peer));
            let child = child_spec(&session, Arc::clone(&peer));
            (session, child)
        };
        self.sessions.session(Arc::clone(&peer), describe).await
    }

    /// Ends a session that nothing uses.
    pub(crate) async fn end_idle(&self, peer: &str) {
        let Some(session) = self.sessions.peek(peer) else { return };
        if session.is_idle().await {
            self.sessions.end_unused(peer).await;
        }
    }

    /// Tells of a change of the outbox.
    pub fn outbox_changed(&self) {
        self.actor.notify(Msg::Wake);
    }

    /// Tells of a session that has nothing to do.
    pub fn session_is_idle(&self, peer: &Arc<str>) {
        self.actor.notify(Msg::SessionIdle(Arc::clone(peer)));
    }
}
