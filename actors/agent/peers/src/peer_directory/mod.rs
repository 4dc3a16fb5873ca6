//! The directory of sessions with peers: starts one when a peer has work, and ends it when it is idle.
//!
//! It owns the table of sessions and the time of the next message that is due. Sessions run under a supervisor of their own. When the
//! directory dies, the sessions go on; its next incarnation reads the due messages from the store.

mod actor;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use svc_agent_core::peer_tag::peer_tag;
use svc_agent_store::AgentStoreError;
use svc_kit::{
    ActorMessage, Handle,
    supervision::{ChildSpec, Supervisor, SupervisorError},
};

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

impl ActorMessage for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::SessionIdle(_) => "session_idle",
            Self::Clean => "clean",
        }
    }
}

struct Entry {
    session: PeerSessionHandle,
    child: u64,
    users: usize,
}

/// The sessions, and the address of the directory.
#[derive(Clone)]
pub struct PeerDirectory(Arc<Inner>);

struct Inner {
    actor: Handle<Msg>,
    sessions: Supervisor,
    table: Mutex<HashMap<Arc<str>, Entry>>,
    /// One session is started at a time, so that a peer never has two.
    starting: tokio::sync::Mutex<()>,
}

/// A session in use: it does not end meanwhile.
pub(crate) struct SessionLease {
    directory: PeerDirectory,
    peer: Arc<str>,
    session: PeerSessionHandle,
}

impl std::ops::Deref for SessionLease {
    type Target = PeerSessionHandle;

    fn deref(&self) -> &PeerSessionHandle {
        &self.session
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.directory.with_table(|table| {
            if let Some(entry) = table.get_mut(&self.peer) {
                entry.users = entry.users.saturating_sub(1);
            }
        });
    }
}

/// A session cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// Too many run.
    #[error("sessions with {MAX_SESSIONS} peers are open")]
    TooMany,
    /// The supervisor has ended.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

impl PeerDirectory {
    /// A directory whose sessions run under a supervisor.
    pub fn new(sessions: Supervisor) -> Self {
        let actor = Handle::new("peer_directory", "peer_directory", MAILBOX);
        Self(Arc::new(Inner { actor, sessions, table: Mutex::default(), starting: tokio::sync::Mutex::default() }))
    }

    /// The child specification that starts the actor.
    pub fn child_spec(&self, work: Arc<dyn DirectoryWork>) -> ChildSpec {
        let args = actor::Args { directory: self.clone(), work };
        ChildSpec::worker::<actor::PeerDirectoryActor>(&self.0.actor, args)
    }

    fn with_table<T>(&self, work: impl FnOnce(&mut HashMap<Arc<str>, Entry>) -> T) -> T {
        work(&mut self.0.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.with_table(|table| table.len())
    }

    /// The session with a peer, by the comparable form of the DID that it is known by. One that does not run is started.
    pub(crate) async fn session(
        &self,
        peer: &str,
        child_spec: impl FnOnce(&PeerSessionHandle, Arc<str>) -> ChildSpec,
    ) -> Result<SessionLease, SessionError> {
        let peer: Arc<str> = peer.into();
        if let Some(lease) = self.running(&peer) {
            return Ok(lease);
        }
        let _starting = self.0.starting.lock().await;
        if let Some(lease) = self.running(&peer) {
            return Ok(lease);
        }
        if self.session_count() >= MAX_SESSIONS {
            return Err(SessionError::TooMany);
        }
        let session = PeerSessionHandle::new(&peer_tag(&peer));
        let child = self.0.sessions.add(child_spec(&session, Arc::clone(&peer))).await?;
        let entry = Entry { session: session.clone(), child, users: 1 };
        self.with_table(|table| table.insert(Arc::clone(&peer), entry));
        Ok(SessionLease { directory: self.clone(), peer, session })
    }

    fn running(&self, peer: &Arc<str>) -> Option<SessionLease> {
        let session = self.with_table(|table| {
            if table.get(peer)?.session.has_ended() {
                table.remove(peer);
                return None;
            }
            let entry = table.get_mut(peer)?;
            entry.users += 1;
            Some(entry.session.clone())
        })?;
        Some(SessionLease { directory: self.clone(), peer: Arc::clone(peer), session })
    }

    /// Ends a session that nothing uses.
    pub async fn end_idle(&self, peer: &str) {
        let Some(session) = self.with_table(|table| table.get(peer).map(|entry| entry.session.clone())) else { return };
        if !session.is_idle().await {
            return;
        }
        let child = self.with_table(|table| {
            let is_idle = table.get(peer).is_some_and(|entry| entry.users == 0);
            if is_idle { table.remove(peer).map(|entry| entry.child) } else { None }
        });
        if let Some(child) = child {
            // A supervisor that has ended has ended its sessions too.
            let _ = self.0.sessions.remove(child).await;
        }
    }

    /// Tells of a change of the outbox.
    pub fn outbox_changed(&self) {
        self.0.actor.notify(Msg::Wake);
    }

    /// Tells of a session that has nothing to do.
    pub fn session_is_idle(&self, peer: &Arc<str>) {
        self.0.actor.notify(Msg::SessionIdle(Arc::clone(peer)));
    }
}
