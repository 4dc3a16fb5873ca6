//! A session: what it lists, how it calls, what it says when something fails. How it is spoken to is the handler's business.

// Logging is a capability of the older protocol generations.
#![allow(deprecated)]

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
        PaginatedRequestParams, Prompt, PromptMessage, Resource, Role, ServerCapabilities, Tool,
    },
    service::RequestContext,
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
    Front,
    call::{Called, Shaped},
    caller::{Caller, Memory},
    own::Own,
    prompts::{Plan, PromptError, tools_in},
};

/// Tools on one page of `tools/list`.
const PAGE: usize = 100;

/// The handler of one session, or of one request where the protocol has no sessions.
#[derive(Clone)]
pub struct Session {
    pub(super) front: Arc<Front>,
    pub(super) memory: Arc<Memory>,
}

impl Session {
    /// A session over a front.
    pub fn new(front: Arc<Front>) -> Self {
        Self { front, memory: Arc::default() }
    }

    /// Runs a request under its server span.
    pub(super) async fn traced<T>(
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

    pub(super) async fn call(&self, name: &str, arguments: Value, caller: &Caller<'_>) -> CallToolResponse {
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
pub(super) fn page<T: Clone>(
    all: &[T],
    request: Option<PaginatedRequestParams>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
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
    pub(super) fn tools(&self) -> Vec<Tool> {
        #[cfg(feature = "conformance")]
        let first = conformance::tools().iter();
        #[cfg(not(feature = "conformance"))]
        let first = [].iter();
        first.cloned().chain(self.front.listed().map(|entry| self.front.catalog.listing(entry))).collect()
    }

    pub(super) fn prompts(&self) -> Vec<Prompt> {
        let own = self.front.prompts.iter().map(Plan::listing);
        #[cfg(feature = "conformance")]
        let own = own.chain(conformance::prompts());
        own.collect()
    }

    pub(super) fn resources(&self) -> Vec<Resource> {
        let own = Own::ALL.into_iter().map(Own::resource);
        #[cfg(feature = "conformance")]
        let own = own.chain(conformance::resources());
        own.collect()
    }

    pub(super) fn capabilities() -> ServerCapabilities {
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

    pub(super) async fn prompt(&self, request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
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
        let text = self.front.catalog.spelled(text);
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(plan.description()).into())
    }
}

impl Front {
    /// What a plan says of tools that are not there now.
    fn missing_tools(&self, text: &str) -> String {
        let named: BTreeSet<&str> = tools_in(text).collect();
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
