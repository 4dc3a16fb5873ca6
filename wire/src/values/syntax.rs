//! Patterns, limits and lists of message types that the chain checks, and the plain form of JSON values.

/// A JSON value for a path, a query or a line of text: texts without quotes, everything else as JSON.
pub fn plain_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a double holds each integer in a value exactly. The canonical form of JSON (RFC 8785) writes numbers as doubles: a
/// larger integer would get the canonical form of a neighbour.
pub fn has_exact_integers(value: &serde_json::Value) -> bool {
    const EXACT: u64 = 1 << 53;
    match value {
        serde_json::Value::Number(number) => {
            number.as_u64().is_none_or(|number| number <= EXACT)
                && number.as_i64().is_none_or(|number| number.unsigned_abs() <= EXACT)
        }
        serde_json::Value::Array(items) => items.iter().all(has_exact_integers),
        serde_json::Value::Object(members) => members.values().all(has_exact_integers),
        _ => true,
    }
}

/// A DID with optional fragment and query.
pub const DID_PATTERN: &str = r"^did:[a-z0-9]+:[A-Za-z0-9._:/%-]+(#\S*)?(\?\S*)?$";

/// Longest DID of a setting, in bytes.
const MAX_DID_BYTES: usize = 2_048;

/// Whether a text is one DID of the methods web or webvh, without path, query and fragment.
pub fn is_web_did(text: &str) -> bool {
    let id = text.strip_prefix("did:web:").or_else(|| text.strip_prefix("did:webvh:"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
    text.len() <= MAX_DID_BYTES && id.is_some_and(|id| !id.is_empty() && id.bytes().all(is_plain))
}

/// A Subresource Integrity digest; its length is not tied to the algorithm.
pub const DIGEST_SRI_PATTERN: &str = r"^(sha256|sha384|sha512)-[A-Za-z0-9+/]+={0,2}$";

/// Longest language tag of corporations and ecosystems, in bytes.
pub const MAX_LANGUAGE_BYTES: usize = 17;

/// Message types that a corporation can grant to an operator, as (module, name). The last one cannot be granted: it is usable
/// through a VS-operator record only.
pub const DELEGABLE_MESSAGES: [(&str, &str); 29] = [
    ("co", "MsgUpdateCorporation"),
    ("ec", "MsgCreateEcosystem"),
    ("ec", "MsgUpdateEcosystem"),
    ("ec", "MsgArchiveEcosystem"),
    ("gf", "MsgAddGovernanceFrameworkDocument"),
    ("gf", "MsgIncreaseActiveGovernanceFrameworkVersion"),
    ("cs", "MsgCreateCredentialSchema"),
    ("cs", "MsgUpdateCredentialSchema"),
    ("cs", "MsgArchiveCredentialSchema"),
    ("cs", "MsgCreateSchemaAuthorizationPolicy"),
    ("cs", "MsgIncreaseActiveSchemaAuthorizationPolicyVersion"),
    ("cs", "MsgRevokeSchemaAuthorizationPolicy"),
    ("pp", "MsgStartParticipantOP"),
    ("pp", "MsgRenewParticipantOP"),
    ("pp", "MsgSetParticipantOPToValidated"),
    ("pp", "MsgCancelParticipantOPLastRequest"),
    ("pp", "MsgCreateRootParticipant"),
    ("pp", "MsgSelfCreateParticipant"),
    ("pp", "MsgSetParticipantEffectiveUntil"),
    ("pp", "MsgRevokeParticipant"),
    ("pp", "MsgSlashParticipantTrustDeposit"),
    ("pp", "MsgRepayParticipantSlashedTrustDeposit"),
    ("pp", "MsgTriggerResolver"),
    ("td", "MsgReclaimTrustDepositYield"),
    ("td", "MsgRepaySlashedTrustDeposit"),
    ("di", "MsgStoreDigest"),
    ("de", "MsgGrantOperatorAuthorization"),
    ("de", "MsgRevokeOperatorAuthorization"),
    ("pp", "MsgCreateOrUpdateParticipantSession"),
];

/// The delegable message type that no operator authorization can hold.
pub const SESSION_MESSAGE: (&str, &str) = ("pp", "MsgCreateOrUpdateParticipantSession");
