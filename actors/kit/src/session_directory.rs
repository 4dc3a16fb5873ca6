//! Sessions by key, each an actor that runs while it has work.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, ops::Deref, sync::Arc};

use tokio::sync::Mutex;

use crate::{
    RetainedState,
    actor::{ActorMessage, ActorStatus, Handle},
    supervision::{ChildSpec, Supervisor, SupervisorError, SupervisorSpec},
};

/// The address of a session.
pub trait Session: Clone + Send + Sync + 'static {
    /// Whether the session has stopped for good.
    fn has_ended(&self) -> bool;
}

impl<M: ActorMessage> Session for Handle<M> {
    fn has_ended(&self) -> bool {
        self.status() == ActorStatus::Stopped
    }
}

/// The sessions of a kind: at most one per key, and a bounded number of them. A session is started on demand, and its owner ends it when it
/// is idle.
///
/// The table outlives the actors that use it, and nothing outside of this crate sees it. Sessions run under a supervisor of their own
/// ([`SessionDirectory::child_spec`]); its restart empties the table. The child specification of a session says whether it is restarted:
/// the directory replaces a session that has stopped for good when it is asked for it.
pub struct SessionDirectory<K, S> {
    supervisor: Supervisor,
    table: RetainedState<Table<K, S>>,
    limit: usize,
    /// One session is started at a time, so that a key never has two.
    starting: Arc<Mutex<()>>,
}

struct Table<K, S> {
    entries: HashMap<K, Entry<S>>,
    /// Number of the supervisor's start.
    incarnation: u64,
}

struct Entry<S> {
    session: S,
    child: u64,
    users: usize,
    /// Number of the last use; that of the start is 0.
    last_use: u64,
}

/// A session cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Too many run.
    #[error("{limit} sessions are open")]
    TooMany {
        /// The bound.
        limit: usize,
    },
    /// The supervisor has ended, or the session did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}

/// A session in use: it does not end meanwhile.
pub struct SessionLease<K: Eq + Hash, S> {
    table: RetainedState<Table<K, S>>,
    key: K,
    session: S,
    child: u64,
    number: u64,
}

impl<K: Eq + Hash, S> SessionLease<K, S> {
    /// The number of this use. A session that reports it when it is at rest can be ended unless it was used since
    /// ([`SessionDirectory::end_at_rest`]).
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl<K: Eq + Hash, S> Deref for SessionLease<K, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.session
    }
}

impl<K: Eq + Hash, S> Drop for SessionLease<K, S> {
    fn drop(&mut self) {
        self.table.with(|table| {
            // A successor of the session has other users.
            if let Some(entry) = table.entries.get_mut(&self.key).filter(|entry| entry.child == self.child) {
                entry.users = entry.users.saturating_sub(1);
            }
        });
    }
}

impl<K, S> Clone for SessionDirectory<K, S> {
    fn clone(&self) -> Self {
        Self {
            supervisor: self.supervisor.clone(),
            table: self.table.clone(),
            limit: self.limit,
            starting: Arc::clone(&self.starting),
        }
    }
}

impl<K, S> SessionDirectory<K, S>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    S: Session,
{
    /// An empty directory of at most `limit` sessions. `supervisor` is the name of their supervisor.
    pub fn new(supervisor: impl Into<Arc<str>>, limit: usize) -> Self {
        Self {
            supervisor: Supervisor::new(supervisor),
            table: RetainedState::new(Table { entries: HashMap::new(), incarnation: 0 }),
            limit,
            starting: Arc::default(),
        }
    }

    /// The child specification that starts the supervisor of the sessions. After a restart there are none.
    pub fn child_spec(&self) -> ChildSpec {
        let table = self.table.clone();
        ChildSpec::supervisor(&self.supervisor, move || {
            table.with(|table| {
                table.entries.clear();
                table.incarnation += 1;
            });
            SupervisorSpec::one_for_one(Vec::new())
        })
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.table.with(|table| table.entries.len())
    }

    /// Whether another session may run. Sessions that have stopped leave their places.
    pub fn has_place(&self) -> bool {
        self.table.with(|table| {
            if table.entries.len() >= self.limit {
                table.entries.retain(|_, entry| !entry.session.has_ended());
            }
            table.entries.len() < self.limit
        })
    }

    /// The session of a key, while it runs, without a use of it.
    pub fn peek<Q>(&self, key: &Q) -> Option<S>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.table.with(|table| table.entries.get(key).map(|entry| entry.session.clone()))
    }

    /// Uses the session of a key; `None` when it does not run.
    pub fn running<Q>(&self, key: &Q) -> Option<SessionLease<K, S>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.table.with(|table| {
            let (key, entry) = table.entries.remove_entry(key)?;
            if entry.session.has_ended() {
                return None;
            }
            let entry = table.entries.entry(key.clone()).insert_entry(entry).into_mut();
            entry.users += 1;
            entry.last_use += 1;
            Some(self.lease(key, entry))
        })
    }

    fn lease(&self, key: K, entry: &Entry<S>) -> SessionLease<K, S> {
        let (session, child, number) = (entry.session.clone(), entry.child, entry.last_use);
        SessionLease { table: self.table.clone(), key, session, child, number }
    }

    /// Uses the session of a key, and starts it when it does not run. `describe` yields its address and child specification. The start
    /// goes on when the caller does not wait for it.
    ///
    /// # Errors
    /// When too many sessions run, and when the session does not start.
    pub async fn session(
        &self,
        key: K,
        describe: impl FnOnce() -> (S, ChildSpec),
    ) -> Result<SessionLease<K, S>, SessionError> {
        if let Some(lease) = self.running(&key) {
            return Ok(lease);
        }
        let ((session, child), directory) = (describe(), self.clone());
        let start = tokio::spawn(async move { directory.start(key, session, child).await });
        let not_running = |_| SupervisorError::NotRunning("the start of a session was cancelled".to_owned());
        start.await.map_err(not_running)?
    }

    async fn start(&self, key: K, session: S, child: ChildSpec) -> Result<SessionLease<K, S>, SessionError> {
        let _starting = self.starting.lock().await;
        if let Some(lease) = self.running(&key) {
            return Ok(lease);
        }
        if !self.has_place() {
            return Err(SessionError::TooMany { limit: self.limit });
        }
        let incarnation = self.table.with(|table| table.incarnation);
        let child = self.supervisor.add(child).await?;
        let entry = Entry { session, child, users: 1, last_use: 0 };
        let lease = self.lease(key.clone(), &entry);
        let is_current = self.table.with(|table| {
            let is_current = table.incarnation == incarnation;
            if is_current {
                table.entries.insert(key, entry);
            }
            is_current
        });
        let restarted = || SupervisorError::NotRunning("the supervisor of the sessions was restarted".to_owned());
        if is_current { Ok(lease) } else { Err(restarted().into()) }
    }

    /// Ends the session of a key, unless it is in use.
    pub async fn end_unused<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.end_where(key, |entry| entry.users == 0).await;
    }

    /// Ends the session of a key, unless it is in use, or was used after the use with this number.
    pub async fn end_at_rest<Q>(&self, key: &Q, number: u64)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.end_where(key, |entry| entry.users == 0 && entry.last_use == number).await;
    }

    async fn end_where<Q>(&self, key: &Q, may_end: impl FnOnce(&Entry<S>) -> bool)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let ended = self.table.with(|table| {
            let may_end = table.entries.get(key).is_some_and(may_end);
            if may_end { table.entries.remove(key).map(|entry| entry.child) } else { None }
        });
        if let Some(child) = ended {
            // A supervisor that has ended has ended its sessions too.
            let _ = self.supervisor.remove(child).await;
        }
    }
}
