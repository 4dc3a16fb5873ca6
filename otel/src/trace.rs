//! Trace context: read from callers, carried between actors, given to upstreams.

use std::{future::Future, sync::Arc, time::Duration};

use opentelemetry::{
    Context, global,
    propagation::Extractor,
    trace::{SpanContext, TraceContextExt},
};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::names::{attribute, span};

/// The call on whose behalf code runs; every log line inside it carries these two fields.
#[derive(Debug, Clone)]
pub struct Call {
    /// Unique per request.
    pub request_id: Arc<str>,
    /// Tool name.
    pub tool: Arc<str>,
}

tokio::task_local! {
    static CURRENT: Call;
}

/// Runs `future` on behalf of `call`.
pub async fn within<F: Future>(call: Option<Call>, future: F) -> F::Output {
    match call {
        Some(call) => CURRENT.scope(call, future).await,
        None => future.await,
    }
}

/// Where a message comes from: the sender's span and call.
#[derive(Debug, Clone)]
pub struct Origin {
    span: SpanContext,
    /// The call it belongs to.
    pub call: Option<Call>,
}

impl Origin {
    /// The current span and call.
    pub fn current() -> Self {
        Self { span: span_context(&Span::current()), call: CURRENT.try_with(Clone::clone).ok() }
    }

    /// Links `span` to the sender. A link, not a parent: a chain of messages must not become a chain of nested spans.
    fn link(&self, span: &Span) {
        if self.span.is_valid() {
            span.add_link(self.span.clone());
        }
    }
}

/// Span of one actor message: a root with a link to the sender. A child span would nest one level deeper with every message
/// an actor sends itself, without end.
pub fn message_span(actor: &'static str, message: &'static str, waited: Duration, origin: &Origin) -> Span {
    let call = origin.call.as_ref();
    let span = tracing::info_span!(
        parent: None,
        span::MESSAGE,
        otel.name = format!("{actor} {message}"),
        otel.kind = "consumer",
        { attribute::ACTOR } = actor,
        { attribute::MESSAGE } = message,
        { attribute::MAILBOX_WAIT } = waited.as_secs_f64(),
        request_id = call.map(|call| &*call.request_id),
        tool = call.map(|call| &*call.tool),
    );
    origin.link(&span);
    span
}

/// Server span of one MCP request; `target` is the tool, resource or prompt it is about.
pub fn server_span(method: &str, target: Option<&str>, jsonrpc_id: &str, call: &Call) -> Span {
    let name = target.map_or_else(|| method.to_owned(), |target| format!("{method} {target}"));
    tracing::info_span!(
        parent: None,
        span::SERVER,
        otel.name = name,
        otel.kind = "server",
        otel.status_code = Empty,
        { attribute::MCP_METHOD } = method,
        { attribute::TOOL } = target,
        { attribute::REQUEST_ID } = jsonrpc_id,
        { attribute::ERROR_TYPE } = Empty,
        request_id = &*call.request_id,
        tool = &*call.tool,
    )
}

/// Marks a server span as failed with an error code.
pub fn record_error(span: &Span, code: &str) {
    span.record(attribute::ERROR_TYPE, code);
    span.record("otel.status_code", "error");
}

/// Span of one stage of a write, below the span of the call it is done for; the hash is recorded once it is known.
pub fn stage_span(stage: Stage, parent: &Span) -> Span {
    macro_rules! stage {
        ($name:expr) => {
            tracing::info_span!(parent: parent, $name, { attribute::TX_HASH } = Empty, { attribute::HEIGHT } = Empty)
        };
    }
    match stage {
        Stage::Simulate => stage!(span::SIMULATE),
        Stage::Sign => stage!(span::SIGN),
        Stage::Broadcast => stage!(span::BROADCAST),
        Stage::AwaitInclusion => stage!(span::AWAIT_INCLUSION),
        Stage::AwaitIndex => stage!(span::AWAIT_INDEX),
    }
}

/// Stages of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Simulation.
    Simulate,
    /// Signature.
    Sign,
    /// Hand-over to the node.
    Broadcast,
    /// Wait for the block.
    AwaitInclusion,
    /// Wait for the indexer.
    AwaitIndex,
}

/// Notes the transaction a stage is about.
pub fn record_tx(span: &Span, hash: &str) {
    span.record(attribute::TX_HASH, hash);
}

/// Notes the height a stage is about.
pub fn record_height(span: &Span, height: u64) {
    span.record(attribute::HEIGHT, i64::try_from(height).unwrap_or(i64::MAX));
}

/// W3C `traceparent` of a span; `None` when tracing is off.
pub fn traceparent(span: &Span) -> Option<String> {
    let context = span_context(span);
    let flags = context.trace_flags().to_u8();
    context.is_valid().then(|| format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()))
}

/// Span of what follows on a call that has ended: a root, linked to the call.
pub fn reconcile_span(traceparent: Option<&str>) -> Span {
    let span = tracing::info_span!(parent: None, span::RECONCILE);
    let carrier =
        std::collections::HashMap::from([("traceparent".to_owned(), traceparent.unwrap_or_default().to_owned())]);
    let call = extract(&carrier).span().span_context().clone();
    if call.is_valid() {
        span.add_link(call);
    }
    span
}

/// Span of taking one block into the indexer, below the current span.
pub fn block_span(height: u64) -> Span {
    let span = tracing::info_span!(
        span::INDEX_BLOCK,
        { attribute::HEIGHT } = Empty,
        { attribute::EVENTS } = Empty,
        { attribute::CHANGES } = Empty
    );
    record_height(&span, height);
    span
}

/// Span of judging one DID as of a height.
pub fn judge_span(did: &str, height: u64, is_fresh: bool) -> Span {
    let span = tracing::info_span!(
        span::JUDGE_DID,
        { attribute::DID } = did,
        { attribute::HEIGHT } = Empty,
        { attribute::IS_FRESH } = is_fresh,
        { attribute::JUDGED } = Empty
    );
    record_height(&span, height);
    span
}

/// Notes what judging a DID came to.
pub fn record_judged(span: &Span, outcome: &'static str) {
    span.record(attribute::JUDGED, outcome);
}

/// Notes what a block held.
pub fn record_block(span: &Span, events: usize, changes: usize) {
    span.record(attribute::EVENTS, i64::try_from(events).unwrap_or(i64::MAX));
    span.record(attribute::CHANGES, i64::try_from(changes).unwrap_or(i64::MAX));
}

/// Client span of one upstream request.
pub fn upstream_span(kind: &'static str, method: &str, operation: &str) -> Span {
    tracing::info_span!(
        span::UPSTREAM,
        otel.name = format!("{method} {operation}"),
        otel.kind = "client",
        otel.status_code = Empty,
        { attribute::UPSTREAM_KIND } = kind,
        { attribute::HTTP_METHOD } = method,
        { attribute::HTTP_STATUS } = Empty,
        { attribute::ERROR_TYPE } = Empty,
    )
}

/// Notes the HTTP status of an upstream's answer.
pub fn record_status(span: &Span, status: u16) {
    span.record(attribute::HTTP_STATUS, i64::from(status));
}

/// Span of fetching and verifying one DID Document, below the span of whoever asked for it first.
pub fn resolution_span(method: &'static str) -> Span {
    tracing::info_span!(
        span::RESOLVE_DID,
        otel.status_code = Empty,
        { attribute::DID_METHOD } = method,
        { attribute::DID_OUTCOME } = Empty,
        { attribute::ERROR_TYPE } = Empty,
    )
}

/// Notes how a resolution ended: `ok`, or the code of the failure.
pub fn record_resolution(span: &Span, outcome: Result<(), &'static str>) {
    span.record(attribute::DID_OUTCOME, outcome.err().unwrap_or("ok"));
    if let Err(code) = outcome {
        record_error(span, code);
    }
}

/// Identity of a span; invalid when tracing is off.
pub fn span_context(span: &Span) -> SpanContext {
    span.context().span().span_context().clone()
}

/// Makes `span` a child of a remote caller: `traceparent` of the request's `_meta` first, the HTTP headers otherwise.
pub fn adopt_remote_parent(span: &Span, meta: &dyn Fn(&str) -> Option<String>, headers: Option<&http::HeaderMap>) {
    let from_meta =
        MetaExtractor { traceparent: meta("traceparent"), tracestate: meta("tracestate"), baggage: meta("baggage") };
    let mut parent = extract(&from_meta);
    if !parent.span().span_context().is_valid()
        && let Some(headers) = headers
    {
        parent = extract(&HeaderExtractor(headers));
    }
    if parent.span().span_context().is_valid() {
        // Fails only when the span is disabled or has started, and then it has no remote parent to lose.
        let _ = span.set_parent(parent);
    }
}

fn extract(extractor: &dyn Extractor) -> Context {
    global::get_text_map_propagator(|propagator| propagator.extract_with_context(&Context::new(), extractor))
}

/// Writes the current span's context into the headers of an outgoing request.
pub fn inject(span: &Span, headers: &mut http::HeaderMap) {
    let context = span.context();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut HeaderInjector(headers)));
}

struct MetaExtractor {
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
}

impl Extractor for MetaExtractor {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            "baggage" => self.baggage.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate", "baggage"]
    }
}
