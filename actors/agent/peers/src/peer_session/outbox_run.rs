//! A run through the outbox of one connection: each message is settled in the same write that takes the next one.

use bytes::Bytes;
use svc_agent_store::{AgentStoreError, QueuedMessage, SentMessage};
use svc_didcomm::delivery::{Attempt, Next, after_attempt};
use svc_kit::wall_clock;
use svc_net::didcomm::PeerSocket;

use super::{PeerWork, SendEnd};
use crate::peer_session::PreparedMessage;

/// The state of a run.
pub(crate) struct OutboxRun {
    /// The connection.
    pub connection_id: String,
    /// Whether a message may stand in the outbox that an earlier session was sending.
    pub is_first: bool,
    /// The message that is still to be settled.
    pub sent: Option<SentMessage>,
    /// The socket to the peer, and its URL.
    pub socket: Option<(String, PeerSocket)>,
}

/// The end of a run.
pub(crate) enum RunEnd {
    /// Nothing is due any more.
    NothingDue,
    /// The store cannot be used. A message that was sent is still to be settled.
    Failed(AgentStoreError),
}

impl OutboxRun {
    /// Sends the messages that are due. `arrived` is called with messages that come on the socket meanwhile.
    pub async fn go(&mut self, work: &dyn PeerWork, arrived: impl Fn(Vec<Bytes>)) -> RunEnd {
        let mut prepared: Option<PreparedMessage> = None;
        loop {
            let queued = match work.next_message(&self.connection_id, self.is_first, self.sent).await {
                Ok(queued) => queued,
                Err(error) => return RunEnd::Failed(error),
            };
            (self.is_first, self.sent) = (false, None);
            let Some(queued) = queued else { return RunEnd::NothingDue };
            let (end, next) = work.send(&queued, prepared, self.socket.take()).await;
            prepared = next;
            self.sent = Some(SentMessage { number: queued.number, next: next_step(&queued, &end, work.outbox_age()) });
            self.socket = end.socket;
            if !end.arrived.is_empty() {
                arrived(end.arrived);
            }
        }
    }
}

fn next_step(queued: &QueuedMessage, end: &SendEnd, max_age: i64) -> Next {
    let now = wall_clock::now().seconds;
    let jitter = fastrand::f64() * 2.0 - 1.0;
    let mut next = after_attempt(queued.waiting, end.attempt, now, max_age, jitter);
    if let (Next::Again { at, .. }, Attempt::NotSent, Some(seconds)) = (&mut next, end.attempt, end.retry_after) {
        *at = (*at).max(now + i64::try_from(seconds.min(3600)).unwrap_or(3600));
    }
    next
}
