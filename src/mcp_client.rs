//! A small MCP client over HTTP: the client commands, the tests and the benchmarks use it.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CompleteRequestParams,
        ContentBlock, Implementation, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, Reference,
        Resource, ResourceContents, ResourceUpdatedNotificationParam, SubscribeRequestParams, Tool,
    },
    service::{NotificationContext, RunningService, ServiceError},
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value, json};
use svc_net::client_tls::http_client_builder;
use tokio::sync::mpsc;

/// Resumptions of a lost stream, after a backoff of one second, two, four and so on.
const MAX_STREAM_RESUMPTIONS: usize = 4;
/// Concurrent requests. The library's default of 16 would spread many writes over as many blocks.
const MAX_CONCURRENT_REQUESTS: usize = 256;
/// Notifications that wait for the caller.
const NOTIFICATION_CAPACITY: usize = 256;

/// A notification of the server.
#[derive(Debug, Clone)]
pub enum ServerNotification {
    /// A call has made progress; the text describes its step.
    CallProgressed(String),
    /// The resource with this URI has changed.
    ResourceUpdated(String),
}

/// Forwards the notifications of the server to a channel.
#[derive(Clone)]
pub struct NotificationHandler {
    config: ClientConfig,
    notifications: Option<mpsc::Sender<ServerNotification>>,
}

impl NotificationHandler {
    fn forward_notification(&self, notification: ServerNotification) {
        if let Some(sender) = &self.notifications {
            // The channel is full when the caller does not read it; the notification is then of no use.
            let _ = sender.try_send(notification);
        }
    }
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.forward_notification(ServerNotification::CallProgressed(params.message.unwrap_or_default()));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.forward_notification(ServerNotification::ResourceUpdated(params.uri));
    }
}

/// A connection to a tool server.
pub struct McpClient(RunningService<RoleClient, NotificationHandler>);

impl McpClient {
    /// Connects with the newest protocol version that both sides speak. Fails when no MCP server answers or the server refuses the
    /// token.
    pub async fn connect(url: &str, bearer: &str) -> anyhow::Result<Self> {
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        Self::connect_with(url, bearer, mode, None).await
    }

    /// Connects with a session, and returns its notifications too. Fails like [`McpClient::connect`].
    pub async fn connect_with_notifications(
        url: &str,
        bearer: &str,
    ) -> anyhow::Result<(Self, mpsc::Receiver<ServerNotification>)> {
        let (sender, receiver) = mpsc::channel(NOTIFICATION_CAPACITY);
        let client = Self::connect_with(url, bearer, ClientLifecycleMode::Initialize, Some(sender)).await?;
        Ok((client, receiver))
    }

    async fn connect_with(
        url: &str,
        bearer: &str,
        mode: ClientLifecycleMode,
        notifications: Option<mpsc::Sender<ServerNotification>>,
    ) -> anyhow::Result<Self> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_owned())
            .auth_header(bearer)
            .max_concurrent_requests(MAX_CONCURRENT_REQUESTS);
        // Without a limit, a call whose stream cannot be resumed would never fail.
        let mut resumption = ExponentialBackoff::default();
        resumption.max_times = Some(MAX_STREAM_RESUMPTIONS);
        config.retry_config = Arc::new(resumption);
        let transport = StreamableHttpClientTransport::with_client(http_client(url)?, config);
        let config =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("svc-cli", env!("CARGO_PKG_VERSION")));
        let served = NotificationHandler { config, notifications }.serve_with_lifecycle(transport, mode).await;
        match served {
            Ok(service) => Ok(Self(service)),
            Err(error) if error.is_authorization_required() => {
                Err(anyhow!("the server at {url} refused the bearer token"))
            }
            Err(error) => Err(explain_no_answer(url, bearer, &root_cause(&error)).await),
        }
    }

    /// All tools of the server.
    pub async fn list_tools(&self) -> anyhow::Result<Vec<Tool>> {
        self.0.list_all_tools().await.map_err(plain_error)
    }

    /// Calls a tool and waits for its result.
    pub async fn call_tool(&self, name: &str, arguments: Map<String, Value>) -> anyhow::Result<CallToolResult> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        self.0.call_tool(request).await.map_err(plain_error)
    }

    /// All resources of the server.
    pub async fn list_resources(&self) -> anyhow::Result<Vec<Resource>> {
        self.0.list_all_resources().await.map_err(plain_error)
    }

    /// Reads a resource and parses its text as JSON. Fails for a resource without text.
    pub async fn read_resource(&self, uri: &str) -> anyhow::Result<Value> {
        let result = self.0.read_resource(ReadResourceRequestParams::new(uri)).await.map_err(plain_error)?;
        let text = result.contents.iter().find_map(|contents| match contents {
            ResourceContents::TextResourceContents { text, .. } => Some(text.as_str()),
            _ => None,
        });
        Ok(serde_json::from_str(text.ok_or_else(|| anyhow!("{uri} has no text"))?)?)
    }

    /// Subscribes to the changes of a resource.
    #[allow(deprecated, reason = "the generations with sessions have no other way")]
    pub async fn subscribe_resource(&self, uri: &str) -> anyhow::Result<()> {
        self.0.subscribe(SubscribeRequestParams::new(uri)).await.map_err(plain_error)
    }

    /// Values that continue the typed text of a tool's argument.
    pub async fn complete_argument(&self, tool: &str, argument: &str, typed: &str) -> anyhow::Result<Vec<String>> {
        let request = CompleteRequestParams::new(Reference::for_prompt(tool), ArgumentInfo::new(argument, typed));
        Ok(self.0.complete(request).await.map_err(plain_error)?.completion.values)
    }

    /// The connection itself, for requests without a method here.
    pub fn service(&self) -> &RunningService<RoleClient, NotificationHandler> {
        &self.0
    }

    /// Closes the connection.
    pub async fn close(self) {
        let _ = self.0.cancel().await;
    }
}

/// Content of a result: the structured content of an answer, or the envelope of an error, which is the last text.
pub fn result_content(result: &CallToolResult) -> Value {
    let envelope = || serde_json::from_str(&result.content.iter().rev().find_map(ContentBlock::as_text)?.text).ok();
    result.structured_content.clone().or_else(envelope).unwrap_or_default()
}

/// The HTTP client for a server. A server on this machine is not behind the proxy of the environment.
fn http_client(url: &str) -> anyhow::Result<reqwest::Client> {
    let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let parsed = parsed.ok_or_else(|| anyhow!("{url:?} is no http or https URL, such as http://127.0.0.1:3000/mcp"))?;
    let is_own_machine = match parsed.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    // A reused connection whose last answer was not read to its end costs a delayed acknowledgement.
    let builder = http_client_builder().pool_max_idle_per_host(0).redirect(reqwest::redirect::Policy::none());
    let builder = if is_own_machine { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| anyhow!("no HTTP client: {}", root_cause(&error)))
}

/// Longest wait for the answer that explains a failed connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The reason for which no MCP server answers at a URL, in words: the library's own names its types. The first request is sent once
/// more, and its answer read. `cause` is the library's reason, which counts where that request succeeds.
async fn explain_no_answer(url: &str, bearer: &str, cause: &str) -> anyhow::Error {
    let client = match http_client(url) {
        Ok(client) => client,
        Err(error) => return error,
    };
    let info = json!({"name": "svc-cli", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let request = client
        .post(url)
        .bearer_auth(bearer)
        .header("accept", "application/json, text/event-stream")
        .json(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
        .timeout(PROBE_TIMEOUT);
    match request.send().await {
        Ok(answer) => {
            let status = answer.status();
            let text = answer.text().await.unwrap_or_default();
            // JSON, or the line of an event that has it.
            let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let body: Option<Value> =
                std::iter::once(text.as_str()).chain(events).find_map(|part| serde_json::from_str(part).ok());
            let body = body.unwrap_or_default();
            if body["result"].is_object() {
                return anyhow!(
                    "the connection to {url} failed while it began: {cause}; the server has answered since"
                );
            }
            match body["error"]["message"].as_str() {
                Some(message) => {
                    anyhow!("the server at {url} refuses the connection: {message} (HTTP status {status})")
                }
                None => anyhow!(
                    "{url} answers with HTTP status {status}, and not as an MCP server (the path is usually /mcp)"
                ),
            }
        }
        Err(error) => anyhow!("cannot reach {url}: {}; is the server running?", root_cause(&error)),
    }
}

/// An error of the connection or of the server, in words.
fn plain_error(error: ServiceError) -> anyhow::Error {
    match error {
        ServiceError::McpError(refused) => anyhow!("{}", refused.message),
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
            anyhow!("the connection to the server was lost; whether the request was executed is not known")
        }
        ServiceError::Timeout { timeout } => anyhow!("the server did not answer within {timeout:?}"),
        _ => anyhow!("the server answered something that is not of the protocol"),
    }
}

/// The innermost cause: the outer ones only name the transport's types.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    // The number of the operating system's error tells a person nothing.
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_connection_is_explained_without_the_names_of_types() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", closed.local_addr().expect("an address"));
        drop(closed);
        let error = explain_no_answer(&url, "t", "closed").await.to_string();
        assert_eq!(error, format!("cannot reach {url}: connection refused; is the server running?"));
        let answer = || async { axum::Json(json!({"jsonrpc": "2.0", "id": 0, "result": {}})) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let router = axum::Router::new().route("/mcp", axum::routing::post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let error = explain_no_answer(&url, "t", "closed").await.to_string();
        assert!(error.contains("failed while it began: closed; the server has answered since"), "{error}");
        let error = McpClient::connect("nonsense", "t").await.err().expect("no URL").to_string();
        assert!(error.contains("no http or https URL"), "{error}");
        let lost = plain_error(ServiceError::TransportClosed).to_string();
        assert!(!lost.contains("::") && lost.contains("not known"), "{lost}");
    }
}
