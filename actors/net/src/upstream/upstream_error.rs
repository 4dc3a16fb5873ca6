//! The kinds of upstreams, their answers and their failures.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

/// Longest accepted body: the descriptors of a live node are the largest, with a few MiB.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Kind of an upstream, a bounded label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpstreamKind {
    /// A node's RPC.
    Rpc,
    /// An indexer.
    Indexer,
    /// A graph service.
    Graph,
    /// An agent's admin API.
    VsAgent,
}

impl UpstreamKind {
    /// Returns the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Indexer => "indexer",
            Self::Graph => "graph",
            Self::VsAgent => "vs-agent",
        }
    }

    /// Returns the longest accepted body. The URL of an agent comes from an untrusted document, so its limit is lower.
    pub(super) fn max_body_bytes(self) -> usize {
        match self {
            Self::Rpc | Self::Indexer | Self::Graph => MAX_BODY_BYTES,
            Self::VsAgent => MAX_BODY_BYTES / 64,
        }
    }
}

/// An answer with status 2xx.
#[derive(Debug, Clone)]
pub struct UpstreamResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// An answer in JSON, byte for byte and parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonDocument {
    /// The bytes of the answer as text.
    pub text: String,
    /// The same, parsed.
    pub value: serde_json::Value,
}

/// The error of a request to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// No connection, or no answer in time.
    #[error("{} at {origin} is not reachable: {reason}", kind.as_str())]
    Unreachable {
        /// Kind of the upstream.
        kind: UpstreamKind,
        /// Origin of the upstream.
        origin: String,
        /// Error of the connection.
        reason: String,
    },
    /// A status other than 2xx.
    #[error("{} answered with HTTP status {status}", kind.as_str())]
    Http {
        /// Kind of the upstream.
        kind: UpstreamKind,
        /// Status.
        status: u16,
        /// Body, cut at 8 KiB.
        body: String,
    },
    /// The answer violates the contract of the upstream.
    #[error("{} sent an answer that violates its contract: {reason}", kind.as_str())]
    Protocol {
        /// Kind of the upstream.
        kind: UpstreamKind,
        /// The violation.
        reason: String,
        /// Body, cut at 8 KiB.
        body: String,
    },
    /// The circuit breaker is open: nothing was sent.
    #[error(
        "{} at {origin} is not reachable: the last requests all failed; the next attempt follows within a second",
        kind.as_str()
    )]
    Paused {
        /// Kind of the upstream.
        kind: UpstreamKind,
        /// Origin of the upstream.
        origin: String,
    },
    /// Too many requests of this process are in flight: nothing was sent.
    #[error("{limit} requests to {} are already in flight", kind.as_str())]
    Saturated {
        /// Kind of the upstream.
        kind: UpstreamKind,
        /// The limit.
        limit: usize,
    },
}

impl UpstreamError {
    /// Whether no byte of the request left this process.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Paused { .. } | Self::Saturated { .. } => true,
            Self::Unreachable { .. } | Self::Http { .. } | Self::Protocol { .. } => false,
        }
    }
}
