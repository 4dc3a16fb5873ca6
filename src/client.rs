//! A small MCP client for people and scripts: `svc call` and `svc tools`.

use anyhow::anyhow;
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, Tool,
    },
    service::RunningService,
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::{Map, Value};

/// Requests under way at once. The library's own 16 would spread many writes over as many blocks.
const CONCURRENCY: usize = 256;

/// A connection to a tool server.
pub struct Client(RunningService<RoleClient, ClientConfig>);

impl Client {
    /// Connects over HTTP.
    pub async fn connect(url: &str, bearer: &str) -> anyhow::Result<Self> {
        let config = StreamableHttpClientTransportConfig::with_uri(url.to_owned())
            .auth_header(bearer)
            .max_concurrent_requests(CONCURRENCY);
        let transport = StreamableHttpClientTransport::from_config(config);
        let me =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("svc-cli", env!("CARGO_PKG_VERSION")));
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let service = me.serve_with_lifecycle(transport, mode).await.map_err(|error| {
            if error.is_authorization_required() {
                return anyhow!("the server at {url} refused the bearer token");
            }
            anyhow!("no MCP server answers at {url} (the path is usually /mcp): {}", innermost(&error))
        })?;
        Ok(Self(service))
    }

    /// All tools.
    pub async fn tools(&self) -> anyhow::Result<Vec<Tool>> {
        Ok(self.0.list_all_tools().await?)
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: Map<String, Value>) -> anyhow::Result<CallToolResult> {
        let request = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        Ok(self.0.call_tool(request).await?)
    }

    /// The connection itself, for what has no shorthand.
    pub fn service(&self) -> &RunningService<RoleClient, ClientConfig> {
        &self.0
    }

    /// Closes the connection.
    pub async fn close(self) {
        let _ = self.0.cancel().await;
    }
}

/// The innermost cause says most: the outer ones are the transport's types.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Rows of two columns, the first padded to its longest cell.
pub fn table(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("{left:<width$}  {right}\n")).collect()
}

/// Structured content as rows: one a member, nested values as compact JSON.
pub fn rows_of(content: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match content {
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
        other => vec![("value".to_owned(), text(other))],
    }
}
