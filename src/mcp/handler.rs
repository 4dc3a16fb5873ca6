//! The MCP handler: one per session, all over the same front.

// Logging and resource subscriptions belong to the older protocol generations, which are served too.
#![allow(deprecated)]

use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
        PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
        Role, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};
use svc_otel::{
    metrics,
    trace::{self, Call},
};
use svc_wire::envelope::ErrorEnvelope;
use tokio::time::Instant;
use tracing::Instrument;

#[cfg(feature = "conformance")]
use super::conformance;
use super::{
    Front, announce,
    call::{Called, Shaped},
    caller::{Caller, Memory},
    own::Own,
    prompts::{PromptError, tools_in},
};

/// Tools on one page of `tools/list`.
const PAGE: usize = 100;
/// For how long a client may take a list for granted that changes with a release only, in milliseconds.
const LIST_TTL_MS: u64 = 60_000;
/// The same for the list of tools, which changes with the chain: a client that kept it would not see a revocation.
const TOOLS_TTL_MS: u64 = 0;

/// The handler of one session, or of one request where the protocol has no sessions.
#[derive(Clone)]
pub struct Session {
    front: Arc<Front>,
    memory: Arc<Memory>,
}

impl Session {
    /// A session over a front.
    pub fn new(front: Arc<Front>) -> Self {
        Self { front, memory: Arc::default() }
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

    async fn call(&self, name: &str, arguments: Value, caller: &Caller<'_>) -> CallToolResponse {
        let started = Instant::now();
        let outcome = self.front.call(name, arguments, caller).await;
        // Names of tools that do not exist are no labels.
        let label = self.front.catalog.get(name).map_or("unknown", |entry| &*entry.tool.name);
        match outcome {
            Ok(Called::Done(Shaped { content, summary })) => {
                metrics::tool_call(label, "", started.elapsed());
                tracing::info!(outcome = "ok", took_ms = millis(started), "tool call has ended");
                // Clients that show only text to their model need the data there too.
                let data = ContentBlock::text(content.to_string());
                let mut result = CallToolResult::structured(content);
                result.content = vec![ContentBlock::text(summary), data];
                result.into()
            }
            Ok(Called::Ask(question)) => {
                tracing::info!(outcome = "asked", took_ms = millis(started), "a confirmation is asked for");
                (*question).into()
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
                let detail = json!({"tool": label, "code": error.code, "message": error.message});
                caller.warn(detail).await;
                failed(&error).into()
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

/// One page of a list, and where the next one begins.
fn page<T: Clone>(all: &[T], request: Option<PaginatedRequestParams>) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let start = match request.and_then(|request| request.cursor) {
        None => 0,
        Some(cursor) => {
            cursor.parse::<usize>().ok().filter(|start| *start > 0 && *start <= all.len()).ok_or_else(|| {
                ErrorData::invalid_params(format!("cursor {cursor:?} is not one this server gave"), None)
            })?
        }
    };
    let end = all.len().min(start + PAGE);
    Ok((all[start..end].to_vec(), (end < all.len()).then(|| end.to_string())))
}

impl Session {
    fn tools(&self) -> Vec<Tool> {
        #[cfg(feature = "conformance")]
        let first = conformance::tools().iter();
        #[cfg(not(feature = "conformance"))]
        let first = [].iter();
        first.cloned().chain(self.front.listed().map(|entry| self.front.catalog.listing(entry))).collect()
    }

    fn prompts(&self) -> Vec<Prompt> {
        let own = self.front.prompts.iter().map(super::prompts::Plan::listing);
        #[cfg(feature = "conformance")]
        let own = own.chain(conformance::prompts());
        own.collect()
    }

    fn resources(&self) -> Vec<Resource> {
        let own = Own::ALL.into_iter().map(Own::resource);
        #[cfg(feature = "conformance")]
        let own = own.chain(conformance::resources());
        own.collect()
    }

    fn capabilities() -> ServerCapabilities {
        let builder = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_logging();
        #[cfg_attr(not(feature = "conformance"), allow(unused_mut))]
        let mut capabilities = builder.build();
        #[cfg(feature = "conformance")]
        conformance::declare(&mut capabilities);
        capabilities
    }

    async fn prompt(&self, request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
        let plan = self.front.prompts.get(&request.name).ok_or_else(|| {
            let known: Vec<&str> = self.front.prompts.iter().map(|plan| plan.name).collect();
            ErrorData::invalid_params(format!("there is no prompt {:?}", request.name), Some(json!({"known": known})))
        })?;
        let arguments = request.arguments.clone().unwrap_or_default();
        let mut text = plan.render(&arguments).map_err(|error| match error {
            PromptError::Arguments(reason) => ErrorData::invalid_params(reason, None),
            error @ PromptError::File { .. } => ErrorData::internal_error(error.to_string(), None),
        })?;
        text.push_str(&self.front.missing_tools(&text));
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(plan.description()).into())
    }
}

impl Front {
    /// What a plan says of tools that are not there now.
    fn missing_tools(&self, text: &str) -> String {
        let named: std::collections::BTreeSet<&str> = tools_in(text).collect();
        let missing: Vec<String> = named
            .into_iter()
            .filter_map(|name| {
                let entry = self.catalog.get(name)?;
                self.absence(entry).map(|absence| format!("- `{name}`: {}", absence.reason()))
            })
            .collect();
        if missing.is_empty() {
            return String::new();
        }
        format!(
            "\n\n## Not there now\nWork without these, or say that the plan cannot be carried out:\n{}\n",
            missing.join("\n")
        )
    }
}

impl ServerHandler for Session {
    fn get_info(&self) -> ServerConfig {
        let corporation = self.front.operator.corporation_id();
        ServerConfig::new(Self::capabilities())
            .with_server_info(Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("svc operator tool server"))
            .with_instructions(format!(
                "Operates corporation {corporation} in a public trust registry with one operator key. Ledger tools write to the \
                 chain: each waits for its block and for the indexer, so a read after it sees it; one that names no cost costs \
                 the transaction fee only. Read svc://own/authorizations before the first write, and try dry_run: true before \
                 what cannot be undone. After BCAST_TIMEOUT ask svc.cosmos.tx.getTx; do not repeat the write."
            ))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        #[cfg(feature = "conformance")]
        if let Some(tool) = conformance::tools().iter().find(|tool| tool.name == name) {
            return Some(tool.clone());
        }
        self.front.catalog.get(name).map(|entry| self.front.catalog.listing(entry))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        #[cfg(feature = "conformance")]
        conformance::announce(context.peer.clone());
        self.front.listener(context.peer, Arc::clone(&self.memory));
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        conformance::set_level(request.level);
        self.memory.set_level(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.traced("tools/list", "", &context, async {
            let (tools, next) = page(&self.tools(), request)?;
            let mut result =
                ListToolsResult::with_all_items(tools).with_cache_scope(CacheScope::Private).with_ttl_ms(TOOLS_TTL_MS);
            result.next_cursor = next;
            Ok(result)
        })
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(outcome) = conformance::call(&request, &context).await {
                return outcome;
            }
            let mut caller = Caller::new(&context, &self.memory);
            caller.responses = request.input_responses;
            caller.request_state = request.request_state;
            let arguments = Value::Object(request.arguments.unwrap_or_default());
            Ok(self.call(&name, arguments, &caller).await)
        };
        self.traced("tools/call", &name, &context, work).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (prompts, next) = page(&self.prompts(), request)?;
        let mut result =
            ListPromptsResult::with_all_items(prompts).with_cache_scope(CacheScope::Public).with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.name.clone();
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(outcome) = conformance::get_prompt(&request, &context).await {
                return outcome;
            }
            self.prompt(&request).await
        };
        self.traced("prompts/get", &name, &context, work).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        #[cfg(feature = "conformance")]
        if let Some(result) = conformance::complete(&request) {
            return Ok(result);
        }
        let unknown = |what: &str| {
            let hint = "a prompt's name, or a tool's full name to complete its arguments";
            ErrorData::invalid_params(format!("nothing completes {what:?}: {hint}"), None)
        };
        let Some(name) = request.r#ref.as_prompt_name() else {
            return Err(unknown("a resource"));
        };
        let (argument, typed) = (&request.argument.name, &request.argument.value);
        self.traced("completion/complete", name, &context, async {
            if let Some(plan) = self.front.prompts.get(name) {
                return Ok(CompleteResult::new(self.front.complete(plan.completes(argument), typed).await));
            }
            let entry = self.front.catalog.get(name).ok_or_else(|| unknown(name))?;
            Ok(CompleteResult::new(self.front.complete_tool(entry, argument, typed).await))
        })
        .await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (resources, next) = page(&self.resources(), request)?;
        let mut result = ListResourcesResult::with_all_items(resources)
            .with_cache_scope(CacheScope::Public)
            .with_ttl_ms(LIST_TTL_MS);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        #[cfg(feature = "conformance")]
        let templates = conformance::templates();
        #[cfg(not(feature = "conformance"))]
        let templates = Vec::new();
        Ok(ListResourceTemplatesResult::with_all_items(templates).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let work = async {
            #[cfg(feature = "conformance")]
            if let Some(result) = conformance::read(&uri) {
                return Ok(result.into());
            }
            let own = Own::find(&uri).ok_or_else(|| unknown_resource(&uri))?;
            let text = self.front.own(own).await.to_string();
            let contents = ResourceContents::text(text, uri.clone()).with_mime_type("application/json");
            // It may change at any moment; a subscription tells when.
            Ok(ReadResourceResult::new(vec![contents]).with_cache_scope(CacheScope::Private).with_ttl_ms(0).into())
        };
        self.traced("resources/read", &uri, &context, work).await
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        if conformance::is_fixture_uri(&request.uri) {
            return Ok(());
        }
        Own::find(&request.uri).ok_or_else(|| unknown_resource(&request.uri))?;
        self.memory.uris(|uris| uris.insert(request.uri));
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.memory.uris(|uris| uris.remove(&request.uri));
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&Self::capabilities()))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        #[cfg(feature = "conformance")]
        let _fixtures = conformance::follow(context.sink().clone());
        announce::listen(&self.front, &context).await;
        Ok(())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [rmcp::model::ProtocolVersion]> {
        Cow::Borrowed(rmcp::model::ProtocolVersion::KNOWN_VERSIONS)
    }
}

fn unknown_resource(uri: &str) -> ErrorData {
    let known: Vec<&str> = Own::ALL.into_iter().map(Own::uri).collect();
    ErrorData::resource_not_found(format!("there is no resource {uri:?}"), Some(json!({"uri": uri, "known": known})))
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
