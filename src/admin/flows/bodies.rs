//! The bodies of the routes about flows, as the OpenAPI document describes them.

use serde_json::Value;
use utoipa::ToSchema;

/// A flow with a peer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
pub(in crate::admin) struct Flow {
    /// UUID of the record.
    id: String,
    /// applicant or validator: the side of this agent.
    role: String,
    /// onboarding-process or direct-issuance.
    variant: String,
    /// DID by which the peer is known.
    peer_did: String,
    /// The applicant's participant; none in a direct issuance.
    #[schema(nullable = false)]
    applicant_participant_id: Option<String>,
    /// The validator's participant.
    #[schema(nullable = false)]
    validator_participant_id: Option<String>,
    /// Schema of the credential.
    schema_id: String,
    /// UUID of the session, by which every route names the flow.
    participant_session_id: String,
    /// Sessions of before, which find the flow too.
    previous_session_ids: Vec<String>,
    /// State of the flow; docs/agent.md has the table.
    flow_state: String,
    /// NOT_CONNECTED, ESTABLISHED or TERMINATED.
    connection_state: String,
    /// The party that acts next: APPLICANT, VALIDATOR, CHAIN, AGENT or NONE.
    pending_action: String,
    /// 1, and one more with each renewal.
    round: u32,
    /// Time of the last change of state.
    #[schema(format = DateTime)]
    last_event_at: String,
    /// Claims of the credential, without the id of its subject.
    #[schema(nullable = false, value_type = Option<Object>)]
    claims: Option<Value>,
    /// Presentations of the applicant, which are kept and not read.
    #[schema(nullable = false, value_type = Option<Vec<Object>>)]
    proofs: Option<Value>,
    #[schema(nullable = false)]
    oob_link: Option<FlowLink>,
    /// Messages for people, the oldest first; at most 100.
    messages: Vec<FlowMessage>,
    #[schema(nullable = false)]
    validation: Option<FlowValidation>,
    #[schema(nullable = false)]
    issuance: Option<FlowIssuance>,
    /// Id of the credential.
    #[schema(nullable = false)]
    credential_id: Option<String>,
    /// Digest of the credential, as the chain has it.
    #[schema(nullable = false)]
    credential_digest: Option<String>,
    /// applicantParticipantId, by its name in an older text.
    #[schema(nullable = false)]
    participant_id: Option<String>,
    /// URL of oobLink, by its name in an older text.
    #[schema(nullable = false)]
    oob_link_url: Option<String>,
    /// credentialDigest, by its name in an older text.
    #[schema(nullable = false)]
    #[serde(rename = "digestJCS")]
    digest_jcs: Option<String>,
    /// Thread of the newest opening message.
    #[schema(nullable = false)]
    thread_id: Option<String>,
    /// The connection.
    #[schema(nullable = false)]
    connection_id: Option<String>,
    /// Thread of the exchange of the credential.
    #[schema(nullable = false)]
    subprotocol_thid: Option<String>,
    #[schema(nullable = false)]
    blocked: Option<FlowBlock>,
    #[schema(nullable = false)]
    refusal: Option<FlowRefusal>,
    #[schema(nullable = false)]
    unanswered: Option<FlowUnanswered>,
    /// The reason of an end, in words.
    #[schema(nullable = false)]
    error_message: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// The last message to the peer, where it went out and nothing says whether it arrived: the applicant sends its opening message again.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
struct FlowUnanswered {
    message_id: String,
    /// Its type, a URI.
    #[schema(rename = "type")]
    kind: String,
    #[schema(format = DateTime)]
    since: String,
}

/// A link at which the applicant has something to do. It is a text of the validator: show it as one.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
struct FlowLink {
    url: String,
    description: String,
    #[schema(nullable = false, format = DateTime)]
    expires_at: Option<String>,
    #[schema(format = DateTime)]
    at: String,
}

/// A message for people.
#[derive(ToSchema)]
#[allow(dead_code)]
struct FlowMessage {
    /// oob-link, validating or problem-report.
    #[schema(rename = "type")]
    kind: String,
    text: String,
    #[schema(format = DateTime)]
    at: String,
    #[schema(nullable = false)]
    url: Option<String>,
}

/// The decision of the validator's operator, or of the chain.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
struct FlowValidation {
    #[schema(format = DateTime)]
    decided_at: String,
    /// AGENT when this agent sends the transaction, OPERATOR when an operator of the corporation does.
    submission: String,
    fees: FlowFees,
    /// End of the participant.
    #[schema(nullable = false, format = DateTime)]
    effective_until: Option<String>,
    #[schema(nullable = false)]
    op_summary_digest: Option<String>,
    /// false where the digest is kept and not sent: the chain takes none for a HOLDER.
    #[schema(nullable = false)]
    op_summary_digest_sent: Option<bool>,
    /// Beginning of the credential's validity, where the decision sets it.
    #[schema(nullable = false, format = DateTime)]
    credential_valid_from: Option<String>,
    /// End of the credential's validity, where the decision sets it.
    #[schema(nullable = false, format = DateTime)]
    credential_valid_until: Option<String>,
    /// Whether the applicant is to present the credential, where the decision says so.
    #[schema(nullable = false)]
    present_as_linked_vp: Option<bool>,
    #[schema(nullable = false)]
    tx: Option<FlowTransaction>,
}

/// Fees in the pricing asset of the schema; discounts from 0 to 1.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
struct FlowFees {
    validation_fees: u64,
    issuance_fees: u64,
    verification_fees: u64,
    issuance_fee_discount: f64,
    verification_fee_discount: f64,
}

/// The session of the credential.
#[derive(ToSchema)]
#[allow(dead_code)]
struct FlowIssuance {
    tx: FlowTransaction,
}

/// A transaction of this agent.
#[derive(ToSchema)]
#[allow(dead_code)]
struct FlowTransaction {
    /// SUBMITTED, SUCCEEDED or FAILED.
    status: String,
    #[schema(nullable = false)]
    hash: Option<String>,
    #[schema(nullable = false)]
    height: Option<u64>,
    #[schema(nullable = false)]
    reason: Option<String>,
    #[schema(nullable = false)]
    error: Option<String>,
}

/// The reason for which the flow waits for people.
#[derive(ToSchema)]
#[allow(dead_code)]
struct FlowBlock {
    reason: String,
    #[schema(format = DateTime)]
    since: String,
    text: String,
}

/// The last problem report of the peer that can be mended.
#[derive(ToSchema)]
#[allow(dead_code)]
struct FlowRefusal {
    code: String,
    text: String,
    #[schema(format = DateTime)]
    at: String,
}

/// A flow to open: participantId alone, or did and schemaId.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewFlow {
    /// A participant of this agent's DID.
    #[schema(nullable = false, pattern = "^[1-9][0-9]{0,18}$")]
    participant_id: Option<String>,
    /// DID of an issuer.
    #[schema(nullable = false)]
    did: Option<String>,
    /// Schema of the registry.
    #[schema(nullable = false, pattern = "^[1-9][0-9]{0,18}$")]
    schema_id: Option<String>,
    /// Claims of the credential, without the id of its subject.
    #[schema(nullable = false, value_type = Option<Object>)]
    claims: Option<Value>,
}

/// Claims of a credential.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewClaims {
    /// They replace those of before, without the id of the subject.
    #[schema(value_type = Object)]
    claims: Value,
}

/// A link for the applicant.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct NewFlowLink {
    /// An absolute https URL.
    #[schema(max_length = 2048)]
    url: String,
    /// The task there. It may be named message instead, as in an older text.
    #[schema(nullable = false, min_length = 1, max_length = 16384)]
    description: Option<String>,
    /// description, by its name in an older text.
    #[schema(nullable = false, min_length = 1, max_length = 16384)]
    message: Option<String>,
    #[schema(nullable = false, format = DateTime)]
    expires_at: Option<String>,
}

/// A text for the applicant.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FlowComment {
    #[schema(nullable = false, min_length = 1, max_length = 2048)]
    comment: Option<String>,
}

/// The terms of a validation. All may be absent; a direct issuance reads none.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FlowTerms {
    #[schema(nullable = false, minimum = 0)]
    validation_fees: Option<u64>,
    #[schema(nullable = false, minimum = 0)]
    issuance_fees: Option<u64>,
    #[schema(nullable = false, minimum = 0)]
    verification_fees: Option<u64>,
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    issuance_fee_discount: Option<f64>,
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    verification_fee_discount: Option<f64>,
    #[schema(nullable = false, format = DateTime)]
    effective_until: Option<String>,
    /// Digest with its algorithm, such as sha384- and base64. For a HOLDER it is kept and not sent.
    #[schema(nullable = false, max_length = 256)]
    op_summary_digest: Option<String>,
    /// JSON_LD, the format of every credential. This and the next members stand in an older text.
    #[schema(nullable = false, pattern = "^JSON_LD$")]
    credential_format: Option<String>,
    /// false where the applicant is not to present the credential; only for a schema that is not essential.
    #[schema(nullable = false)]
    present_as_linked_vp: Option<bool>,
    /// Beginning of the credential's validity; the issuance when absent.
    #[schema(nullable = false, format = DateTime)]
    credential_valid_from: Option<String>,
    /// End of the credential's validity.
    #[schema(nullable = false, format = DateTime)]
    credential_valid_until: Option<String>,
}

/// A rejection.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FlowRejection {
    /// For the applicant.
    #[schema(min_length = 1, max_length = 2048)]
    description: String,
    /// vt-flow.validation-refused when absent.
    #[schema(nullable = false, pattern = r"^vt-flow\.(validation-refused|session-terminated|oob-expired)$")]
    code: Option<String>,
}

/// Claims that replace those of before.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FlowRepetition {
    #[schema(nullable = false, value_type = Option<Object>)]
    claims: Option<Value>,
}

/// The end of a flow.
#[derive(ToSchema)]
#[allow(dead_code)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FlowEnd {
    /// For the validator.
    #[schema(nullable = false, min_length = 1, max_length = 2048)]
    description: Option<String>,
}
