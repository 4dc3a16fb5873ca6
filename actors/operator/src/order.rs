//! What was asked for, and by whom: it goes with a write from the question to journal and audit.

use std::sync::Arc;

use crate::prepare::Prepared;

/// Who asked for a write, and how it was let through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asker {
    /// Session, or what stands for it; writes of different sessions take turns.
    pub session: Arc<str>,
    /// Name of the client program.
    pub client: Arc<str>,
    /// Tool that was called.
    pub tool: Arc<str>,
    /// What the policy said: `allow`, `ask`, `confirm`.
    pub verdict: Arc<str>,
}

impl Asker {
    /// A program that embeds the operator and calls it itself.
    pub fn embedder(name: &str) -> Self {
        Self { session: name.into(), client: name.into(), tool: "".into(), verdict: "allow".into() }
    }
}

/// A write as it was asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// Unique in all processes.
    pub id: String,
    /// The exact message.
    pub prepared: Prepared,
    /// Who asked.
    pub asker: Asker,
    /// Under which key the outcome can be asked for again.
    pub key: Option<String>,
    /// W3C `traceparent` of the call.
    pub traceparent: Option<String>,
}

#[cfg(test)]
impl Order {
    /// An order of no consequence.
    pub(crate) fn sample() -> Arc<Self> {
        let message = prost_types::Any { type_url: "/svc.ec.v1.MsgCreateEcosystem".to_owned(), value: Vec::new() };
        Arc::new(Self {
            id: "order".to_owned(),
            prepared: Prepared { message, needs_grant: true },
            asker: Asker::embedder("test"),
            key: None,
            traceparent: None,
        })
    }
}
