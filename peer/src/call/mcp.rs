//! A call of an MCP server. The library speaks both generations of the protocol, and bounds each answer and each event of a stream.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientJsonRpcMessage, ContentBlock,
        Implementation, ProtocolVersion, Tool,
    },
    service::{RunningService, ServiceError},
    transport::{
        StreamableHttpClientTransport,
        common::client_side_sse::ExponentialBackoff,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
            StreamableHttpPostResponse,
        },
    },
};
use serde_json::{Map, Value, json};
use sse_stream::Sse;
use svc_otel::trace;
use tokio::time::timeout;
use tracing::Span;
use url::Url;

use super::{
    http_call::{HttpCaller, fault_of_status, unreachable},
    outcome::{CallAnswer, CallFault, answer_of, failed, not_of_protocol},
    proof::CallProof,
};
use crate::error::PeerFailure;

const PROTOCOL: &str = "MCP";
/// Resumptions of a stream that has broken off.
const MAX_STREAM_RESUMPTIONS: usize = 2;
/// Tools of a server that are listed, their bytes and their pages.
const MAX_TOOLS: usize = 2_000;
const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;
const MAX_PAGES: usize = 100;
/// Streams of one call: a server that ends each at once would have it ask again and again.
const MAX_STREAMS: usize = 16;
/// Longest wait for the end of a session, which changes nothing about the answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Lists the tools.
pub(super) async fn list_tools(http: &HttpCaller, url: &Url, proof: &CallProof) -> Result<CallAnswer, CallFault> {
    let session = McpSession::connect(http, url, proof).await?;
    let tools = session.tools().await;
    session.close().await;
    let tools = tools?;
    let line = |tool: &Tool| match &tool.description {
        Some(description) => format!("{}  {}", tool.name, description.lines().next().unwrap_or_default()),
        None => tool.name.to_string(),
    };
    let text = tools.iter().map(line).collect::<Vec<_>>().join("\n");
    let content = serde_json::to_value(&tools).map_err(|error| not_of_protocol(PROTOCOL, error))?;
    Ok(answer_of(json!({"tools": content}), text))
}

/// Calls a tool. A result that is an error is a refusal of the endpoint.
pub(super) async fn call_tool(
    http: &HttpCaller,
    url: &Url,
    proof: &CallProof,
    (name, arguments): (&str, &Map<String, Value>),
) -> Result<CallAnswer, CallFault> {
    let session = McpSession::connect(http, url, proof).await?;
    let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.clone());
    let result = session.client.call_tool(request).await.map_err(|error| session.fault(error));
    session.close().await;
    let result = result?;
    let text = text_of(&result);
    let content = serde_json::to_value(&result).map_err(|error| not_of_protocol(PROTOCOL, error))?;
    if result.is_error == Some(true) {
        let message = format!("the tool {name} has failed: {text}");
        let hint = "the text is that of the endpoint; `--list` shows its tools and their arguments";
        let mut error = failed(PeerFailure::Refused, "TOOL_FAILED", message, hint);
        error.details = Box::new(content);
        return Err(error.into());
    }
    Ok(answer_of(content, text))
}

/// The text of a result: its texts, or its structured content.
fn text_of(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(ContentBlock::as_text).map(|one| one.text.as_str()).collect();
    match (&result.structured_content, texts.is_empty()) {
        (Some(content), true) => content.to_string(),
        _ => texts.join("\n"),
    }
}

/// A connection to an MCP server for one call.
struct McpSession {
    client: RunningService<RoleClient, ClientConfig>,
    url: Url,
    faults: FaultNote,
}

impl McpSession {
    async fn connect(http: &HttpCaller, url: &Url, proof: &CallProof) -> Result<Self, CallFault> {
        let faults = FaultNote::default();
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = proof.header()? {
            headers.insert(name, value);
        }
        trace::inject_context(&Span::current(), &mut headers);
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).custom_headers(headers);
        let mut resumption = ExponentialBackoff::default();
        resumption.max_times = Some(MAX_STREAM_RESUMPTIONS);
        config.retry_config = Arc::new(resumption);
        let client = NotingClient { client: http.client.clone(), faults: faults.clone(), streams: Arc::default() };
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let info = Implementation::new("svc-peer", env!("CARGO_PKG_VERSION"));
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let config = ClientConfig::new(ClientCapabilities::default(), info);
        match config.serve_with_lifecycle(transport, mode).await {
            Ok(client) => Ok(Self { client, url: url.clone(), faults }),
            Err(_) => Err(faults.take(url).unwrap_or_else(|| not_of_protocol(PROTOCOL, "it ends the handshake"))),
        }
    }

    async fn tools(&self) -> Result<Vec<Tool>, CallFault> {
        let (mut tools, mut bytes, mut pages) = (Vec::new(), 0, 0);
        let mut cursor = None;
        loop {
            let params = cursor.map(|cursor| rmcp::model::PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let page = self.client.list_tools(params).await.map_err(|error| self.fault(error))?;
            for tool in page.tools {
                bytes += serde_json::to_vec(&tool).map_or(0, |text| text.len());
                tools.push(tool);
            }
            if bytes > MAX_LIST_BYTES || tools.len() > MAX_TOOLS {
                let message = format!("the list has more than {MAX_TOOLS} tools or {MAX_LIST_BYTES} bytes");
                let hint = "it was not read to its end; a tool can be called by its name";
                return Err(failed(PeerFailure::Refused, "ANSWER_TOO_LONG", message, hint).into());
            }
            pages += 1;
            cursor = page.next_cursor;
            if cursor.is_none() || pages >= MAX_PAGES {
                return Ok(tools);
            }
        }
    }

    fn fault(&self, error: ServiceError) -> CallFault {
        match error {
            ServiceError::McpError(refused) => {
                let message = format!("the server refuses the call: {}", refused.message);
                let hint = "`--list` shows its tools and their arguments";
                failed(PeerFailure::Refused, "CALL_REFUSED", message, hint).into()
            }
            _ => self.faults.take(&self.url).unwrap_or_else(|| {
                not_of_protocol(PROTOCOL, "the connection has ended before the answer; whether it has acted is unknown")
            }),
        }
    }

    async fn close(self) {
        let _ = timeout(CLOSE_TIMEOUT, self.client.cancel()).await;
    }
}

/// The newest fault of the transport, which the library's own errors bury.
#[derive(Clone, Default)]
struct FaultNote(Arc<Mutex<Option<TransportFault>>>);

enum TransportFault {
    Status(StatusCode),
    Unreachable(reqwest::Error),
    Other(String),
}

impl FaultNote {
    fn note<T>(
        &self,
        outcome: Result<T, StreamableHttpError<reqwest::Error>>,
    ) -> Result<T, StreamableHttpError<reqwest::Error>> {
        outcome.map_err(|error| {
            let (fault, error) = classify(error);
            if let Some(fault) = fault {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
            }
            error
        })
    }

    fn take(&self, url: &Url) -> Option<CallFault> {
        let fault = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(match fault {
            TransportFault::Status(status) => {
                fault_of_status(status).unwrap_or_else(|| not_of_protocol(PROTOCOL, format!("HTTP status {status}")))
            }
            TransportFault::Unreachable(error) => unreachable(url, &error),
            TransportFault::Other(problem) => not_of_protocol(PROTOCOL, problem),
        })
    }
}

/// The fault behind an error of the transport, and an error for the library to go on with.
fn classify(
    error: StreamableHttpError<reqwest::Error>,
) -> (Option<TransportFault>, StreamableHttpError<reqwest::Error>) {
    let status = |code: u16| StatusCode::from_u16(code).ok().map(TransportFault::Status);
    let fault = match &error {
        StreamableHttpError::AuthRequired(_) => status(401),
        StreamableHttpError::InsufficientScope(_) => status(403),
        StreamableHttpError::HttpStatus(failed) => status(failed.status),
        StreamableHttpError::UnexpectedServerResponse(text) => {
            // A challenge that cannot be read is one all the same.
            let code = if text.contains("www-authenticate") { Some(401) } else { None };
            let code = code.or_else(|| text.strip_prefix("HTTP ").and_then(|rest| rest.get(..3)?.parse().ok()));
            Some(code.and_then(status).unwrap_or_else(|| TransportFault::Other("its answer is no JSON-RPC".to_owned())))
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            Some(TransportFault::Other(format!("its answer is longer than {max_size} bytes")))
        }
        StreamableHttpError::UnexpectedContentType(_) => {
            Some(TransportFault::Other("its answer is neither JSON nor a stream of events".to_owned()))
        }
        StreamableHttpError::Client(failed) if failed.status().is_some() => failed.status().map(TransportFault::Status),
        // The transport goes on without a stream of its own, or begins again.
        StreamableHttpError::ServerDoesNotSupportSse | StreamableHttpError::SessionExpired => None,
        _ => Some(TransportFault::Other("the connection breaks off".to_owned())),
    };
    match error {
        StreamableHttpError::Client(failed) if failed.status().is_none() => {
            let text = failed.to_string();
            (Some(TransportFault::Unreachable(failed)), StreamableHttpError::UnexpectedServerResponse(text.into()))
        }
        error => (fault, error),
    }
}

/// The HTTP client of the transport, which notes the newest fault.
#[derive(Clone)]
struct NotingClient {
    client: reqwest::Client,
    faults: FaultNote,
    streams: Arc<AtomicUsize>,
}

type Headers = HashMap<HeaderName, HeaderValue>;

impl StreamableHttpClient for NotingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>> {
        let posted = self.client.post_message(uri, message, session_id, auth_header, custom_headers).await;
        self.faults.note(posted)
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), StreamableHttpError<reqwest::Error>> {
        // Its failure changes nothing about the call.
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<reqwest::Error>> {
        if self.streams.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let opened = self.client.get_stream(uri, session_id, last_event_id, auth_header, custom_headers).await;
        self.faults.note(opened)
    }
}
