//! Fixtures of the official MCP conformance suite. Only builds for the suite contain them.

// The suite also tests logging, sampling and roots, which the newest protocol version deprecates.
#![allow(deprecated)]

mod input_requests;
mod list_changes;
mod media;
mod prompts;
mod protocol;
mod resources;
mod stream_cut;
mod tools;

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, JsonObject, ServerCapabilities};

pub use list_changes::{notify_session, notify_subscription};
pub use prompts::{get_prompt, prompts};
pub use protocol::set_level;
pub use resources::{is_fixture_uri, read, resources, templates};
pub use stream_cut::with_stream_cut;
pub use tools::{call, tools};

/// Declares the capabilities that only the fixtures need.
pub fn declare_capabilities(capabilities: &mut ServerCapabilities) {
    let mut prompts = capabilities.prompts.take().unwrap_or_default();
    prompts.list_changed = Some(true);
    capabilities.prompts = Some(prompts);
    capabilities.logging = Some(JsonObject::new());
    capabilities.completions = Some(JsonObject::new());
}

/// Completes an argument of a fixture prompt; `None` for any other prompt.
pub fn complete(request: &CompleteRequestParams) -> Option<CompleteResult> {
    let prompt = request.r#ref.as_prompt_name()?;
    prompts().iter().find(|known| known.name == prompt)?;
    let begun = &request.argument.value;
    let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(begun)).map(str::to_owned);
    CompletionInfo::with_all_values(values.collect()).ok().map(CompleteResult::new)
}
