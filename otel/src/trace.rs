//! Trace context: read from callers, carried between actors, given to upstreams.

mod request_meta;

use std::{future::Future, sync::Arc, time::Duration};

use opentelemetry::{
    Context, global,
    propagation::Extractor,
    trace::{SpanContext, TraceContextExt},
};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use self::request_meta::RequestMetaExtractor;
use crate::names::{attribute, span};

/// The tool call that code runs for; every log line of that code carries these two fields.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Identifier of the request, unique in the process.
    pub request_id: Arc<str>,
    /// Tool name.
    pub tool: Arc<str>,
}

tokio::task_local! {
    static CURRENT: CallContext;
}

/// Runs `future` as a part of `call`.
pub async fn run_in_call<F: Future>(call: Option<CallContext>, future: F) -> F::Output {
    match call {
        Some(call) => CURRENT.scope(call, future).await,
        None => future.await,
    }
}

/// Origin of a message: the span and the call of its sender.
#[derive(Debug, Clone)]
pub struct MessageOrigin {
    span: SpanContext,
    /// The call that the message belongs to.
    pub call: Option<CallContext>,
}

impl MessageOrigin {
    /// Returns the current span and call.
    pub fn current() -> Self {
        Self { span: span_context(&Span::current()), call: CURRENT.try_with(Clone::clone).ok() }
    }

    /// Links `span` to the sender. The sender is no parent: a chain of messages must not become a chain of nested spans.
    fn link_span(&self, span: &Span) {
        if self.span.is_valid() {
            span.add_link(self.span.clone());
        }
    }
}

/// Opens the span of one actor message: a root with a link to the sender. Child spans would nest one level deeper with every
/// message that an actor sends to itself.
pub fn message_span(actor: &'static str, message: &'static str, waited: Duration, origin: &MessageOrigin) -> Span {
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
    origin.link_span(&span);
    span
}

/// Opens the server span of one MCP request; `target` is the requested tool, resource or prompt.
pub fn server_span(method: &str, target: Option<&str>, jsonrpc_id: &str, call: &CallContext) -> Span {
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

/// Opens the span of one stage of a write below `parent`, the span of its call. [`record_tx`] adds the hash later.
pub fn stage_span(stage: WriteStage, parent: &Span) -> Span {
    macro_rules! stage {
        ($name:expr) => {
            tracing::info_span!(parent: parent, $name, { attribute::TX_HASH } = Empty, { attribute::HEIGHT } = Empty)
        };
    }
    match stage {
        WriteStage::Simulate => stage!(span::SIMULATE),
        WriteStage::Sign => stage!(span::SIGN),
        WriteStage::Broadcast => stage!(span::BROADCAST),
        WriteStage::AwaitInclusion => stage!(span::AWAIT_INCLUSION),
        WriteStage::AwaitIndex => stage!(span::AWAIT_INDEX),
    }
}

/// A stage of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStage {
    /// Simulation.
    Simulate,
    /// Signature.
    Sign,
    /// Broadcast to the node.
    Broadcast,
    /// Wait for the block.
    AwaitInclusion,
    /// Wait for the indexer.
    AwaitIndex,
}

/// Records the hash of a stage's transaction.
pub fn record_tx(span: &Span, hash: &str) {
    span.record(attribute::TX_HASH, hash);
}

/// Records the height of a stage's block.
pub fn record_height(span: &Span, height: u64) {
    span.record(attribute::HEIGHT, i64::try_from(height).unwrap_or(i64::MAX));
}

/// Returns the W3C `traceparent` of a span; `None` when tracing is off.
pub fn traceparent(span: &Span) -> Option<String> {
    let context = span_context(span);
    let flags = context.trace_flags().to_u8();
    context.is_valid().then(|| format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id()))
}

/// Opens the span of the work after the end of a call: a root with a link to the call.
pub fn reconcile_span(traceparent: Option<&str>) -> Span {
    let span = tracing::info_span!(parent: None, span::RECONCILE);
    let carrier =
        std::collections::HashMap::from([("traceparent".to_owned(), traceparent.unwrap_or_default().to_owned())]);
    let call = extract_context(&carrier).span().span_context().clone();
    if call.is_valid() {
        span.add_link(call);
    }
    span
}

/// Opens the span of the indexing of one block, below the current span.
pub fn index_block_span(height: u64) -> Span {
    let span = tracing::info_span!(
        span::INDEX_BLOCK,
        { attribute::HEIGHT } = Empty,
        { attribute::EVENTS } = Empty,
        { attribute::CHANGES } = Empty
    );
    record_height(&span, height);
    span
}

/// Opens the span of the evaluation of one DID at a height.
pub fn evaluation_span(did: &str, height: u64, is_fresh: bool) -> Span {
    let span = tracing::info_span!(
        span::EVALUATE_DID,
        { attribute::DID } = did,
        { attribute::HEIGHT } = Empty,
        { attribute::IS_FRESH } = is_fresh,
        { attribute::TRUST_OUTCOME } = Empty
    );
    record_height(&span, height);
    span
}

/// Records the outcome of the evaluation of a DID.
pub fn record_trust_outcome(span: &Span, outcome: &'static str) {
    span.record(attribute::TRUST_OUTCOME, outcome);
}

/// Records the numbers of events and changed entities of a block.
pub fn record_block(span: &Span, events: usize, changes: usize) {
    span.record(attribute::EVENTS, i64::try_from(events).unwrap_or(i64::MAX));
    span.record(attribute::CHANGES, i64::try_from(changes).unwrap_or(i64::MAX));
}

/// Opens the client span of one upstream request.
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

/// Records the HTTP status of an upstream's answer.
pub fn record_http_status(span: &Span, status: u16) {
    span.record(attribute::HTTP_STATUS, i64::from(status));
}

/// Opens the span of the fetch and verification of one DID Document, below the span of the first request for it.
pub fn resolution_span(method: &'static str) -> Span {
    tracing::info_span!(
        span::RESOLVE_DID,
        otel.status_code = Empty,
        { attribute::DID_METHOD } = method,
        { attribute::DID_OUTCOME } = Empty,
        { attribute::ERROR_TYPE } = Empty,
    )
}

/// Opens the span of the transaction that has a version of the agent's document resolved again. It begins a trace.
pub fn trigger_span(did: &str, version: u64) -> Span {
    tracing::info_span!(
        parent: None,
        span::TRIGGER_RESOLUTION,
        { attribute::DID } = did,
        { attribute::DOCUMENT_VERSION } = i64::try_from(version).unwrap_or(i64::MAX),
    )
}

/// Opens the span of the transaction that anchors the digest of a credential. Without a parent it begins a trace.
pub fn anchor_span(parent: &Span, did: &str, credential: &str, schema_id: u64) -> Span {
    tracing::info_span!(
        parent: parent.id(),
        span::ANCHOR_CREDENTIAL,
        { attribute::DID } = did,
        { attribute::CREDENTIAL } = credential,
        { attribute::SCHEMA_ID } = i64::try_from(schema_id).unwrap_or(i64::MAX),
    )
}

/// Opens the server span of one request to the agent's admin API, below the span of its caller.
pub fn admin_span(method: &str, route: &str, headers: &http::HeaderMap) -> Span {
    let span = tracing::info_span!(
        parent: None,
        span::ADMIN,
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        { attribute::HTTP_METHOD } = method,
        { attribute::HTTP_ROUTE } = route,
        { attribute::HTTP_STATUS } = Empty,
    );
    adopt_remote_parent(&span, &|_| None, Some(headers));
    span
}

/// Opens the span of the read of a participant for its flows. It begins a trace.
pub fn participant_read_span(participant: u64) -> Span {
    let id = i64::try_from(participant).unwrap_or(i64::MAX);
    tracing::info_span!(parent: None, span::READ_PARTICIPANT, { attribute::PARTICIPANT } = id)
}

/// Opens the span of a step of a flow, below the one that the work goes back to.
pub fn flow_step_span(flow: &str, step: &'static str, traceparent: Option<&str>) -> Span {
    let span =
        tracing::info_span!(parent: None, span::FLOW_STEP, { attribute::FLOW } = flow, { attribute::FLOW_STEP } = step);
    let of_record = |key: &str| traceparent.filter(|_| key == "traceparent").map(str::to_owned);
    adopt_remote_parent(&span, &of_record, None);
    span
}

/// Opens the span of the transaction that validates the applicant of a flow.
pub fn flow_validation_span(did: &str, flow: &str) -> Span {
    tracing::info_span!(span::VALIDATE_PARTICIPANT, { attribute::DID } = did, { attribute::FLOW } = flow)
}

/// Opens the span of a message of a peer. It begins a trace.
pub fn peer_receive_span() -> Span {
    tracing::info_span!(
        parent: None,
        span::PEER_RECEIVE,
        { attribute::PEER } = Empty,
        { attribute::PEER_PROTOCOL } = Empty,
        { attribute::PEER_OUTCOME } = Empty,
    )
}

/// Opens the span of a message to a peer.
pub fn peer_send_span(protocol: &'static str) -> Span {
    tracing::info_span!(
        span::PEER_SEND,
        { attribute::PEER } = Empty,
        { attribute::PEER_PROTOCOL } = protocol,
        { attribute::PEER_OUTCOME } = Empty,
    )
}

/// Opens the span of a request for access to an endpoint of a peer, by the beginning of a hash of its DID.
pub fn access_request_span(peer: &str) -> Span {
    tracing::info_span!(span::REQUEST_ACCESS, { attribute::PEER } = peer, { attribute::PEER_OUTCOME } = Empty)
}

/// Opens the span of a run of `svc peer`. It begins a trace.
pub fn peer_command_span(command: &'static str) -> Span {
    tracing::info_span!(parent: None, span::PEER_COMMAND, otel.name = format!("peer {command}"))
}

/// Opens the span of a call of an endpoint of a peer, by the type of the endpoint.
pub fn call_peer_span(protocol: &'static str) -> Span {
    tracing::info_span!(
        span::CALL_PEER,
        otel.kind = "client",
        { attribute::PEER_PROTOCOL } = protocol,
        { attribute::PEER_OUTCOME } = Empty,
    )
}

/// Records the peer of the current message, by the beginning of a hash of its DID, and the protocol of a received one.
pub fn record_peer(hash: &str, protocol: Option<&'static str>) {
    let span = Span::current();
    span.record(attribute::PEER, hash);
    if let Some(protocol) = protocol {
        span.record(attribute::PEER_PROTOCOL, protocol);
    }
}

/// Records the outcome of a message of a peer, or to one.
pub fn record_peer_outcome(span: &Span, outcome: &'static str) {
    span.record(attribute::PEER_OUTCOME, outcome);
}

/// Records the outcome of a resolution: `ok`, or the code of the failure.
pub fn record_resolution(span: &Span, outcome: Result<(), &'static str>) {
    span.record(attribute::DID_OUTCOME, outcome.err().unwrap_or("ok"));
    if let Err(code) = outcome {
        record_error(span, code);
    }
}

/// Returns the identity of a span; it is invalid when tracing is off.
pub fn span_context(span: &Span) -> SpanContext {
    span.context().span().span_context().clone()
}

/// Makes `span` a child of the remote caller's span. The `traceparent` of the request's `_meta` goes before that of the HTTP
/// headers.
pub fn adopt_remote_parent(span: &Span, meta: &dyn Fn(&str) -> Option<String>, headers: Option<&http::HeaderMap>) {
    let from_meta = RequestMetaExtractor {
        traceparent: meta("traceparent"),
        tracestate: meta("tracestate"),
        baggage: meta("baggage"),
    };
    let mut parent = extract_context(&from_meta);
    if !parent.span().span_context().is_valid()
        && let Some(headers) = headers
    {
        parent = extract_context(&HeaderExtractor(headers));
    }
    if parent.span().span_context().is_valid() {
        // This fails only for a span that is disabled or has started; such a span keeps its local parent.
        let _ = span.set_parent(parent);
    }
}

fn extract_context(extractor: &dyn Extractor) -> Context {
    global::get_text_map_propagator(|propagator| propagator.extract_with_context(&Context::new(), extractor))
}

/// Writes the current span's context into the headers of an outgoing request.
pub fn inject_context(span: &Span, headers: &mut http::HeaderMap) {
    let context = span.context();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut HeaderInjector(headers)));
}
