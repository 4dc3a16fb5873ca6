//! A small MCP client over HTTP: the client commands, the tests and the benchmarks use it.

use std::sync::Arc;

use anyhow::anyhow;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CompleteRequestParams,
        ContentBlock, Implementation, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, Reference,
        Resource, ResourceContents, ResourceUpdatedNotificationParam, SubscribeRequestParams, Tool,
    },
    service::{NotificationContext, RunningService},
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
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
        let transport = StreamableHttpClientTransport::from_config(config);
        let config =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("svc-cli", env!("CARGO_PKG_VERSION")));
        let service = NotificationHandler { config, notifications }
            .serve_with_lifecycle(transport, mode)
            .await
            .map_err(|error| {
                if error.is_authorization_required() {
                    return anyhow!("the server at {url} refused the bearer token");
                }
                anyhow!("no MCP server answers at {url} (the path is usually /mcp): {}", root_cause(&error))
            })?;
        Ok(Self(service))
    }

    /// All tools of the server.
    pub async fn list_tools(&self) -> anyhow::Result<Vec<Tool>> {
        Ok(self.0.list_all_tools().await?)
    }

    /// Calls a tool and waits for its result.
    pub async fn call_tool(&self, name: &str, arguments: Map<String, Value>) -> anyhow::Result<CallToolResult> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        Ok(self.0.call_tool(request).await?)
    }

    /// All resources of the server.
    pub async fn list_resources(&self) -> anyhow::Result<Vec<Resource>> {
        Ok(self.0.list_all_resources().await?)
    }

    /// Reads a resource and parses its text as JSON. Fails for a resource without text.
    pub async fn read_resource(&self, uri: &str) -> anyhow::Result<Value> {
        let result = self.0.read_resource(ReadResourceRequestParams::new(uri)).await?;
        let text = result.contents.iter().find_map(|contents| match contents {
            ResourceContents::TextResourceContents { text, .. } => Some(text.as_str()),
            _ => None,
        });
        Ok(serde_json::from_str(text.ok_or_else(|| anyhow!("{uri} has no text"))?)?)
    }

    /// Subscribes to the changes of a resource.
    #[allow(deprecated, reason = "the generations with sessions have no other way")]
    pub async fn subscribe_resource(&self, uri: &str) -> anyhow::Result<()> {
        Ok(self.0.subscribe(SubscribeRequestParams::new(uri)).await?)
    }

    /// Values that continue the typed text of a tool's argument.
    pub async fn complete_argument(&self, tool: &str, argument: &str, typed: &str) -> anyhow::Result<Vec<String>> {
        let request = CompleteRequestParams::new(Reference::for_prompt(tool), ArgumentInfo::new(argument, typed));
        Ok(self.0.complete(request).await?.completion.values)
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

/// The innermost cause: the outer ones only name the transport's types.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
