//! A write as it was requested: the message, its origin and its idempotency key.

use std::sync::Arc;

use super::{fee::FeeLimits, message::EncodedMessage};

/// Principal of writes that no other one requested.
pub const DEFAULT_PRINCIPAL: &str = "default";

/// The origin of a write: the session and client that requested it, and the decision that allowed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WriteOrigin {
    /// Principal that requested it. Fees of a day are summed for each one, and an idempotency key belongs to one.
    pub principal: Arc<str>,
    /// Session, or the name that stands for it. The signer takes the writes of different sessions in turn.
    pub session: Arc<str>,
    /// Name of the client program.
    pub client: Arc<str>,
    /// Operation of the client, for example the name of an MCP tool.
    pub tool: Arc<str>,
    /// Decision of the embedder's policy: `allow`, `ask`, `confirm`.
    pub verdict: Arc<str>,
    /// The person or program that confirmed the message, where the policy asked. The journal does not keep it.
    pub confirmed_by: Option<Arc<str>>,
}

impl WriteOrigin {
    /// The origin of a program that embeds the pipeline and writes on its own behalf.
    pub fn embedder(name: &str) -> Self {
        Self {
            principal: DEFAULT_PRINCIPAL.into(),
            session: name.into(),
            client: name.into(),
            tool: "".into(),
            verdict: "allow".into(),
            confirmed_by: None,
        }
    }
}

/// A write from the request to journal and audit.
#[derive(Debug, Clone)]
pub struct WriteIntent {
    /// Unique in all processes.
    pub id: String,
    /// The exact message.
    pub encoded: EncodedMessage,
    /// Origin of the request.
    pub origin: WriteOrigin,
    /// Key under which the outcome can be looked up again.
    pub idempotency_key: Option<String>,
    /// W3C `traceparent` of the call.
    pub traceparent: Option<String>,
    /// Ceilings of the principal, below those of the account. The journal does not keep them.
    pub fee_limits: FeeLimits,
}

impl WriteIntent {
    /// An intent with a new id. The trace context is the one of `span`.
    pub fn new(
        encoded: EncodedMessage,
        origin: WriteOrigin,
        idempotency_key: Option<String>,
        span: &tracing::Span,
    ) -> Self {
        let traceparent = svc_otel::trace::traceparent(span);
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            encoded,
            origin,
            idempotency_key,
            traceparent,
            fee_limits: FeeLimits::default(),
        }
    }

    /// The intent under ceilings of its principal.
    #[must_use]
    pub fn with_fee_limits(self, fee_limits: FeeLimits) -> Self {
        Self { fee_limits, ..self }
    }
}

impl WriteIntent {
    /// The intent without the bytes of its message.
    pub(crate) fn without_content(&self) -> Arc<Self> {
        let type_url = self.encoded.message.type_url.clone();
        let message = prost_types::Any { type_url, value: Vec::new() };
        Arc::new(Self { encoded: EncodedMessage { message, needs_grant: self.encoded.needs_grant }, ..self.clone() })
    }
}

#[cfg(test)]
impl WriteIntent {
    /// An intent for tests in which its content does not matter.
    pub(crate) fn sample() -> Arc<Self> {
        let message = prost_types::Any { type_url: "/svc.ec.v1.MsgCreateEcosystem".to_owned(), value: Vec::new() };
        Arc::new(Self {
            id: "intent".to_owned(),
            encoded: EncodedMessage { message, needs_grant: true },
            origin: WriteOrigin::embedder("test"),
            idempotency_key: None,
            traceparent: None,
            fee_limits: FeeLimits::default(),
        })
    }
}
