//! Queries and their failures, as both gateways answer them.

use svc_ledger::LedgerError;

use crate::node::shared::SharedChain;

/// Header, and metadata, with the height that is asked about, and that of an answer.
pub const HEIGHT_HEADER: &str = "x-cosmos-block-height";

/// Codes of gRPC.
pub const UNKNOWN: i32 = 2;
pub const INVALID_ARGUMENT: i32 = 3;
pub const NOT_FOUND: i32 = 5;
pub const UNIMPLEMENTED: i32 = 12;

/// The status of a query that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryFailure {
    pub code: i32,
    pub message: String,
}

impl QueryFailure {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The status that `abci_query` has mapped to an error of the SDK, without the sentence that it has added.
    fn of(error: &LedgerError) -> Self {
        let (code, added) = match (error.codespace, error.code) {
            ("sdk", 22) => (NOT_FOUND, ": key not found"),
            ("sdk", 18) => (INVALID_ARGUMENT, ": invalid request"),
            ("sdk", 6) if error.text.starts_with("unknown query path") => (UNIMPLEMENTED, ": unknown request"),
            ("sdk", 6) => (UNKNOWN, ": unknown request"),
            _ => (UNKNOWN, ""),
        };
        let text = error.text.strip_suffix(added).unwrap_or(&error.text);
        Self::new(code, text.strip_prefix("rpc error: code = Unknown desc = ").unwrap_or(text))
    }
}

/// Answers a query at a height, 0 for the newest; returns the height of the answer with its bytes.
pub fn ask(shared: &SharedChain, path: &str, data: &[u8], height: &str) -> Result<(u64, Vec<u8>), QueryFailure> {
    let height = match height {
        "" => 0,
        text => text
            .parse()
            .map_err(|_| QueryFailure::new(INVALID_ARGUMENT, format!("{HEIGHT_HEADER} {text:?} is no height")))?,
    };
    let (height, answer) = shared.run_and_gossip(|core| core.query(path, data, height));
    answer.map(|bytes| (height, bytes)).map_err(|error| QueryFailure::of(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_status_behind_the_error_of_abci() {
        for (error, code, message) in [
            (LedgerError::sdk(22, "account a not found"), NOT_FOUND, "account a not found"),
            (LedgerError::sdk(18, "invalid key"), INVALID_ARGUMENT, "invalid key"),
            (LedgerError::sdk(6, "unknown query path: /a.B/C"), UNIMPLEMENTED, "unknown query path: /a.B/C"),
            (
                LedgerError::sdk(6, "rpc error: code = Unknown desc = x [y.go:1] with gas used: '7'"),
                UNKNOWN,
                "x [y.go:1] with gas used: '7'",
            ),
            (LedgerError::sdk(38, "failed to load state"), UNKNOWN, "failed to load state: not found"),
        ] {
            assert_eq!(QueryFailure::of(&error), QueryFailure::new(code, message), "{error}");
        }
    }
}
