//! The one error envelope that tools answer with, and its closed lists of stages and codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A failed call: the cause, whether a repetition can help, and the next step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ErrorEnvelope {
    /// Where in the life of the call it failed.
    pub stage: FailureStage,
    /// Stable code; branch on this.
    pub code: FailureCode,
    /// The cause and the value at fault: lower case, no full stop.
    pub message: String,
    /// The next step, in a sentence.
    pub hint: String,
    /// Whether the same call may succeed later without a change.
    pub retryable: bool,
    /// Machine-readable particulars; shape depends on the code.
    pub details: Box<Value>,
    /// The next step by name, for the front end to add in the words of its surface. Absent on the wire of a front end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<NextStep>,
}

/// A step that helps after a failure. A front end knows the tool, resource or setting that performs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextStep {
    /// Look the transaction up by its hash.
    LookUpTransaction,
    /// Look through the recent transactions before the write is repeated.
    ListTransactions,
    /// Show the authorizations of the operator.
    ListAuthorizations,
    /// Have the corporation grant an authorization again.
    RenewAuthorization,
    /// Show the fee allowance.
    ShowFeeAllowance,
    /// Show the address of the operator, for the agent's list of allowed accounts.
    ShowAddress,
    /// Show the agents of the corporation.
    ListAgents,
    /// Show the schema of the tool.
    ShowSchema,
    /// Configure another node.
    ConfigureNode,
    /// Configure another indexer.
    ConfigureIndexer,
    /// Configure a graph.
    ConfigureGraph,
    /// Configure a higher gas limit, if so much gas is wanted.
    RaiseMaxGas,
    /// Configure a higher fee, if so high a fee is wanted.
    RaiseMaxFee,
    /// Configure higher fees of a day, if they are wanted.
    RaiseMaxFeePerDay,
    /// Configure a higher price of gas.
    RaiseGasPrice,
    /// Configure the agent to serve external callers.
    ServeAdminApi,
    /// Raise the limit of the principal, if the write is worth it.
    RaisePrincipalLimit,
}

/// Where in the life of a call it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStage {
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
        pub enum FailureCode { $(#[doc = $doc] #[serde(rename = $text)] $name,)* }

        impl FailureCode {
            /// Every code.
            pub const ALL: &'static [FailureCode] = &[$(FailureCode::$name,)*];

            /// The code as it travels.
            pub fn as_str(self) -> &'static str { match self { $(FailureCode::$name => $text,)* } }

            /// The stage it belongs to.
            pub fn stage(self) -> FailureStage { match self { $(FailureCode::$name => FailureStage::$stage,)* } }

            /// Whether the same call may succeed later without a change.
            pub fn is_retryable(self) -> bool { match self { $(FailureCode::$name => $retryable,)* } }
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
    FeeAboveCeiling, "FEE_ABOVE_CEILING", Broadcast, false, "Gas or fee would be above its configured limit; nothing was signed.";
    SequenceMismatch, "SEQUENCE_MISMATCH", Broadcast, true, "The account sequence stayed wrong after resynchronising.";
    JournalUnavailable, "JOURNAL_UNAVAILABLE", Broadcast, true, "Writes cannot be put on record, so nothing is signed.";
    BroadcastRejected, "BCAST_REJECTED", Broadcast, false, "CheckTx refused the transaction; it was not sent.";
    BroadcastTimeout, "BCAST_TIMEOUT", Confirmation, false, "Not included in time; it may still be. Reconcile, do not repeat.";
    TxFailed, "TX_FAILED", Confirmation, false, "Included in a block, and failed there.";
    TxExpired, "TX_EXPIRED", Confirmation, true, "Past its timeout height and absent: it can never execute.";
    WriteAbandoned, "WRITE_ABANDONED", Confirmation, false, "The write belongs to a history of the chain that has ended; its key never sends again.";
    IndexerBehind, "INDEXER_BEHIND", Indexer, true, "The indexer did not reach the height that was asked for.";
    HeightNotIndexed, "HEIGHT_NOT_INDEXED", Indexer, false, "The answer lies below the oldest height of the indexer, `details.oldest_block_height`: it is not known.";
    NotFound, "NOT_FOUND", Upstream, false, "A server this one depends on has nothing under this name or id.";
    UpstreamUnreachable, "UPSTREAM_UNREACHABLE", Upstream, true, "No connection to a server this one depends on.";
    UpstreamHttpError, "UPSTREAM_HTTP_ERROR", Upstream, false, "A server this one depends on answered with an HTTP error.";
    UpstreamProtocolError, "UPSTREAM_PROTOCOL_ERROR", Upstream, true, "A server this one depends on answered something else than its contract.";
    VsaAdminUrlNotFound, "VSA_ADMIN_URL_NOT_FOUND", Upstream, false, "The agent's DID Document names no admin API.";
    VsaDidResolutionFailed, "VSA_DID_RESOLUTION_FAILED", Upstream, true, "The agent's DID could not be resolved.";
    NotReady, "NOT_READY", Upstream, true, "The server has not finished starting, or is stopping.";
    Overloaded, "OVERLOADED", Upstream, true, "A bounded queue is full.";
    StatePruned, "STATE_PRUNED", Upstream, false, "No configured node has the state of that height any more; `details.oldest_height` is the oldest that one has.";
    ChainChanged, "CHAIN_CHANGED", Upstream, false, "The chain has another history than the journal; nothing is signed until a person has rebased the journal.";
    Restarting, "RESTARTING", Upstream, true, "The part that serves this is being restarted.";
}

impl std::fmt::Display for FailureCode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl ErrorEnvelope {
    /// An error with the stage and retryability of its code.
    pub fn new(code: FailureCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            stage: code.stage(),
            code,
            message: message.into(),
            hint: hint.into(),
            retryable: code.is_retryable(),
            details: Box::new(Value::Object(serde_json::Map::new())),
            next_step: None,
        }
    }

    /// Names the next step.
    #[must_use]
    pub fn with_next_step(mut self, next_step: NextStep) -> Self {
        self.next_step = Some(next_step);
        self
    }

    /// Says that repeating the call blindly may do it twice.
    #[must_use]
    pub fn not_retryable(mut self) -> Self {
        self.retryable = false;
        self
    }

    /// Adds the particulars.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Box::new(details);
        self
    }
}

/// Bytes of a foreign body that an error may carry.
pub const MAX_ERROR_BODY_BYTES: usize = 8 * 1024;

/// Cuts the body of a foreign answer to [`MAX_ERROR_BODY_BYTES`] bytes, on a character boundary.
pub fn truncate_body(body: &str) -> &str {
    &body[..body.floor_char_boundary(MAX_ERROR_BODY_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_has_exactly_six_members_in_json() {
        let error =
            ErrorEnvelope::new(FailureCode::TxExpired, "m", "h").with_details(serde_json::json!({"tx_hash": "AB"}));
        assert_eq!(
            serde_json::to_value(&error).expect("serialises"),
            serde_json::json!({"stage": "confirmation", "code": "TX_EXPIRED", "message": "m", "details": {"tx_hash": "AB"},
                "retryable": true, "hint": "h"})
        );
    }

    #[test]
    fn a_body_is_cut_between_characters() {
        let body = "é".repeat(MAX_ERROR_BODY_BYTES);
        assert_eq!(truncate_body(&body).len(), MAX_ERROR_BODY_BYTES);
        assert_eq!(truncate_body(&format!("x{body}")).len(), MAX_ERROR_BODY_BYTES - 1);
        assert_eq!(truncate_body("short"), "short");
    }
}
