//! The MCP handler: one per session, all over the same front.

use std::{
    borrow::Cow,
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ResourceContents, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{NotificationContext, Peer, RequestContext, SubscriptionContext, SubscriptionSendError},
};
use serde_json::{Value, json};
use svc_otel::{
    metrics,
    trace::{self, Call},
};
use svc_wire::envelope::ErrorEnvelope;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::{Front, call::Shaped, own::Own};

/// Tools on one page of `tools/list`.
const PAGE: usize = 100;
/// How long a client may take to accept a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of a protocol generation with sessions, to be told of changes.
pub struct Listener {
    peer: Peer<RoleServer>,
    uris: Arc<Mutex<HashSet<String>>>,
}

/// The handler of one session, or of one request where the protocol has no sessions.
#[derive(Clone)]
pub struct Session {
    front: Arc<Front>,
    uris: Arc<Mutex<HashSet<String>>>,
}

impl Session {
    /// A session over a front.
    pub fn new(front: Arc<Front>) -> Self {
        Self { front, uris: Arc::default() }
    }

    fn uris<R>(&self, change: impl FnOnce(&mut HashSet<String>) -> R) -> R {
        change(&mut self.uris.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a request under its server span.
    async fn traced<T>(
        &self,
        method: &str,
        target: &str,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        let call = Call { request_id: uuid::Uuid::new_v4().to_string().into(), tool: target.into() };
        let span = trace::server_span(method, Some(target), &context.id.to_string(), &call);
        let meta = |key: &str| context.meta.get(key).and_then(Value::as_str).map(str::to_owned);
        let parts = context.extensions.get::<::http::request::Parts>();
        trace::adopt_remote_parent(&span, &meta, parts.map(|parts| &parts.headers));
        let outcome = trace::within(Some(call), answered(method, work)).instrument(span.clone()).await;
        if let Err(error) = &outcome {
            trace::record_error(&span, &error.code.0.to_string());
        }
        outcome
    }

    async fn call(&self, name: &str, arguments: Value) -> CallToolResult {
        let started = Instant::now();
        let outcome = self.front.call(name, arguments).await;
        // Names of tools that do not exist are no labels.
        let label = if self.front.catalog.get(name).is_some() { name } else { "unknown" };
        match outcome {
            Ok(Shaped { content, summary }) => {
                metrics::tool_call(label, "", started.elapsed());
                tracing::info!(outcome = "ok", took_ms = millis(started), "tool call has ended");
                // Clients that show only text to their model need the data there too.
                let data = ContentBlock::text(content.to_string());
                let mut result = CallToolResult::structured(content);
                result.content = vec![ContentBlock::text(summary), data];
                result
            }
            Err(error) => {
                metrics::tool_call(label, error.code.as_str(), started.elapsed());
                trace::record_error(&tracing::Span::current(), error.code.as_str());
                tracing::warn!(
                    outcome = "error",
                    error_code = error.code.as_str(),
                    took_ms = millis(started),
                    "tool call has failed"
                );
                failed(&error)
            }
        }
    }
}

/// Turns a panic into an internal error; left alone, the caller would wait for ever.
async fn answered<T>(method: &str, work: impl Future<Output = Result<T, ErrorData>>) -> Result<T, ErrorData> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(method, "a handler has panicked");
        Err(ErrorData::internal_error(format!("{method} failed inside the server"), None))
    })
}

fn millis(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}

fn failed(error: &ErrorEnvelope) -> CallToolResult {
    let content = serde_json::to_value(error).unwrap_or_default();
    let data = ContentBlock::text(content.to_string());
    let mut result = CallToolResult::structured_error(content);
    result.content = vec![ContentBlock::text(format!("{error}. {}", error.hint)), data];
    result
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .build();
        let corporation = self.front.operator.corporation_id();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("svc operator tool server"))
            .with_instructions(format!(
                "Operates corporation {corporation} in a public trust registry with one operator key. Ledger tools write to the chain: each \
                 waits for its block and for the indexer, so a read after it sees it. Read svc://own/authorizations before the first write. \
                 After BCAST_TIMEOUT ask svc.cosmos.tx.getTx; do not repeat the write."
            ))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.front.catalog.get(name).map(|entry| entry.tool.clone())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let listener = Listener { peer: context.peer, uris: Arc::clone(&self.uris) };
        self.front.listeners(|listeners| {
            listeners.retain(|listener| !listener.peer.is_transport_closed());
            listeners.push(listener);
        });
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed: Vec<Tool> = self.front.listed().map(|entry| entry.tool.clone()).collect();
        let start = match request.and_then(|request| request.cursor) {
            None => 0,
            Some(cursor) => {
                cursor.parse::<usize>().ok().filter(|start| *start > 0 && *start <= listed.len()).ok_or_else(|| {
                    ErrorData::invalid_params(format!("cursor {cursor:?} is not one this server gave"), None)
                })?
            }
        };
        let end = listed.len().min(start + PAGE);
        let mut page =
            ListToolsResult::with_all_items(listed[start..end].to_vec()).with_cache_scope(CacheScope::Private);
        page.next_cursor = (end < listed.len()).then(|| end.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let work = async { Ok(self.call(&name, arguments).await.into()) };
        self.traced("tools/call", &name, &context, work).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(Own::ALL.into_iter().map(Own::resource).collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let work = async {
            let own = Own::find(&uri).ok_or_else(|| unknown_resource(&uri))?;
            let text = self.front.own(own).await.to_string();
            let contents = ResourceContents::text(text, uri.clone()).with_mime_type("application/json");
            Ok(ReadResourceResult::new(vec![contents]).with_cache_scope(CacheScope::Private).into())
        };
        self.traced("resources/read", &uri, &context, work).await
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Own::find(&request.uri).ok_or_else(|| unknown_resource(&request.uri))?;
        self.uris(|uris| uris.insert(request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.uris(|uris| uris.remove(&request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.front.operator.changes();
        let mut known = *changes.borrow_and_update();
        loop {
            let is_over = tokio::select! {
                () = context.cancelled() => true,
                () = self.front.stop.cancelled() => true,
                changed = changes.changed() => changed.is_err(),
            };
            if is_over {
                return Ok(());
            }
            let next = *changes.borrow_and_update();
            let mut outcomes = Vec::new();
            if next.authorizations != known.authorizations {
                outcomes.push(context.sink().notify_tool_list_changed().await);
            }
            for own in Own::changed(&known, &next) {
                outcomes.push(context.sink().notify_resource_updated(own.uri()).await);
            }
            known = next;
            let is_gone = |outcome: &Result<(), SubscriptionSendError>| {
                matches!(outcome, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_)))
            };
            if outcomes.iter().any(is_gone) {
                return Ok(());
            }
        }
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [rmcp::model::ProtocolVersion]> {
        Cow::Borrowed(rmcp::model::ProtocolVersion::KNOWN_VERSIONS)
    }
}

fn unknown_resource(uri: &str) -> ErrorData {
    let known: Vec<&str> = Own::ALL.into_iter().map(Own::uri).collect();
    ErrorData::resource_not_found(format!("there is no resource {uri:?}"), Some(json!({"uri": uri, "known": known})))
}

/// Tells clients with sessions of every change of the snapshot. A client that does not take a notification is left behind.
pub(super) async fn announce_changes(front: Arc<Front>) {
    let mut changes = front.operator.changes();
    let mut known = *changes.borrow_and_update();
    loop {
        tokio::select! {
            () = front.stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let next = *changes.borrow_and_update();
        let is_list_new = next.authorizations != known.authorizations;
        let changed: Vec<&str> = Own::changed(&known, &next).into_iter().map(Own::uri).collect();
        known = next;
        if is_list_new {
            front.count_tools();
        }
        let listeners: Vec<(Peer<RoleServer>, Vec<&str>)> = front.listeners(|listeners| {
            listeners.retain(|listener| !listener.peer.is_transport_closed());
            listeners
                .iter()
                .map(|listener| {
                    let wanted = listener.uris.lock().unwrap_or_else(PoisonError::into_inner);
                    (listener.peer.clone(), changed.iter().copied().filter(|uri| wanted.contains(*uri)).collect())
                })
                .collect()
        });
        // A client that does not read must not hold up the others.
        for (peer, uris) in listeners.into_iter().filter(|(_, uris)| is_list_new || !uris.is_empty()) {
            tokio::spawn(timeout(NOTIFY_TIMEOUT, async move {
                if is_list_new {
                    let _ = peer.notify_tool_list_changed().await;
                }
                for uri in uris {
                    let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
                }
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered_as_an_internal_error() {
        let work = async { if true { panic!("on purpose") } else { Ok(()) } };
        let error = answered("tools/call", work).await.expect_err("an error");
        assert_eq!(error.code.0, -32603);
        assert!(!error.message.contains("on purpose"), "nothing of the inside leaks: {}", error.message);
    }
}
