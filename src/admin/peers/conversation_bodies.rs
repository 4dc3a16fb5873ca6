//! The bodies of the routes about peers, as the OpenAPI document describes them.

use serde::Serialize;
use serde_json::Value;
use svc_agent::{StoredBasicMessage, StoredConnection, StoredExchange};
use utoipa::ToSchema;

/// A record as the agent writes it, which its events have too. `T` describes it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(in crate::admin) struct Record(Value);

impl Record {
    /// A record in its form.
    pub fn of(record: Value) -> Self {
        Self(record)
    }

    /// One member of the record.
    pub fn into_member(mut self, name: &str) -> Value {
        self.0[name].take()
    }
}

impl From<StoredConnection> for Record {
    fn from(connection: StoredConnection) -> Self {
        Self(connection.to_json())
    }
}

impl From<StoredBasicMessage> for Record {
    fn from(message: StoredBasicMessage) -> Self {
        Self(message.to_json())
    }
}

impl From<StoredExchange> for Record {
    fn from(exchange: StoredExchange) -> Self {
        Self(exchange.to_json())
    }
}

/// A module of this API, and the protocols behind it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct ProtocolModule {
    /// Segment of the path.
    pub module: &'static str,
    /// URIs of the protocols.
    pub protocols: Vec<&'static str>,
}

/// A relation with one peer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct Connection {
    /// UUID.
    id: String,
    /// completed, or abandoned once the peer has ended it.
    state: String,
    /// requester when this agent began it, responder when the peer did.
    role: String,
    /// DID of this agent.
    did: String,
    /// Present DID of the peer.
    their_did: String,
    /// DID by which the peer is known, however often it changes: trust is asked about this one.
    peer_public_did: String,
    /// Thread of the peer's first message.
    thread_id: Option<String>,
    /// The invitation that it came from.
    out_of_band_id: Option<String>,
    /// The connection on which that invitation was sent.
    parent_connection_id: Option<String>,
    /// v2
    didcomm_version: String,
    verdict: PeerVerdict,
    /// Time of the peer's newest message.
    #[schema(format = DateTime)]
    last_seen_at: Option<String>,
    outbox: PeerOutbox,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// The newest decision about the peer.
#[derive(ToSchema)]
#[allow(dead_code)]
struct PeerVerdict {
    /// Null while nothing was decided.
    trusted: Option<bool>,
    #[schema(format = DateTime)]
    at: Option<String>,
}

/// Messages to the peer.
#[derive(ToSchema)]
#[allow(dead_code)]
struct PeerOutbox {
    /// Not sent yet.
    waiting: u64,
    /// Sent without an answer.
    unanswered: u64,
}

/// A peer to connect with.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewConnection {
    /// A DID of the methods web and webvh.
    did: String,
}

/// An invitation to send over a connection.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewInvitation {
    /// The connection.
    connection_id: String,
    /// The DID to talk to; absent for one of this agent, made for this invitation.
    #[schema(nullable = false)]
    did: Option<String>,
    /// Accepted and not sent: DIDComm v2 has no such member.
    #[schema(nullable = false)]
    label: Option<String>,
    /// Accepted and not sent: DIDComm v2 has no such member.
    #[schema(nullable = false)]
    image_url: Option<String>,
    /// Why, for people.
    #[schema(nullable = false, max_length = 1024)]
    goal: Option<String>,
    /// Why, for programs.
    #[schema(nullable = false, max_length = 128)]
    goal_code: Option<String>,
}

/// A sent invitation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct Invitation {
    /// Id of the message.
    pub id: String,
    /// Id that the connection of the invited peer will have as outOfBandId.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub out_of_band_id: Option<String>,
}

/// A text for a peer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewBasicMessage {
    /// The connection.
    connection_id: String,
    /// 1 to 65,536 bytes of UTF-8, without the character U+0000.
    #[schema(min_length = 1, max_length = 65536, pattern = r"^[^\x00]+$")]
    content: String,
}

/// A stored text.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct SentMessage {
    /// Id of the record.
    pub id: String,
}

/// A text of this agent or of a peer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct BasicMessage {
    /// Id; ids are in the order of time.
    id: String,
    /// The connection.
    connection_id: String,
    /// sender for one of this agent, receiver for one of the peer.
    role: String,
    /// The text.
    content: String,
    /// By the clock of its sender.
    #[schema(format = DateTime)]
    sent_time: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// waiting, delivered, unanswered or undeliverable; only of this agent's own.
    #[schema(nullable = false, required = false)]
    delivery: Option<String>,
}

/// A credential that a peer offers outside of a flow.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct CredentialExchange {
    /// UUID.
    credential_exchange_id: String,
    /// offer-received, request-sent, credential-received, done, declined or abandoned.
    state: String,
    /// holder
    role: String,
    /// Thread of its messages.
    thread_id: String,
    /// The connection.
    connection_id: String,
    /// Always null: there are no AnonCreds.
    credential_definition_id: Option<String>,
    /// Schema in the registry, once the credential is verified.
    schema_id: Option<String>,
    /// The offered claims, and later those of the credential.
    #[schema(value_type = Object)]
    claims: Value,
    /// The reason of an end without a credential.
    error_message: Option<String>,
    /// The flow that it belongs to.
    flow_id: Option<String>,
    /// Name of the format of the offer.
    format: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// The reason of a caller that declines.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Decline {
    /// For people at the peer.
    #[schema(nullable = false, max_length = 1024, pattern = r"^[^\x00]*$")]
    reason: Option<String>,
}

/// An offer of an AnonCreds credential, which this agent has no definition for.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewCredentialOffer {
    /// Id of a definition.
    credential_definition_id: String,
    /// Claims.
    claims: Vec<OfferedClaim>,
    #[schema(nullable = false)]
    revocation_registry_definition_id: Option<String>,
    #[schema(nullable = false)]
    revocation_registry_index: Option<u64>,
    #[schema(nullable = false)]
    connection_id: Option<String>,
    #[schema(nullable = false)]
    auto_accept: Option<bool>,
    #[schema(nullable = false)]
    use_legacy_did: Option<bool>,
    #[schema(nullable = false)]
    didcomm_version: Option<String>,
}

/// A claim of an offer.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(in crate::admin) struct OfferedClaim {
    name: String,
    value: String,
}

/// The refusals of a request that needs the peer or the registry.
#[derive(utoipa::IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum PeerRefusals {
    /// UNKNOWN_ID: nothing has this id.
    #[response(status = 404)]
    Unknown(crate::admin::format::schema::ErrorBody),
    /// INVALID_STATE, or PEER_NOT_AUTHORIZED: the peer is not trusted, or not the issuer.
    #[response(status = 409)]
    Conflict(crate::admin::format::schema::ErrorBody),
    /// INVALID_CLAIMS: the claims of the credential do not fit its schema.
    #[response(status = 422)]
    Claims(crate::admin::format::schema::ErrorBody),
}
