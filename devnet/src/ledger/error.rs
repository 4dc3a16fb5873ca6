//! Failures with the chain's identity: (codespace, code) and a text whose wraps print outer first.

use std::fmt::Display;

/// A refused transaction, message or query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct LedgerError {
    /// Codespace.
    pub codespace: &'static str,
    /// Code within it.
    pub code: u32,
    /// Text, outer wrap first, root last.
    pub text: String,
}

/// gRPC status kinds of query failures, as far as they are told apart on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    NotFound,
    InvalidArgument,
    Other,
}

impl LedgerError {
    /// A registered error.
    pub fn new(codespace: &'static str, code: u32, text: impl Into<String>) -> Self {
        Self { codespace, code, text: text.into() }
    }

    /// An unregistered error: plain text, gRPC status errors and store misses inside message handlers.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new("undefined", 1, text)
    }

    /// An error of the SDK itself.
    pub fn sdk(code: u32, text: impl Display) -> Self {
        let root = match code {
            2 => "tx parse error",
            4 => "unauthorized",
            5 => "insufficient funds",
            6 => "unknown request",
            7 => "invalid address",
            8 => "invalid pubkey",
            9 => "unknown address",
            10 => "invalid coins",
            11 => "out of gas",
            12 => "memo too large",
            13 => "insufficient fee",
            14 => "maximum number of signatures exceeded",
            15 => "no signatures supplied",
            18 => "invalid request",
            22 => "key not found",
            30 => "tx timeout height",
            31 => "unknown extension options",
            32 => "incorrect account sequence",
            37 => "feature not supported",
            38 => "not found",
            41 => "invalid gas limit",
            42 => "tx timeout",
            _ => "internal",
        };
        Self::new("sdk", code, format!("{text}: {root}"))
    }

    /// Adds an outer wrap.
    #[must_use]
    pub fn wrap(mut self, outer: impl Display) -> Self {
        self.text = format!("{outer}: {}", self.text);
        self
    }

    /// Maps a query's gRPC status as `abci_query` does: NotFound to sdk/22, InvalidArgument to sdk/18, others to sdk/6.
    pub fn of_query(status: Status, text: impl Display) -> Self {
        match status {
            Status::NotFound => Self::sdk(22, text),
            Status::InvalidArgument => Self::sdk(18, text),
            Status::Other => Self::sdk(6, text),
        }
    }
}
