//! Text syntaxes of the registry, as the chain tests them.

/// A JSON value as it stands in a path, a query or a line for people: texts without quotes, everything else as JSON.
pub fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether all integers in a value are such as a double holds exactly. The canonical form of JSON (RFC 8785) writes them as doubles, so
/// that of others it would say the same as of their neighbours.
pub fn has_plain_integers(value: &serde_json::Value) -> bool {
    const EXACT: u64 = 1 << 53;
    match value {
        serde_json::Value::Number(number) => {
            number.as_u64().is_none_or(|number| number <= EXACT)
                && number.as_i64().is_none_or(|number| number.unsigned_abs() <= EXACT)
        }
        serde_json::Value::Array(items) => items.iter().all(has_plain_integers),
        serde_json::Value::Object(members) => members.values().all(has_plain_integers),
        _ => true,
    }
}

/// A DID with optional fragment and query.
pub const DID_PATTERN: &str = r"^did:[a-z0-9]+:[A-Za-z0-9._:/%-]+(#\S*)?(\?\S*)?$";

/// A Subresource Integrity digest; its length is not tied to the algorithm.
pub const DIGEST_SRI_PATTERN: &str = r"^(sha256|sha384|sha512)-[A-Za-z0-9+/]+={0,2}$";

/// Longest language tag of corporations and ecosystems, in bytes.
pub const MAX_LANGUAGE_BYTES: usize = 17;

/// Message types a corporation can grant to an operator, as module and name. The last one is usable through a VS-operator
/// record only and cannot be granted.
pub const DELEGABLE: [(&str, &str); 29] = [
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

/// The delegable type no operator authorization can hold.
pub const SESSION_MESSAGE: (&str, &str) = ("pp", "MsgCreateOrUpdateParticipantSession");
