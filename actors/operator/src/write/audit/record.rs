//! Lines of the audit.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_pipeline::DEFAULT_PRINCIPAL;

fn default_principal() -> String {
    DEFAULT_PRINCIPAL.to_owned()
}

/// A write attempt. Its end is absent while the write is active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the write.
    pub id: String,
    /// Time of the beginning, RFC 3339.
    pub begun_at: String,
    /// Principal that called. Lines of releases without principals are of the default one.
    #[serde(default = "default_principal")]
    pub principal: String,
    /// Session that called.
    pub session: String,
    /// Its client program.
    pub client: String,
    /// Tool that was called.
    pub tool: String,
    /// Type URL.
    pub msg_type: String,
    /// Digest of the exact message.
    pub message_digest: String,
    /// Decision of the policy: `allow`, `ask`, `confirm`.
    pub verdict: String,
    /// The message as JSON.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub message: Value,
    /// The person or program that confirmed the message, where the policy asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// Idempotency key of the caller.
    pub idempotency_key: Option<String>,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AuditCompletion>,
}

/// The end of a write attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditCompletion {
    /// Time of the end, RFC 3339.
    pub completed_at: String,
    /// `included`, `failed`, `expired`, `displaced`; `not_sent`: nothing of it was ever handed to a node; `unknown`: it was left
    /// open by a process without a journal on disk.
    pub outcome: String,
    /// Code of the error that was answered.
    pub error_code: Option<String>,
    /// Its last transaction.
    pub tx_hash: Option<String>,
    /// Height of its block.
    pub block_height: Option<u64>,
    /// Result code.
    pub code: Option<u32>,
    /// Codespace of the code.
    pub codespace: Option<String>,
    /// Fee of its last transaction, in the fee denom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee: Option<String>,
    /// Payer of that fee, `corporation` or `operator`, as in the answer of the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_payer: Option<String>,
}

/// A call that ended before anything was signed: a refused or declined write, a call of an agent, or a read that was confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditCall {
    /// Time of the end, RFC 3339.
    pub at: String,
    /// Principal that called. Lines of releases without principals are of the default one.
    #[serde(default = "default_principal")]
    pub principal: String,
    /// Session that called.
    pub session: String,
    /// Its client program.
    pub client: String,
    /// Tool that was called.
    pub tool: String,
    /// The policy for the tool: `allow`, `ask`, `confirm`, `deny`.
    pub verdict: String,
    /// The person or program that confirmed the call, where the policy asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    /// Arguments of the call.
    pub arguments: Value,
    /// Code of the error that was answered; absent for a call that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum AuditLine {
    /// A call that wrote nothing to the chain.
    Called(Box<AuditCall>),
    /// Requests without a valid token since the last such line.
    Unauthorized {
        at: String,
        count: u64,
    },
    /// A boot found that the lines before are not those that were written.
    Problem {
        at: String,
        problem: String,
    },
    Begun(Box<AuditRecord>),
    Completed {
        id: String,
        #[serde(flatten)]
        end: AuditCompletion,
    },
}
