//! The session with one peer: messages that come from it, and the outbox to it.
//!
//! It owns the order of both: one message is judged and stored at a time, and one is sent at a time, the oldest first. It owns the socket
//! to the peer too. Transports and requests ask it; the directory starts it when the peer has work, and ends it when it is idle. It
//! stores nothing by itself: when it dies, callers get an error, the message that was being sent counts as one of unknown result, and the
//! next session goes on with the outbox of the store.

mod actor;
mod core;
mod outbox_run;
mod prepared_message;
mod proven_message;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use svc_agent_store::{AgentStoreError, QueuedMessage, SentMessage};
use svc_didcomm::{Message, delivery::Attempt, from_prior::FromPrior};
use svc_kit::{
    AskError, Handle, ReplyPort, Session, impl_actor_message,
    supervision::{ChildSpec, RestartMode},
};
use svc_net::didcomm::{PeerSocket, Receipt};

use self::outbox_run::{OutboxRun, RunEnd};
pub(crate) use self::{
    prepared_message::{PreparedMessage, Sealed},
    proven_message::ProvenMessage,
};

/// The work of a session: its effects on the store, the registry and the network.
pub(crate) trait PeerWork: Send + Sync + 'static {
    /// Judges and stores a message.
    fn take(&self, proven: ProvenMessage) -> BoxFuture<'_, TakenReceipt>;
    /// Ends the connection whose peer gives up its DID.
    fn end_connection<'a>(&'a self, recipient: &'a str, prior: &'a FromPrior) -> BoxFuture<'a, Receipt>;
    /// Settles the message that was sent before, and reads the next one that is due. With `is_first`, a message that an earlier session
    /// was sending is settled as one of unknown result.
    fn next_message<'a>(
        &'a self,
        connection_id: &'a str,
        is_first: bool,
        sent: Option<SentMessage>,
    ) -> BoxFuture<'a, Result<Option<QueuedMessage>, AgentStoreError>>;
    /// Sends a message once. The socket is used when it leads to the right endpoint, and is given back when it can go on. The message
    /// behind it is prepared meanwhile.
    fn send<'a>(
        &'a self,
        queued: &'a QueuedMessage,
        prepared: Option<PreparedMessage>,
        socket: Option<(String, PeerSocket)>,
    ) -> BoxFuture<'a, (SendEnd, Option<PreparedMessage>)>;
    /// Sends a message of which nothing is stored, once.
    fn send_unstored(&self, message: Message) -> BoxFuture<'_, ()>;
    /// Takes a message that came on the session's own socket.
    fn arrived(&self, envelope: Bytes) -> BoxFuture<'_, ()>;
    /// Nothing of the session's outbox is due now.
    fn nothing_due(&self);
    /// The session has had nothing to do for [`PeerWork::idle`].
    fn is_idle(&self, peer: &Arc<str>);
    /// Silence after which the session ends.
    fn idle(&self) -> Duration;
    /// Seconds after which a message that could not be sent is given up.
    fn outbox_age(&self) -> i64;
}

/// Messages of a peer that may wait to be stored, and some of the session's own.
const MAILBOX: usize = 128;
/// Longest time from a message to its receipt: a verdict takes ten seconds at most.
const RECEIPT_TIME: Duration = Duration::from_secs(20);

/// The answer to a message of the peer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TakenReceipt {
    /// For the transport.
    pub receipt: Receipt,
    /// Connection that has a message for the peer now.
    pub queued_for: Option<String>,
    /// An answer of which nothing is stored.
    pub answer: Option<Box<Message>>,
}

/// An attempt to send a message, with the socket that it leaves.
pub(crate) struct SendEnd {
    /// Result.
    pub attempt: Attempt,
    /// Seconds after which the receiver wants to be asked again.
    pub retry_after: Option<u64>,
    /// The socket, where it can carry another message.
    pub socket: Option<(String, PeerSocket)>,
    /// Messages that came meanwhile.
    pub arrived: Vec<Bytes>,
}

/// Messages of a session.
pub(crate) enum Msg {
    /// A message of the peer.
    Arrived {
        /// The message, whose sender is proven.
        message: Box<ProvenMessage>,
        /// The answer.
        reply: ReplyPort<Receipt>,
    },
    /// The peer gives up a DID.
    Ended {
        /// Our DID.
        recipient: String,
        /// The proof.
        prior: Box<FromPrior>,
        /// The answer.
        reply: ReplyPort<Receipt>,
    },
    /// A message was stored, or could not be.
    MessageHandled(TakenReceipt),
    /// A connection has a message that is due.
    Due(String),
    /// A run through the outbox of a connection has ended.
    RunEnded(Box<OutboxRun>, RunEnd),
    /// Messages have come on the session's own socket.
    Envelopes(Vec<Bytes>),
    /// The pause after a failure of the store is over: the message is settled now, and the next one read.
    RetryOutbox {
        /// The connection.
        connection_id: String,
        /// The message that is to be settled.
        sent: Option<SentMessage>,
    },
    /// The directory wants to end the session.
    EndIfIdle(ReplyPort<bool>),
    /// The session may be idle.
    Idle,
}

impl_actor_message!(Msg { Arrived, Ended, MessageHandled, Due, RunEnded, Envelopes, RetryOutbox, EndIfIdle, Idle });

/// Arguments of a session.
pub(crate) struct Args {
    /// DID by which the peer is known, in its comparable form.
    pub peer: Arc<str>,
    /// Its work.
    pub work: Arc<dyn PeerWork>,
}

/// The address of a session.
#[derive(Clone)]
pub(crate) struct PeerSessionHandle(Handle<Msg>);

impl Session for PeerSessionHandle {
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

impl PeerSessionHandle {
    /// The address of a session that is still to be started. `name` says nothing about the peer.
    pub fn new(name: &str) -> Self {
        Self(Handle::new("peer_session", format!("peer_session/{name}"), MAILBOX))
    }

    /// The child specification. A session that dies is started again when its peer has work.
    pub fn child_spec(&self, args: Args) -> ChildSpec {
        ChildSpec::worker::<actor::PeerSession>(&self.0, args).restart_mode(RestartMode::Temporary)
    }

    /// Takes a message of the peer.
    pub async fn take(&self, message: ProvenMessage) -> Result<Receipt, AskError> {
        let message = Box::new(message);
        self.0.ask_within(RECEIPT_TIME, |reply| Msg::Arrived { message, reply }).await
    }

    /// Ends the connection that the peer gives up.
    pub async fn end(&self, recipient: String, prior: FromPrior) -> Result<Receipt, AskError> {
        let prior = Box::new(prior);
        self.0.ask_within(RECEIPT_TIME, |reply| Msg::Ended { recipient, prior, reply }).await
    }

    /// Whether the session has nothing to do.
    pub async fn is_idle(&self) -> bool {
        self.0.ask_within(Duration::from_secs(1), Msg::EndIfIdle).await.unwrap_or(false)
    }

    /// Tells of a message in the outbox of a connection.
    pub fn message_due(&self, connection_id: &str) {
        self.0.notify(Msg::Due(connection_id.to_owned()));
    }
}
