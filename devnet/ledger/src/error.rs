//! Errors with the chain's identity: codespace, code, and a text in which the outer wrap comes first.

use std::fmt::Display;

use crate::registered_texts::registered_text;

/// Code of a recovered panic.
const PANIC: u32 = 111_222;

/// A refused transaction, message or query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct LedgerError {
    /// Codespace.
    pub codespace: &'static str,
    /// Code within it.
    pub code: u32,
    /// Text: the outer wrap first, the root cause last.
    pub text: String,
}

/// gRPC status of a failed query, as far as `abci_query` distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStatus {
    /// NotFound.
    NotFound,
    /// InvalidArgument or FailedPrecondition.
    InvalidArgument,
    /// Any other status.
    Other,
}

impl LedgerError {
    /// Creates a registered error. Behind the detail stands the text that a module of the registry has registered for the code.
    pub fn new(codespace: &'static str, code: u32, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let text = match registered_text(codespace, code) {
            Some(registered) => format!("{detail}: {registered}"),
            None => detail,
        };
        Self { codespace, code, text }
    }

    /// Creates the error of a handler that panics. A node's text has its stack behind the reason.
    pub fn panic(reason: &str) -> Self {
        let text = format!(
            "recovered: {reason}\nstack:\ngoroutine 1 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26 \
             +0x5e\n: panic"
        );
        Self { codespace: "sdk", code: PANIC, text }
    }

    /// Whether a handler has panicked.
    pub fn is_panic(&self) -> bool {
        (self.codespace, self.code) == ("sdk", PANIC)
    }

    /// Creates an unregistered error: plain text, gRPC status errors and store misses inside message handlers.
    pub fn unregistered(text: impl Into<String>) -> Self {
        Self::new("undefined", 1, text)
    }

    /// Creates an error of the SDK's codespace.
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

    /// Adds an outer wrap to the text.
    #[must_use]
    pub fn wrap(mut self, outer: impl Display) -> Self {
        self.text = format!("{outer}: {}", self.text);
        self
    }

    /// Maps a query's gRPC status as `abci_query` does: NotFound to sdk/22, InvalidArgument to sdk/18, others to sdk/6.
    pub fn from_query(status: QueryStatus, text: impl Display) -> Self {
        match status {
            QueryStatus::NotFound => Self::sdk(22, text),
            QueryStatus::InvalidArgument => Self::sdk(18, text),
            QueryStatus::Other => Self::sdk(6, text),
        }
    }
}
