//! Fixtures of the official MCP conformance suite, as an extension of the tool server.

// The suite also tests logging, sampling and roots, which the newest protocol version deprecates.
#![allow(deprecated)]

mod input_requests;
mod list_changes;
mod media;
mod prompts;
mod protocol;
mod resources;
mod session;
mod stream_cut;
mod tools;

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, JsonObject, ServerCapabilities};

pub use session::ConformanceFixtures;

/// Declares the capabilities that only the fixtures need.
fn declare_capabilities(capabilities: &mut ServerCapabilities) {
    let mut prompts = capabilities.prompts.take().unwrap_or_default();
    prompts.list_changed = Some(true);
    capabilities.prompts = Some(prompts);
    capabilities.logging = Some(JsonObject::new());
    capabilities.completions = Some(JsonObject::new());
}

/// Completes an argument of a fixture prompt; `None` for any other prompt.
fn complete(request: &CompleteRequestParams) -> Option<CompleteResult> {
    let prompt = request.r#ref.as_prompt_name()?;
    prompts::prompts().iter().find(|known| known.name == prompt)?;
    let begun = &request.argument.value;
    let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(begun)).map(str::to_owned);
    CompletionInfo::with_all_values(values.collect()).ok().map(CompleteResult::new)
}
