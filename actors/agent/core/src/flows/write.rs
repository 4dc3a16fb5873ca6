//! The change of a flow, as the store writes it.

use std::fmt;

use svc_didcomm::{
    Message,
    flow::{FlowRecord, Progress},
};

/// The kind of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// Offered by this agent: the credential without its proof.
    Offered,
    /// Signed by this agent.
    Signed,
    /// Come from the issuer, and not checked.
    Received,
    /// Come from the issuer, and checked.
    Held,
}

impl ContentKind {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Signed => "signed",
            Self::Received => "received",
            Self::Held => "held",
        }
    }
}

/// A content of a flow.
#[derive(Clone, PartialEq, Eq)]
pub struct FlowContent {
    /// Kind.
    pub kind: ContentKind,
    /// Round that it belongs to.
    pub round: u32,
    /// Name of its format, as that of an attachment.
    pub format: String,
    /// The credential as JSON; nothing where one has come in a format that is not taken.
    pub body: String,
}

impl fmt::Debug for FlowContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The credential is nothing for a log.
        let Self { kind, round, format, body } = self;
        write!(formatter, "{} of round {round}, {format:?}, {} bytes", kind.as_str(), body.len())
    }
}

/// A changed flow with everything that goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowWrite {
    /// The record, and the changes of its state.
    pub progress: Progress,
    /// Messages to the peer, in order.
    pub messages: Vec<Message>,
    /// Time of the next step of this agent, in milliseconds since the epoch.
    pub due_at: Option<i64>,
    /// Credentials.
    pub contents: Vec<FlowContent>,
}

impl FlowWrite {
    /// The write, in the trace of the call, event or message that began the work on its flow.
    pub fn in_trace(mut self, present: Option<String>) -> Self {
        let traceparent = &mut self.progress.record.traceparent;
        *traceparent = traceparent.take().or(present);
        self
    }
}

/// The rows that a write goes out from. The store writes nothing where it finds others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowBefore {
    /// The flow is stored.
    Loaded {
        /// Thread of its opening message.
        thread_id: Option<String>,
        /// Its newest change, in milliseconds since the epoch.
        updated_at: i64,
    },
    /// The flow begins.
    New {
        /// Flows of its peer that have not ended.
        live: u64,
    },
}

impl FlowBefore {
    /// A stored flow.
    pub fn of(loaded: &FlowRecord) -> Self {
        Self::Loaded { thread_id: loaded.thread_id.clone(), updated_at: loaded.updated_at }
    }
}
