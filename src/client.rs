//! A small MCP client for people and scripts: what `svc call`, `svc tools` and `svc resource` speak with.

use std::sync::Arc;

use anyhow::anyhow;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        ArgumentInfo, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, CompleteRequestParams,
        Implementation, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, Reference, Resource,
        ResourceContents, ResourceUpdatedNotificationParam, SubscribeRequestParams, Tool,
    },
    service::{NotificationContext, RunningService},
    transport::{
        StreamableHttpClientTransport, common::client_side_sse::ExponentialBackoff,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Map, Value};
use svc_wire::syntax::plain;
use tokio::sync::mpsc;

/// How often a lost stream is asked for again, after one second, two, four and so on.
const RESUMPTIONS: usize = 4;
/// Requests under way at once. The library's own 16 would spread many writes over as many blocks.
const CONCURRENCY: usize = 256;
/// News of the server that nobody has looked at yet.
const NEWS: usize = 256;

/// What the server tells by itself.
#[derive(Debug, Clone)]
pub enum News {
    /// How far a call is, in words.
    Progress(String),
    /// A resource has changed.
    Updated(String),
}

/// Takes what the server tells by itself.
#[derive(Clone)]
pub struct Ear {
    config: ClientConfig,
    news: Option<mpsc::Sender<News>>,
}

impl Ear {
    fn hear(&self, news: News) {
        if let Some(sender) = &self.news {
            // A full channel belongs to somebody who does not look.
            let _ = sender.try_send(news);
        }
    }
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(News::Progress(params.message.unwrap_or_default()));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(News::Updated(params.uri));
    }
}

/// A connection to a tool server.
pub struct Client(RunningService<RoleClient, Ear>);

impl Client {
    /// Connects over HTTP with the newest protocol both speak.
    pub async fn connect(url: &str, bearer: &str) -> anyhow::Result<Self> {
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        Self::connect_with(url, bearer, mode, None).await
    }

    /// Connects with a session, and hears what the server tells by itself.
    pub async fn listen(url: &str, bearer: &str) -> anyhow::Result<(Self, mpsc::Receiver<News>)> {
        let (sender, receiver) = mpsc::channel(NEWS);
        let client = Self::connect_with(url, bearer, ClientLifecycleMode::Initialize, Some(sender)).await?;
        Ok((client, receiver))
    }

    async fn connect_with(
        url: &str,
        bearer: &str,
        mode: ClientLifecycleMode,
        news: Option<mpsc::Sender<News>>,
    ) -> anyhow::Result<Self> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_owned())
            .auth_header(bearer)
            .max_concurrent_requests(CONCURRENCY);
        // A stream that cannot be resumed must end some time: its call has failed then.
        let mut resumption = ExponentialBackoff::default();
        resumption.max_times = Some(RESUMPTIONS);
        config.retry_config = Arc::new(resumption);
        let transport = StreamableHttpClientTransport::from_config(config);
        let config =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("svc-cli", env!("CARGO_PKG_VERSION")));
        let service = Ear { config, news }.serve_with_lifecycle(transport, mode).await.map_err(|error| {
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

    /// All resources.
    pub async fn resources(&self) -> anyhow::Result<Vec<Resource>> {
        Ok(self.0.list_all_resources().await?)
    }

    /// A resource of the server, parsed.
    pub async fn read(&self, uri: &str) -> anyhow::Result<Value> {
        let result = self.0.read_resource(ReadResourceRequestParams::new(uri)).await?;
        let text = result.contents.iter().find_map(|contents| match contents {
            ResourceContents::TextResourceContents { text, .. } => Some(text.as_str()),
            _ => None,
        });
        Ok(serde_json::from_str(text.ok_or_else(|| anyhow!("{uri} has no text"))?)?)
    }

    /// Wants to hear when a resource changes.
    #[allow(deprecated, reason = "the generations with sessions have no other way")]
    pub async fn subscribe(&self, uri: &str) -> anyhow::Result<()> {
        Ok(self.0.subscribe(SubscribeRequestParams::new(uri)).await?)
    }

    /// Values an argument of a tool can have.
    pub async fn complete(&self, tool: &str, argument: &str, typed: &str) -> anyhow::Result<Vec<String>> {
        let request = CompleteRequestParams::new(Reference::for_prompt(tool), ArgumentInfo::new(argument, typed));
        Ok(self.0.complete(request).await?.completion.values)
    }

    /// The connection itself, for what has no shorthand.
    pub fn service(&self) -> &RunningService<RoleClient, Ear> {
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
    match content {
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        other => vec![("value".to_owned(), plain(other))],
    }
}

/// Arguments as people type them: a JSON object, or `name=value` for each. A value is read by the argument's schema: as text
/// where it is text, as JSON otherwise.
pub fn arguments(words: &[String], schema: &Map<String, Value>) -> anyhow::Result<Map<String, Value>> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return serde_json::from_str(only).map_err(|error| anyhow!("the arguments are not a JSON object: {error}"));
    }
    let mut arguments = Map::new();
    for word in words {
        let (name, value) =
            word.split_once('=').ok_or_else(|| anyhow!("{word:?} is neither name=value nor a JSON object"))?;
        let property = &schema.get("properties").map_or(&Value::Null, |all| &all[name]);
        arguments.insert(name.to_owned(), typed(value, property));
    }
    Ok(arguments)
}

fn typed(text: &str, schema: &Value) -> Value {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if types == ["string"] {
        return text.into();
    }
    match serde_json::from_str(text) {
        Ok(value) => value,
        // A list of texts may be typed without quotes.
        Err(_) if types == ["array"] => text.split(',').map(str::trim).collect::<Vec<_>>().into(),
        Err(_) => text.into(),
    }
}

/// A tool as `svc tools NAME` explains it: what it is for, and each argument with its type and whether it must be there.
pub fn explain(tool: &Tool) -> String {
    let mut text = format!("{}\n{}\n", tool.name, tool.description.as_deref().unwrap_or_default());
    let required: Vec<&str> = tool
        .input_schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = tool.input_schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut rows: Vec<(bool, String, String)> = properties
        .iter()
        .map(|(name, schema)| {
            let is_required = required.contains(&name.as_str());
            let mark = if is_required { "*" } else { " " };
            let words = schema["description"].as_str().unwrap_or_default();
            (!is_required, format!("{mark} {name}=<{}>", kind(schema)), words.to_owned())
        })
        .collect();
    rows.sort();
    if !rows.is_empty() {
        text.push_str("\nArguments (* required):\n");
        text.push_str(&table(&rows.into_iter().map(|(_, left, right)| (left, right)).collect::<Vec<_>>()));
    }
    text
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(plain).collect::<Vec<_>>().join("|");
    }
    match &schema["type"] {
        Value::Array(several) => several.iter().map(plain).collect::<Vec<_>>().join("|"),
        Value::String(one) => one.clone(),
        _ => "json".to_owned(),
    }
}

/// Names beside the one that was typed, for a person who mistyped it.
pub fn similar<'a>(name: &str, tools: &'a [Tool]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let last = wanted.rsplit('.').next().unwrap_or_default();
    let names = tools.iter().map(|tool| &*tool.name);
    names.filter(|known| !last.is_empty() && known.to_lowercase().contains(last)).take(5).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_by_their_schema() {
        let schema = json!({"properties": {
            "id": {"type": ["integer", "string"]}, "did": {"type": "string"}, "archive": {"type": "boolean"},
            "msg_types": {"type": "array"}, "fees": {"type": ["object", "integer"]},
        }});
        let schema = schema.as_object().expect("an object");
        let words = ["id=7", "did=7", "archive=true", "msg_types=/a,/b", "fees={\"value\":1}", "other=x"];
        let read = arguments(&words.map(str::to_owned), schema).expect("readable");
        let expected = json!({
            "id": 7, "did": "7", "archive": true, "msg_types": ["/a", "/b"], "fees": {"value": 1}, "other": "x",
        });
        assert_eq!(Value::Object(read), expected);
        let whole = arguments(&["{\"id\": 7}".to_owned()], schema).expect("readable");
        assert_eq!(Value::Object(whole), json!({"id": 7}));
        for bad in ["{\"id\": ", "id"] {
            assert!(arguments(&[bad.to_owned()], schema).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tool_is_explained_with_its_required_arguments_first() {
        let schema = json!({
            "type": "object", "required": ["b"],
            "properties": {"a": {"enum": ["x", 1], "description": "A."}, "b": {"type": "string", "description": "B."}},
        });
        let schema = Arc::new(schema.as_object().cloned().expect("an object"));
        let text = explain(&Tool::new("svc.x", "Does it.", schema));
        let (first, second) = (text.find("* b=<string>").expect("b"), text.find("a=<x|1>").expect("a"));
        assert!(first < second, "{text}");
    }
}
