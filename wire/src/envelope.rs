//! The one error envelope that tools answer with, and its closed lists of stages and codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failed call: what failed, with what, whether trying again can help, and what to do next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ErrorEnvelope {
    /// Where in the life of the call it failed.
    pub stage: Stage,
    /// Stable code; branch on this.
    pub code: Code,
    /// What failed and with what: lower case, no full stop.
    pub message: String,
    /// Machine-readable particulars; shape depends on the code.
    pub details: Value,
    /// Whether the same call may succeed later without a change.
    pub retryable: bool,
    /// What to do next.
    pub hint: String,
}

/// Where in the life of a call it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The arguments.
    Validation,
    /// The right to do it.
    Authorization,
    /// Simulation, CheckTx and everything before a block.
    Broadcast,
    /// The block.
    Confirmation,
    /// The indexer.
    Indexer,
    /// A server this one depends on, or this server's own readiness.
    Upstream,
}

macro_rules! codes {
    ($($name:ident, $text:literal, $stage:ident, $retryable:literal, $doc:literal;)*) => {
        /// Stable error codes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code { $(#[doc = $doc] #[serde(rename = $text)] $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code as it travels.
            pub fn as_str(self) -> &'static str { match self { $(Code::$name => $text,)* } }

            /// The stage it belongs to.
            pub fn stage(self) -> Stage { match self { $(Code::$name => Stage::$stage,)* } }

            /// Whether the same call may succeed later without a change.
            pub fn is_retryable(self) -> bool { match self { $(Code::$name => $retryable,)* } }
        }
    };
}

codes! {
    InputInvalid, "INPUT_INVALID", Validation, false, "An argument breaks its schema; `details.violations` has all of them.";
    InputOutOfScope, "INPUT_OUT_OF_SCOPE", Validation, false, "The target is not the bound corporation.";
    ToolUnknown, "TOOL_UNKNOWN", Validation, false, "No tool has this name.";
    AuthzNotGranted, "AUTHZ_NOT_GRANTED", Authorization, false, "The corporation does not grant this message type to the operator.";
    AuthzExpired, "AUTHZ_EXPIRED", Authorization, false, "The authorization has expired.";
    AuthzRevoked, "AUTHZ_REVOKED", Authorization, false, "The authorization was there and is gone.";
    AuthzPreconditionFailed, "AUTHZ_PRECONDITION_FAILED", Authorization, false, "The authorization exists but a limit or a state forbids this use.";
    VsaNotAuthorized, "VSA_NOT_AUTHORIZED", Authorization, false, "The agent is not one of the bound corporation.";
    VsaAuthFailed, "VSA_AUTH_FAILED", Authorization, false, "The agent refused the login.";
    SimulationFailed, "SIMULATION_FAILED", Broadcast, false, "The chain refused the message in simulation; nothing was sent.";
    InsufficientFees, "INSUFFICIENT_FEES", Broadcast, false, "Neither the fee allowance nor the own balance pays the fee.";
    SequenceMismatch, "SEQUENCE_MISMATCH", Broadcast, true, "The account sequence stayed wrong after resynchronising.";
    BcastRejected, "BCAST_REJECTED", Broadcast, false, "CheckTx refused the transaction; it was not sent.";
    BcastTimeout, "BCAST_TIMEOUT", Confirmation, false, "Not included in time; it may still be. Reconcile, do not repeat.";
    TxFailed, "TX_FAILED", Confirmation, false, "Included in a block, and failed there.";
    TxExpired, "TX_EXPIRED", Confirmation, true, "Past its timeout height and absent: it can never execute.";
    IndexerBehind, "INDEXER_BEHIND", Indexer, true, "The indexer did not reach the height that was asked for.";
    UpstreamUnreachable, "UPSTREAM_UNREACHABLE", Upstream, true, "No connection to a server this one depends on.";
    UpstreamHttpError, "UPSTREAM_HTTP_ERROR", Upstream, false, "A server this one depends on answered with an HTTP error.";
    UpstreamProtocolError, "UPSTREAM_PROTOCOL_ERROR", Upstream, true, "A server this one depends on answered something else than its contract.";
    VsaAdminUrlNotFound, "VSA_ADMIN_URL_NOT_FOUND", Upstream, false, "The agent's DID Document names no admin API.";
    VsaDidResolutionFailed, "VSA_DID_RESOLUTION_FAILED", Upstream, true, "The agent's DID could not be resolved.";
    NotReady, "NOT_READY", Upstream, true, "The server has not finished starting, or is stopping.";
    Overloaded, "OVERLOADED", Upstream, true, "A bounded queue is full.";
    Restarting, "RESTARTING", Upstream, true, "The part that serves this is being restarted.";
}

impl std::fmt::Display for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl ErrorEnvelope {
    /// An error with the stage and retryability of its code.
    pub fn new(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            stage: code.stage(),
            code,
            message: message.into(),
            details: Value::Object(serde_json::Map::new()),
            retryable: code.is_retryable(),
            hint: hint.into(),
        }
    }

    /// Says that repeating the call blindly may do it twice.
    #[must_use]
    pub fn unrepeatable(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// Adds the particulars.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

/// Bytes of a foreign body that an error may carry.
pub const MAX_BODY_BYTES: usize = 8 * 1024;

/// Cuts a foreign body to [`MAX_BODY_BYTES`] on a character boundary.
pub fn cut_body(body: &str) -> &str {
    &body[..body.floor_char_boundary(MAX_BODY_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_has_exactly_six_members_in_json() {
        let error = ErrorEnvelope::new(Code::TxExpired, "m", "h").with_details(serde_json::json!({"tx_hash": "AB"}));
        assert_eq!(
            serde_json::to_value(&error).expect("serialises"),
            serde_json::json!({"stage": "confirmation", "code": "TX_EXPIRED", "message": "m", "details": {"tx_hash": "AB"},
                "retryable": true, "hint": "h"})
        );
    }

    #[test]
    fn a_body_is_cut_between_characters() {
        let body = "é".repeat(MAX_BODY_BYTES);
        assert_eq!(cut_body(&body).len(), MAX_BODY_BYTES);
        assert_eq!(cut_body(&format!("x{body}")).len(), MAX_BODY_BYTES - 1);
        assert_eq!(cut_body("short"), "short");
    }
}
