//! The sessions of clients that have them: how many there may be, how long one lives, which request ids are in use.
//!
//! The library counts neither, ends a session after a while even though its client is listening, and lets a second request with
//! an id that is in use hang for ever. This wraps its session manager.

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
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
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

use super::events::Events;

/// Bounds of the sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Sessions there may be at once.
    pub sessions: usize,
    /// How long a session lives without a request and without an open stream.
    pub idle: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { sessions: 1_000, idle: Duration::from_secs(30 * 60) }
    }
}

/// What is known of one session.
struct Life {
    last: Instant,
    /// Streams that are open to its client.
    open: usize,
    /// Ids of requests that are not answered yet.
    ids: HashSet<String>,
}

type Lives = Arc<Mutex<HashMap<SessionId, Life>>>;

/// The session manager of the HTTP surface.
pub struct Sessions {
    inner: LocalSessionManager,
    events: Arc<Events>,
    lives: Lives,
    limits: SessionLimits,
    reserved: Arc<AtomicUsize>,
}

/// Room for a session that is about to begin.
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An open stream, or a request under way: its session is in use while this is held.
pub struct InUse {
    lives: Lives,
    session: SessionId,
    id: Option<String>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = lives.get_mut(&self.session) {
            life.last = Instant::now();
            match &self.id {
                Some(id) => {
                    life.ids.remove(id);
                }
                None => life.open = life.open.saturating_sub(1),
            }
        }
    }
}

impl Sessions {
    /// No sessions yet.
    pub fn new(limits: SessionLimits) -> Self {
        let events = Arc::new(Events::default());
        let mut inner = LocalSessionManager::default().with_event_store(Arc::clone(&events) as Arc<dyn EventStore>);
        // Ended here, by a clock that also sees open streams.
        inner.session_config.keep_alive = None;
        Self { inner, events, lives: Lives::default(), limits, reserved: Arc::default() }
    }

    /// Ends sessions that are idle, for as long as the handle is held.
    pub fn tidy(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let sessions = Arc::downgrade(self);
        let pause = (self.limits.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(60));
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(sessions) = sessions.upgrade() else { return };
                for id in sessions.idle() {
                    tracing::info!("a session has been idle too long and is ended");
                    let _ = sessions.close_session(&id).await;
                }
            }
        }))
    }

    /// Whether an event can be asked for again.
    pub fn remembers(&self, event_id: &str) -> bool {
        self.events.remembers(event_id)
    }

    /// Room for another session, held until it has begun.
    pub fn reserve(&self) -> Option<Place> {
        self.lives(|lives| {
            // Decided under the lock, so that many at once cannot all find the last place.
            let taken = lives.len() + self.reserved.load(Ordering::SeqCst);
            (taken < self.limits.sessions).then(|| {
                self.reserved.fetch_add(1, Ordering::SeqCst);
                Place(Arc::clone(&self.reserved))
            })
        })
    }

    /// Sessions there may be at once.
    pub fn limit(&self) -> usize {
        self.limits.sessions
    }

    /// Notes a request of a session; `None` when a request with its id is not answered yet. Unknown sessions are not noted:
    /// they get their answer from the library.
    pub fn begin(&self, session: &str, id: String) -> Option<InUse> {
        let session: SessionId = session.into();
        let is_free = self.lives(|lives| match lives.get_mut(&session) {
            Some(life) => {
                life.last = Instant::now();
                life.ids.insert(id.clone())
            }
            None => true,
        });
        is_free.then(|| InUse { lives: Arc::clone(&self.lives), session, id: Some(id) })
    }

    fn idle(&self) -> Vec<SessionId> {
        let now = Instant::now();
        let is_idle = |life: &Life| life.open == 0 && life.ids.is_empty() && now - life.last >= self.limits.idle;
        self.lives(|lives| lives.iter().filter(|(_, life)| is_idle(life)).map(|(id, _)| Arc::clone(id)).collect())
    }

    fn lives<R>(&self, change: impl FnOnce(&mut HashMap<SessionId, Life>) -> R) -> R {
        change(&mut self.lives.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts a stream as open until it is dropped.
    fn held<S>(&self, session: &SessionId, stream: S) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static
    where
        S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    {
        self.lives(|lives| {
            if let Some(life) = lives.get_mut(session) {
                life.open += 1;
                life.last = Instant::now();
            }
        });
        let held = InUse { lives: Arc::clone(&self.lives), session: Arc::clone(session), id: None };
        stream.map(move |message| {
            let _ = &held;
            message
        })
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        let life = Life { last: Instant::now(), open: 0, ids: HashSet::new() };
        self.lives(|lives| lives.insert(Arc::clone(&id), life));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.lives(|lives| lives.remove(id));
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.held(id, self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.held(id, self.inner.create_standalone_stream(id).await?))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(self.held(id, self.inner.resume(id, last_event_id).await?))
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        self.inner.event_store()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_session_lives_while_it_is_used_and_an_id_is_used_once_at_a_time() {
        let limits = SessionLimits { sessions: 2, idle: Duration::ZERO };
        let sessions = Arc::new(Sessions::new(limits));
        let (first, _transport) = sessions.create_session().await.expect("created");
        let (_, _other) = sessions.create_session().await.expect("created");
        assert!(sessions.reserve().is_none());
        let held = sessions.begin(&first, "1".into()).expect("free");
        assert!(sessions.begin(&first, "1".into()).is_none(), "in use");
        assert!(!sessions.idle().contains(&first), "a request is under way");
        drop(held);
        assert!(sessions.begin(&first, "1".into()).is_some(), "free again");
        let stream = sessions.held(&first, futures::stream::pending());
        assert!(!sessions.idle().contains(&first), "its client listens");
        drop(stream);
        assert!(sessions.idle().contains(&first));
        sessions.close_session(&first).await.expect("closed");
        let place = sessions.reserve();
        assert!(place.is_some() && sessions.reserve().is_none(), "a place is given once");
    }
}
