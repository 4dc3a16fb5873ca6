//! What the official MCP conformance suite expects of a server besides its own tools. For builds made for it only.

// The suite also tests logging, sampling and roots, which the newest protocol version deprecates.
#![allow(deprecated)]

mod cut;
mod dialogue;
mod prompts;
mod tools;

use std::sync::{LazyLock, Mutex, PoisonError};

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
        GetPromptRequestParams, GetPromptResponse, JsonObject, LoggingLevel, Prompt, ReadResourceResult, Resource,
        ResourceContents, ResourceTemplate, ServerCapabilities, Tool,
    },
    service::{RequestContext, SubscriptionSendError, SubscriptionSink},
};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::task::AbortOnDropHandle;

pub use cut::cuttable;

/// A red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A millisecond of silence.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";
const TEMPLATE: (&str, &str) = ("test://template/", "/data");

static CHANGES: LazyLock<broadcast::Sender<Change>> = LazyLock::new(|| broadcast::Sender::new(16));
/// One level for all sessions: such a build serves one client, the suite.
static LEVEL: Mutex<LoggingLevel> = Mutex::new(LoggingLevel::Debug);

/// A list that a tool says has changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// Declares what only the fixtures offer.
pub fn declare(capabilities: &mut ServerCapabilities) {
    let mut prompts = capabilities.prompts.take().unwrap_or_default();
    prompts.list_changed = Some(true);
    capabilities.prompts = Some(prompts);
    capabilities.logging = Some(JsonObject::new());
    capabilities.completions = Some(JsonObject::new());
}

/// The tools. To be listed before all others: the suite reads one page of the list only.
pub fn tools() -> &'static [Tool] {
    &tools::ALL
}

/// Calls a tool; nothing if it is none of these.
pub async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    tools::call(request, context).await
}

/// The prompts.
pub fn prompts() -> Vec<Prompt> {
    prompts::all()
}

/// Renders a prompt; nothing if it is none of these.
pub async fn get_prompt(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<GetPromptResponse, ErrorData>> {
    prompts::get(request, context).await
}

/// Completes an argument of a prompt; nothing if the prompt is none of these.
pub fn complete(request: &CompleteRequestParams) -> Option<CompleteResult> {
    let prompt = request.r#ref.as_prompt_name()?;
    prompts().iter().find(|known| known.name == prompt)?;
    let begun = &request.argument.value;
    let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(begun)).map(str::to_owned);
    CompletionInfo::with_all_values(values.collect()).ok().map(CompleteResult::new)
}

/// The resources that are listed.
pub fn resources() -> Vec<Resource> {
    [
        (TEXT, "static-text", "Text that never changes", "text/plain"),
        (BINARY, "static-binary", "An image that never changes", "image/png"),
        (WATCHED, "watched-resource", "Text a client may subscribe to", "text/plain"),
    ]
    .map(|(uri, name, description, mime)| Resource::new(uri, name).with_description(description).with_mime_type(mime))
    .to_vec()
}

/// The templates of resources that are not listed.
pub fn templates() -> Vec<ResourceTemplate> {
    let (before, after) = TEMPLATE;
    let template = ResourceTemplate::new(format!("{before}{{id}}{after}"), "template")
        .with_description("Tells the identifier it was read with")
        .with_mime_type("application/json");
    vec![template]
}

/// Reads a resource; nothing if it is none of these.
pub fn read(uri: &str) -> Option<ReadResourceResult> {
    let contents = match uri {
        TEXT => {
            ResourceContents::text("This is the content of the static text resource.", uri).with_mime_type("text/plain")
        }
        BINARY => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        WATCHED => {
            ResourceContents::text("This is the content of the watched resource.", uri).with_mime_type("text/plain")
        }
        _ => {
            let (before, after) = TEMPLATE;
            let id = uri.strip_prefix(before)?.strip_suffix(after)?;
            let data = serde_json::json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }
    };
    Some(ReadResourceResult::new(vec![contents]))
}

/// Whether a client may subscribe to this here.
pub fn is_fixture_uri(uri: &str) -> bool {
    read(uri).is_some()
}

/// Sets the level below which clients with sessions are spared log messages.
pub fn set_level(level: LoggingLevel) {
    *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = level;
}

/// Tells a subscription of changed lists for as long as the handle is kept.
pub fn follow(sink: SubscriptionSink) -> AbortOnDropHandle<()> {
    let mut changes = CHANGES.subscribe();
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let told = match changes.recv().await {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            // A subscription to something else stays open.
            if matches!(told, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_))) {
                return;
            }
        }
    }))
}

/// Tells a client with a session of changed lists until it is gone.
pub fn announce(peer: Peer<RoleServer>) {
    let mut changes = CHANGES.subscribe();
    tokio::spawn(async move {
        loop {
            let told = match changes.recv().await {
                Ok(Change::Tools) => peer.notify_tool_list_changed().await,
                Ok(Change::Prompts) => peer.notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            if told.is_err() {
                return;
            }
        }
    });
}

/// Whether this request is of the protocol generation without sessions, where a server may not send requests.
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// The level the client of this request wants messages from; nothing if it wants none.
fn wanted_level(context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
    if is_modern(context) {
        return context.meta.log_level();
    }
    Some(*LEVEL.lock().unwrap_or_else(PoisonError::into_inner))
}
