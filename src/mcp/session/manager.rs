//! The session manager of the HTTP surface: it limits the number of sessions, ends idle ones, and tracks the request ids in use.
//!
//! It wraps the library's session manager, which has no limit, ends a session whose client is listening, and never answers a second
//! request with an id that is in use.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, ProtocolVersion, ServerJsonRpcMessage, ServerResult},
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{
            EventStore, ServerSseMessage,
            local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::event_store::SessionEventStore;
use crate::principals::Principal;

/// Limits of the sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Most sessions at once.
    pub max_sessions: usize,
    /// Longest life of a session without a request and without an open stream.
    pub idle_timeout: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_sessions: 1_000, idle_timeout: Duration::from_secs(30 * 60) }
    }
}

/// The use of one session.
struct SessionUsage {
    /// The principal that has opened it; `None` until that is known.
    owner: Option<Arc<Principal>>,
    last_used: Instant,
    /// Number of open streams to the client.
    open_streams: usize,
    /// Ids of unanswered requests.
    open_request_ids: HashSet<String>,
    /// Whether the client reads an event without data as the protocol says, and not as JSON.
    reads_empty_events: bool,
}

/// The first protocol version in which a stream may begin with an event that has an id and no data. Clients of the versions before
/// parse its data as JSON and fail.
const FIRST_WITH_EMPTY_EVENTS: ProtocolVersion = ProtocolVersion::V_2025_11_25;
/// Pause of a client before it opens a lost stream again.
const STREAM_RETRY: Duration = Duration::from_secs(3);

type SessionUsageMap = Arc<Mutex<HashMap<SessionId, SessionUsage>>>;

/// The session manager of the HTTP surface.
pub struct BoundedSessionManager {
    inner: LocalSessionManager,
    event_store: Arc<SessionEventStore>,
    usages: SessionUsageMap,
    limits: SessionLimits,
    reserved: Arc<AtomicUsize>,
}

/// A place within the limit for a session that is about to begin. Dropping it releases the place.
pub struct SessionReservation(Arc<AtomicUsize>);

impl Drop for SessionReservation {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Marks a session as in use by an open stream or an unanswered request. Dropping it ends the use.
pub struct SessionUseGuard {
    usages: SessionUsageMap,
    session: SessionId,
    request_id: Option<String>,
}

impl Drop for SessionUseGuard {
    fn drop(&mut self) {
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(usage) = usages.get_mut(&self.session) {
            usage.last_used = Instant::now();
            match &self.request_id {
                Some(id) => {
                    usage.open_request_ids.remove(id);
                }
                None => usage.open_streams = usage.open_streams.saturating_sub(1),
            }
        }
    }
}

impl BoundedSessionManager {
    /// A manager without sessions.
    pub fn new(limits: SessionLimits) -> Self {
        let event_store = Arc::new(SessionEventStore::default());
        let mut inner =
            LocalSessionManager::default().with_event_store(Arc::clone(&event_store) as Arc<dyn EventStore>);
        // The idle cleanup here also sees open streams, so the library's is off.
        inner.session_config.keep_alive = None;
        Self { inner, event_store, usages: SessionUsageMap::default(), limits, reserved: Arc::default() }
    }

    /// Spawns the task that ends idle sessions. Dropping the handle stops it.
    pub fn spawn_idle_cleanup(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let sessions = Arc::downgrade(self);
        let pause = (self.limits.idle_timeout / 4).clamp(Duration::from_millis(50), Duration::from_secs(60));
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(sessions) = sessions.upgrade() else { return };
                for id in sessions.idle_sessions() {
                    tracing::info!("ending an idle session");
                    let _ = sessions.close_session(&id).await;
                }
            }
        }))
    }

    /// Whether the event store has an event.
    pub fn has_event(&self, event_id: &str) -> bool {
        self.event_store.has_event(event_id)
    }

    /// Reserves a place for another session; `None` when the limit is reached.
    pub fn reserve(&self) -> Option<SessionReservation> {
        self.with_usages(|usages| {
            // The lock keeps two concurrent calls from both taking the last place.
            let taken = usages.len() + self.reserved.load(Ordering::SeqCst);
            (taken < self.limits.max_sessions).then(|| {
                self.reserved.fetch_add(1, Ordering::SeqCst);
                SessionReservation(Arc::clone(&self.reserved))
            })
        })
    }

    /// Gives a new session to its principal.
    pub fn set_owner(&self, session: &str, owner: Arc<Principal>) {
        self.with_usages(|usages| {
            if let Some(usage) = usages.get_mut(session) {
                usage.owner.get_or_insert(owner);
            }
        });
    }

    /// Whether a session is another principal's. One that does not exist has no owner.
    pub fn is_of_another(&self, session: &str, principal: &str) -> bool {
        self.with_usages(|usages| {
            usages.get(session).is_some_and(|usage| usage.owner.as_ref().is_none_or(|owner| *owner.id != *principal))
        })
    }

    /// The principals of sessions for which something holds, each once.
    pub fn owners(&self, is_wanted: impl Fn(&Principal) -> bool) -> Vec<Arc<Principal>> {
        let mut owners: Vec<Arc<Principal>> = self.with_usages(|usages| {
            usages.values().filter_map(|usage| usage.owner.clone()).filter(|owner| is_wanted(owner)).collect()
        });
        owners.sort_by(|one, other| one.id.cmp(&other.id));
        owners.dedup_by(|one, other| one.id == other.id);
        owners
    }

    /// Ends the sessions of principals that are not valid any more.
    pub async fn close_sessions_of(&self, is_gone: impl Fn(&Principal) -> bool) {
        let gone: Vec<SessionId> = self.with_usages(|usages| {
            let owned = usages.iter().filter(|(_, usage)| usage.owner.as_deref().is_some_and(&is_gone));
            owned.map(|(id, _)| Arc::clone(id)).collect()
        });
        for id in gone {
            tracing::info!("ending a session whose principal has changed");
            let _ = self.close_session(&id).await;
        }
    }

    /// Most sessions at once.
    pub fn max_sessions(&self) -> usize {
        self.limits.max_sessions
    }

    /// Registers a request of a session; `None` when an unanswered request has the same id. A request of an unknown session is not
    /// registered: the library refuses it.
    pub fn register_request(&self, session: &str, id: String) -> Option<SessionUseGuard> {
        let session: SessionId = session.into();
        let is_free = self.with_usages(|usages| match usages.get_mut(&session) {
            Some(usage) => {
                usage.last_used = Instant::now();
                usage.open_request_ids.insert(id.clone())
            }
            None => true,
        });
        is_free.then(|| SessionUseGuard { usages: Arc::clone(&self.usages), session, request_id: Some(id) })
    }

    fn idle_sessions(&self) -> Vec<SessionId> {
        let now = Instant::now();
        let is_idle = |usage: &SessionUsage| {
            usage.open_streams == 0
                && usage.open_request_ids.is_empty()
                && now - usage.last_used >= self.limits.idle_timeout
        };
        self.with_usages(|usages| {
            usages.iter().filter(|(_, usage)| is_idle(usage)).map(|(id, _)| Arc::clone(id)).collect()
        })
    }

    fn with_usages<R>(&self, change: impl FnOnce(&mut HashMap<SessionId, SessionUsage>) -> R) -> R {
        change(&mut self.usages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn reads_empty_events(&self, session: &SessionId) -> bool {
        self.with_usages(|usages| usages.get(session).is_some_and(|usage| usage.reads_empty_events))
    }

    /// Counts a stream as open until it is dropped, and leaves out the events without data for a client that does not know them.
    fn track_stream<S>(
        &self,
        session: &SessionId,
        stream: S,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static
    where
        S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    {
        self.with_usages(|usages| {
            if let Some(usage) = usages.get_mut(session) {
                usage.open_streams += 1;
                usage.last_used = Instant::now();
            }
        });
        let held = SessionUseGuard { usages: Arc::clone(&self.usages), session: Arc::clone(session), request_id: None };
        let reads_empty_events = self.reads_empty_events(session);
        stream.filter(move |event| {
            let _ = &held;
            std::future::ready(reads_empty_events || event.message.is_some())
        })
    }
}

impl SessionManager for BoundedSessionManager {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        let usage = SessionUsage {
            owner: None,
            last_used: Instant::now(),
            open_streams: 0,
            open_request_ids: HashSet::new(),
            reads_empty_events: false,
        };
        self.with_usages(|usages| usages.insert(Arc::clone(&id), usage));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let answer = self.inner.initialize_session(id, message).await?;
        let reads_empty_events = negotiated_version(&answer).is_some_and(|version| version >= FIRST_WITH_EMPTY_EVENTS);
        self.with_usages(|usages| {
            if let Some(usage) = usages.get_mut(id) {
                usage.reads_empty_events = reads_empty_events;
            }
        });
        Ok(answer)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.with_usages(|usages| usages.remove(id));
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.track_stream(id, self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_standalone_stream(id).await?;
        let first = futures::stream::once(std::future::ready(ServerSseMessage::retry(STREAM_RETRY)));
        Ok(self.track_stream(id, first.chain(stream)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.track_stream(id, self.inner.resume(id, last_event_id).await?))
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.inner.event_store()
    }
}

/// The protocol version in the answer of `initialize`; `None` for an error.
fn negotiated_version(answer: &ServerJsonRpcMessage) -> Option<ProtocolVersion> {
    match answer {
        JsonRpcMessage::Response(response) => match &response.result {
            ServerResult::InitializeResult(result) => Some(result.protocol_version.clone()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_in_use_is_not_idle_and_a_request_id_has_one_use_at_a_time() {
        let limits = SessionLimits { max_sessions: 2, idle_timeout: Duration::ZERO };
        let sessions = Arc::new(BoundedSessionManager::new(limits));
        let (first, _transport) = sessions.create_session().await.expect("created");
        let (_, _other) = sessions.create_session().await.expect("created");
        assert!(sessions.reserve().is_none());
        let held = sessions.register_request(&first, "1".into()).expect("free");
        assert!(sessions.register_request(&first, "1".into()).is_none(), "in use");
        assert!(!sessions.idle_sessions().contains(&first), "a request is under way");
        drop(held);
        assert!(sessions.register_request(&first, "1".into()).is_some(), "free again");
        let stream = sessions.track_stream(&first, futures::stream::pending());
        assert!(!sessions.idle_sessions().contains(&first), "its client listens");
        drop(stream);
        assert!(sessions.idle_sessions().contains(&first));
        sessions.close_session(&first).await.expect("closed");
        let reservation = sessions.reserve();
        assert!(reservation.is_some() && sessions.reserve().is_none(), "a place is reserved once");
    }
}
