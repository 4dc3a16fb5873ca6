//! Connections, messages and exchanges with peers, as the store has them.

use serde_json::Value;
use svc_didcomm::{connection::Connection, delivery::DeliveryState};

/// The side that began a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRole {
    /// This agent.
    Requester,
    /// The peer.
    Responder,
}

/// The side that wrote a basic message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRole {
    /// This agent.
    Sender,
    /// The peer.
    Receiver,
}

/// State of the exchange of one credential, on the holder's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeState {
    /// The issuer has offered.
    OfferReceived,
    /// A caller has accepted the offer.
    RequestSent,
    /// The issuer has sent the credential.
    CredentialReceived,
    /// The credential is stored and acknowledged.
    Done,
    /// A caller has declined.
    Declined,
    /// The issuer has given up, or the offer is of a kind that is not taken.
    Abandoned,
}

macro_rules! words {
    ($name:ident, $($variant:ident => $word:literal),+) => {
        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the word in the store and on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            /// The value with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }
    };
}

words!(ConnectionRole, Requester => "requester", Responder => "responder");
words!(MessageRole, Sender => "sender", Receiver => "receiver");
words!(ExchangeState, OfferReceived => "offer-received", RequestSent => "request-sent",
    CredentialReceived => "credential-received", Done => "done", Declined => "declined", Abandoned => "abandoned");

impl ExchangeState {
    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Declined | Self::Abandoned)
    }
}

/// Whether a peer was trusted, and when that was decided, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The decision.
    pub is_trusted: bool,
    /// Its time.
    pub at: i64,
}

/// A connection with its numbers. Times are in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConnection {
    /// The DIDs of both sides.
    pub connection: Connection,
    /// The side that began it.
    pub role: ConnectionRole,
    /// Thread of its first message.
    pub thread_id: Option<String>,
    /// The invitation that it came from.
    pub out_of_band_id: Option<String>,
    /// The connection on which that invitation was sent.
    pub parent_id: Option<String>,
    /// The newest decision about the peer.
    pub verdict: Option<Verdict>,
    /// Time of the peer's newest message.
    pub last_seen_at: Option<i64>,
    /// Messages that were not sent yet.
    pub waiting: u64,
    /// Messages that were sent without an answer.
    pub unanswered: u64,
    /// Creation.
    pub created_at: i64,
    /// Newest change.
    pub updated_at: i64,
}

/// Filters of a list of connections; an absent one admits all.
#[derive(Debug, Clone, Default)]
pub struct ConnectionFilter {
    /// The invitation.
    pub out_of_band_id: Option<String>,
    /// The connection of the invitation.
    pub parent_id: Option<String>,
    /// Whether the peer has ended it.
    pub has_ended: Option<bool>,
    /// The side that began it.
    pub role: Option<ConnectionRole>,
    /// Our DID.
    pub did: Option<String>,
    /// A DID of the peer.
    pub their_did: Option<String>,
    /// The thread of the first message.
    pub thread_id: Option<String>,
    /// Our DID in the invitation.
    pub invitation_did: Option<String>,
}

/// A DID of this agent that stands in an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPeerDid {
    /// Short form.
    pub short: String,
    /// Long form.
    pub long: String,
    /// Id of the invitation.
    pub out_of_band_id: String,
    /// The connection on which it was sent.
    pub parent_id: String,
}

/// A basic message. Times are in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBasicMessage {
    /// Id of the record; the order of the ids is that of creation.
    pub id: String,
    /// Its connection.
    pub connection_id: String,
    /// The side that wrote it.
    pub role: MessageRole,
    /// Text.
    pub content: String,
    /// Time at which it was written, by its sender's clock.
    pub sent_at: i64,
    /// Time at which it was stored.
    pub created_at: i64,
    /// State of one of this agent.
    pub delivery: Option<DeliveryState>,
}

/// Filters of a list of basic messages.
#[derive(Debug, Clone, Default)]
pub struct BasicMessageFilter {
    /// The connection.
    pub connection_id: Option<String>,
    /// The side that wrote it.
    pub role: Option<MessageRole>,
}

/// The exchange of one credential outside of a flow. Times are in milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredExchange {
    /// Id of the record.
    pub id: String,
    /// Its connection.
    pub connection_id: String,
    /// Thread of its messages.
    pub thread_id: String,
    /// The thread that it belongs to.
    pub parent_thread_id: Option<String>,
    /// State.
    pub state: ExchangeState,
    /// Name of the format of the offer.
    pub format: String,
    /// The offered credential, without proof.
    pub offer: Value,
    /// The credential.
    pub credential: Option<Value>,
    /// The reason of an end without a credential.
    pub error: Option<String>,
    /// Schema in the registry.
    pub schema_id: Option<u64>,
    /// Creation.
    pub created_at: i64,
    /// Newest change.
    pub updated_at: i64,
}

/// Filters of a list of exchanges.
#[derive(Debug, Clone, Default)]
pub struct ExchangeFilter {
    /// The connection.
    pub connection_id: Option<String>,
    /// The thread.
    pub thread_id: Option<String>,
    /// The state.
    pub state: Option<ExchangeState>,
}

/// Bounds of the rows that peers make.
#[derive(Debug, Clone, Copy)]
pub struct PeerLimits {
    /// Messages in the outbox for one peer.
    pub outbox_per_peer: u64,
    /// Messages in the outbox for all peers.
    pub outbox_max: u64,
    /// Messages that are remembered against repetition.
    pub replay_max: u64,
    /// Basic messages that are kept for one connection.
    pub records_per_connection: u64,
    /// Events that are stored for the receiver; `None` without one.
    pub max_events: Option<u64>,
}
