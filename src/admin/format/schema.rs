//! The bodies of the admin API, as they are sent and as the OpenAPI document describes them.

use serde::Serialize;
use serde_json::Value;
use svc_agent::{DeadLetter, EventGap, document::ServiceEntry};
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, OneOfBuilder, RefOr, SchemaFormat,
        schema::{AdditionalProperties, Schema, Type},
    },
};

use crate::admin::format::answer::iso_seconds;

/// A service entry of the DID Document.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct ServiceEndpoint {
    /// DID URL of the entry.
    id: String,
    /// Type.
    #[serde(rename = "type")]
    kind: String,
    #[schema(schema_with = endpoint_schema)]
    service_endpoint: Value,
}

impl From<ServiceEntry> for ServiceEndpoint {
    fn from(entry: ServiceEntry) -> Self {
        Self { id: entry.id, kind: entry.kind, service_endpoint: entry.endpoint }
    }
}

/// A service entry in the list.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct ListedServiceEndpoint {
    #[serde(flatten)]
    entry: ServiceEndpoint,
    /// True for an entry that the agent writes itself; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    managed: Option<bool>,
}

impl From<ServiceEntry> for ListedServiceEndpoint {
    fn from(entry: ServiceEntry) -> Self {
        let managed = entry.is_managed().then_some(true);
        Self { entry: entry.into(), managed }
    }
}

/// An entry to add.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewServiceEndpoint {
    /// Fragment of RFC 3986, with or without #; a URL of the agent's own DID is taken too. Made of the type when absent.
    #[schema(nullable = false, pattern = r"^#?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}){1,128}$")]
    id: Option<String>,
    /// Type; those of the agent's own entries are refused.
    #[schema(rename = "type", min_length = 1, max_length = 128, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    kind: String,
    #[schema(schema_with = endpoint_schema)]
    service_endpoint: Value,
}

/// The new values of an entry; at least one is needed.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct ServiceEndpointChange {
    /// Type.
    #[schema(
        rename = "type",
        min_length = 1,
        max_length = 128,
        nullable = false,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]+$"
    )]
    kind: Option<String>,
    #[schema(schema_with = endpoint_schema, required = false)]
    service_endpoint: Value,
}

/// A URI, an object, or several of these.
fn endpoint_schema() -> RefOr<Schema> {
    let uri = || {
        let format = SchemaFormat::Custom("uri".to_owned());
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).max_length(Some(2_048)).build()
    };
    let object = || {
        let any = AdditionalProperties::FreeForm(true);
        let object = ObjectBuilder::new().schema_type(Type::Object).min_properties(Some(1));
        object.additional_properties(Some(any)).build()
    };
    let one = OneOfBuilder::new().item(uri()).item(object()).build();
    let several =
        ArrayBuilder::new().items(RefOr::T(Schema::OneOf(one))).min_items(Some(1)).max_items(Some(16)).build();
    let text = "An absolute URI, an object with at most 16 levels, or an array of these.";
    OneOfBuilder::new().item(uri()).item(object()).item(several).description(Some(text)).into()
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Cursor of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// An account that wants to log in.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct ChallengeRequest {
    /// Account address.
    account: String,
}

/// A challenge.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct Challenge {
    /// Part of the text to sign: `vs-agent-admin-auth:AUDIENCE:NONCE`, or without the audience when there is none.
    pub nonce: String,
    /// End of its validity.
    #[schema(format = DateTime)]
    pub expires_at: String,
    /// Origin of the admin API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub audience: Option<String>,
}

/// A signed challenge (ADR-036).
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct TokenRequest {
    /// Account address.
    account: String,
    /// Compressed public key, 33 bytes in base64.
    pub_key: String,
    /// Signature, 64 bytes in base64.
    signature: String,
    /// Nonce of the challenge.
    nonce: String,
}

/// A bearer token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct Token {
    /// The token.
    pub token: String,
    /// End of its validity.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

/// The agent.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct AgentInfo {
    /// DID.
    pub did: String,
    /// Version of the software.
    pub version: String,
    pub document: DocumentInfo,
    pub resolution: ResolutionInfo,
    pub events: EventsInfo,
    /// The chain, once it is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chain: Option<ChainInfo>,
}

/// The chain as the agent sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct ChainInfo {
    /// Newest height of the node, or the newest one that the chain and the agent are known to have both; 0 where none is known.
    pub height: u64,
    /// CHAIN_CHANGED while the chain has another history than the agent: nothing is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub code: Option<&'static str>,
    /// Both histories, and the way on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
}

/// The published document.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct DocumentInfo {
    /// Id of the newest version.
    pub version_id: String,
    /// Number of versions.
    pub entries: u64,
    /// Bytes of the log; 0 for did:web.
    pub log_bytes: usize,
}

/// The resolution of the newest document by the indexers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct ResolutionInfo {
    /// off, idle, pending, submitted or blocked.
    pub state: &'static str,
    /// Time at which the state began.
    #[schema(format = DateTime)]
    pub since: String,
    /// The reason of blocked: NO_PARTICIPANT, NO_GRANT, GRANT_EXPIRED, NO_FEES, FEE_ABOVE_CEILING, NO_FUNDS, SIGNED_FIELD_DIFFERS or
    /// CHAIN_CHANGED.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<&'static str>,
    /// The message and its fields, of SIGNED_FIELD_DIFFERS; both histories, of CHAIN_CHANGED.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// Hash of the newest transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tx_hash: Option<String>,
}

/// The events that are stored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct EventsInfo {
    /// Stored events, dead letters included.
    pub stored: u64,
    /// Time at which the oldest event was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub oldest_at: Option<String>,
    /// Events that could not be delivered.
    pub dead_letters: u64,
}

/// The state of the process.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct Health {
    /// live or ready.
    pub status: &'static str,
}

/// An event that could not be delivered.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct DeadLetterEntry {
    /// Id of the event.
    id: String,
    /// Type.
    #[serde(rename = "type")]
    kind: String,
    /// Time of the event.
    timestamp: Value,
    /// Data of the event.
    data: Value,
    /// Attempts to deliver it.
    attempts: u32,
    /// HTTP status of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_status: Option<u16>,
    /// Error of the last attempt without a status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<String>,
    /// Time at which it was given up.
    #[schema(format = DateTime)]
    moved_at: String,
}

impl From<DeadLetter> for DeadLetterEntry {
    fn from(letter: DeadLetter) -> Self {
        let mut body: Value = serde_json::from_str(&letter.event.body).unwrap_or_default();
        Self {
            id: letter.event.id,
            kind: letter.event.kind,
            timestamp: body["timestamp"].take(),
            data: body["data"].take(),
            attempts: letter.attempts,
            last_status: letter.last_status,
            last_error: letter.last_error,
            moved_at: iso_seconds(letter.moved_at),
        }
    }
}

/// Heights whose events were dropped, because too many were stored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::admin) struct GapEntry {
    /// First height.
    from_height: u64,
    /// Last height.
    to_height: u64,
    /// Dropped events.
    count: u64,
}

impl From<EventGap> for GapEntry {
    fn from(gap: EventGap) -> Self {
        Self { from_height: gap.from_height, to_height: gap.to_height, count: gap.count }
    }
}

/// The result of a refill.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct Refilled {
    /// Events that were queued.
    pub queued: u64,
}

/// The error of a refused request.
#[derive(ToSchema)]
#[allow(dead_code)]
pub(in crate::admin) struct ErrorBody {
    error: ErrorDetails,
}

/// Code, message and details of an error.
#[derive(ToSchema)]
#[allow(dead_code)]
struct ErrorDetails {
    /// Code, such as INVALID_INPUT.
    code: String,
    /// The offending thing and the allowed values.
    message: String,
    /// `violations` of a body with `path` and `message`, or the parts that are `waiting`.
    #[schema(value_type = Object, nullable = false, required = false)]
    details: Option<Value>,
}

/// The refusals of every route that needs an admitted caller.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum ReadRefusals {
    /// INVALID_INPUT or INVALID_CURSOR: a parameter or the body is invalid.
    #[response(status = 400)]
    Invalid(ErrorBody),
    /// UNAUTHENTICATED: a bearer token is needed.
    #[response(status = 401)]
    Unauthenticated(ErrorBody),
    /// FORBIDDEN: the caller may not use the API.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// NOT_READY: a part of the agent does not work now.
    #[response(status = 503)]
    NotReady(ErrorBody),
}

/// The refusals of a route with a body.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum BodyRefusals {
    /// INVALID_INPUT: the body is longer than 5,242,880 bytes.
    #[response(status = 413)]
    TooLong(ErrorBody),
    /// INVALID_INPUT: the body is no application/json.
    #[response(status = 415)]
    MediaType(ErrorBody),
}

/// The refusals of a change.
#[derive(IntoResponses)]
#[allow(dead_code)]
pub(in crate::admin) enum ChangeRefusals {
    /// UNKNOWN_ID: nothing has this id.
    #[response(status = 404)]
    Unknown(ErrorBody),
    /// DUPLICATE_ID, INVALID_STATE, or the code of an entry that the agent writes itself.
    #[response(status = 409)]
    Conflict(ErrorBody),
}
