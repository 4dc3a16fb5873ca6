//! A receiver of spans over OTLP/gRPC, with the service of the OpenTelemetry project.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::KeyValue,
    trace::v1::Span,
};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

/// A span as it was exported, with its identifiers in hexadecimal.
#[derive(Debug, Clone)]
pub struct ExportedSpan {
    /// Trace of the span.
    pub trace_id: String,
    /// Identifier of the span.
    pub span_id: String,
    /// Identifier of its parent; empty for a root.
    pub parent_span_id: String,
    /// Name of the span.
    pub name: String,
    /// Kind of the span: `SPAN_KIND_SERVER`, ….
    pub kind: String,
    /// The attributes; each value in the notation of `Debug`.
    pub attributes: BTreeMap<String, String>,
    /// Spans that it is linked to.
    pub links: Vec<SpanLink>,
    /// Names of its events, with their attributes.
    pub events: Vec<(String, BTreeMap<String, String>)>,
    /// Code and text of its status.
    pub status: Option<(String, String)>,
}

/// A link to another span.
#[derive(Debug, Clone)]
pub struct SpanLink {
    /// Trace of the other span.
    pub trace_id: String,
    /// Identifier of the other span.
    pub span_id: String,
    /// The attributes of the link.
    pub attributes: BTreeMap<String, String>,
}

impl From<Span> for ExportedSpan {
    fn from(span: Span) -> Self {
        Self {
            trace_id: hex::encode(&span.trace_id),
            span_id: hex::encode(&span.span_id),
            parent_span_id: hex::encode(&span.parent_span_id),
            kind: span.kind().as_str_name().to_owned(),
            attributes: attributes(&span.attributes),
            links: span
                .links
                .iter()
                .map(|link| SpanLink {
                    trace_id: hex::encode(&link.trace_id),
                    span_id: hex::encode(&link.span_id),
                    attributes: attributes(&link.attributes),
                })
                .collect(),
            events: span.events.iter().map(|event| (event.name.clone(), attributes(&event.attributes))).collect(),
            status: span.status.map(|status| (status.code().as_str_name().to_owned(), status.message)),
            name: span.name,
        }
    }
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.key.clone(), format!("{:?}", pair.value))).collect()
}

/// A running receiver. It ends with this value.
pub struct OtlpReceiver {
    address: SocketAddr,
    received: Arc<Received>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Received {
    spans: Mutex<Vec<ExportedSpan>>,
    has_new: Notify,
}

impl Received {
    fn spans(&self) -> Vec<ExportedSpan> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The service of a receiver.
struct SpanService(Arc<Received>);

#[tonic::async_trait]
impl TraceService for SpanService {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        let spans = scopes.flat_map(|scope| scope.spans).map(ExportedSpan::from);
        self.0.spans.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
        self.0.has_new.notify_waiters();
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl OtlpReceiver {
    /// Starts a receiver on a free port of loopback.
    ///
    /// # Panics
    /// When there is no port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::<Received>::default();
        let service = TraceServiceServer::new(SpanService(Arc::clone(&received)));
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { serving.await.expect("serves") });
        Self { address, received, server }
    }

    /// The value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans that were received.
    pub fn spans(&self) -> Vec<ExportedSpan> {
        self.received.spans()
    }

    /// Waits until the received spans satisfy a condition, at most for `timeout`, and returns all of them.
    pub async fn spans_when(
        &self,
        timeout: Duration,
        is_complete: impl Fn(&[ExportedSpan]) -> bool,
    ) -> Vec<ExportedSpan> {
        let complete = async {
            loop {
                let mut new = std::pin::pin!(self.received.has_new.notified());
                new.as_mut().enable();
                if is_complete(&self.spans()) {
                    return;
                }
                new.await;
            }
        };
        let _ = tokio::time::timeout(timeout, complete).await;
        self.spans()
    }
}

impl Drop for OtlpReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}
