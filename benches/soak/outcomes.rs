//! Reads the outcome of a write from an answer of the tool server, or that the call must be repeated.

use rmcp::model::CallToolResult;
use serde_json::Value;
use svc::mcp_client::result_content;

/// How a write has ended, as it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SoakOutcome {
    /// It is in a block.
    Included { hash: String, height: u64 },
    /// Its transaction never executes; the key is used up.
    NotExecuted { code: String, hash: String },
    /// Its transaction is in a block and has failed there.
    Failed { code: String, hash: String, height: u64 },
    /// An earlier call, of which the journal has lost the record, is in a block.
    Restored { hash: String, height: u64 },
    /// It was in flight, or in a block, when the chain lost its blocks, and a person has abandoned it.
    Abandoned { code: String, hash: String },
    /// Nothing was sent.
    Refused { code: String },
}

impl SoakOutcome {
    /// One word for the table.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Included { .. } | Self::Restored { .. } => "ok",
            Self::Abandoned { .. } => "abandoned",
            Self::NotExecuted { code, .. } if code == "TX_EXPIRED" => "expired",
            Self::NotExecuted { .. } | Self::Failed { .. } | Self::Refused { .. } => "failed",
        }
    }

    /// Code of the error.
    pub fn code(&self) -> &str {
        match self {
            Self::Included { .. } => "ok",
            Self::Restored { .. } => "restored",
            Self::Abandoned { code, .. }
            | Self::NotExecuted { code, .. }
            | Self::Failed { code, .. }
            | Self::Refused { code } => code,
        }
    }

    /// Its transaction.
    pub fn hash(&self) -> Option<&String> {
        match self {
            Self::Included { hash, .. }
            | Self::NotExecuted { hash, .. }
            | Self::Failed { hash, .. }
            | Self::Restored { hash, .. }
            | Self::Abandoned { hash, .. } => Some(hash),
            Self::Refused { .. } => None,
        }
    }

    /// Whether it stands in the journal, so that it is answered again as it was.
    pub fn is_recorded(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Restored { .. })
    }
}

/// Reads an answer: how the write has ended, or the code that says it is not known yet.
pub fn parse_answer(result: CallToolResult) -> Result<SoakOutcome, String> {
    let content = result_content(&result);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if result.is_error != Some(true) {
        let (hash, height) = (text(&content["tx_hash"]), content["block_height"].as_u64());
        return match (hash, height) {
            (Some(hash), Some(height)) => Ok(SoakOutcome::Included { hash, height }),
            _ => Err(format!("neither receipt nor error: {content}")),
        };
    }
    let code = text(&content["code"]).unwrap_or_default();
    let details = &content["details"];
    let (hash, height) = (text(&details["tx_hash"]), details["block_height"].as_u64());
    match (code.as_str(), hash, height) {
        // Displaced for good: unlike a sequence that stayed wrong, it names a transaction.
        ("TX_EXPIRED" | "SEQUENCE_MISMATCH", Some(hash), _) => Ok(SoakOutcome::NotExecuted { code, hash }),
        ("JOURNAL_UNAVAILABLE", Some(hash), Some(height)) => Ok(SoakOutcome::Restored { hash, height }),
        ("WRITE_ABANDONED", Some(hash), _) => Ok(SoakOutcome::Abandoned { code, hash }),
        // Refused, and it may still execute: the key tells later.
        _ if details["timeout_height"].is_u64() => Err(code),
        (
            "BCAST_TIMEOUT"
            | "CHAIN_CHANGED"
            | "RESTARTING"
            | "NOT_READY"
            | "JOURNAL_UNAVAILABLE"
            | "OVERLOADED"
            | "SEQUENCE_MISMATCH",
            ..,
        ) => Err(code),
        (upstream, ..) if upstream.starts_with("UPSTREAM_") => Err(code),
        (_, Some(hash), Some(height)) => Ok(SoakOutcome::Failed { code, hash, height }),
        ("BCAST_REJECTED", ..) if content["retryable"] == true => Err(code),
        ("", ..) => Err(format!("an error without a code: {content}")),
        _ => Ok(SoakOutcome::Refused { code }),
    }
}
