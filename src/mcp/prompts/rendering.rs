//! The answer of `prompts/get`: a plan that fits this deployment and its node.

use std::collections::BTreeSet;

use rmcp::{
    ErrorData,
    model::{GetPromptRequestParams, GetPromptResponse, GetPromptResult, PromptMessage, Role},
};
use serde_json::json;

use super::catalog::PromptError;
use crate::{mcp::server::ToolServer, tools::tool_names_in};

impl ToolServer {
    /// Renders a prompt, with a list of its tools that are unavailable now. Fails for an unknown prompt and for wrong arguments.
    pub fn render_prompt(&self, request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
        let prompt = self.prompts.get(&request.name).ok_or_else(|| {
            let known: Vec<&str> = self.prompts.iter().map(|prompt| prompt.name).collect();
            ErrorData::invalid_params(format!("there is no prompt {:?}", request.name), Some(json!({"known": known})))
        })?;
        let arguments = request.arguments.clone().unwrap_or_default();
        // The node may have been upgraded since the last plan.
        let generation = self.operator.node_release().generation;
        let mut text = prompt.render(&arguments, generation).map_err(|error| match error {
            PromptError::Arguments(reason) => ErrorData::invalid_params(reason, None),
            error @ PromptError::File { .. } => ErrorData::internal_error(error.to_string(), None),
        })?;
        text.push_str(&self.unavailable_tools_section(&text));
        let text = self.catalog.with_listed_names(text);
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt.description()).into())
    }

    /// The section of a plan that lists its unavailable tools; empty when all are available.
    fn unavailable_tools_section(&self, text: &str) -> String {
        let names: BTreeSet<&str> = tool_names_in(text).collect();
        let missing: Vec<String> = names
            .into_iter()
            .filter_map(|name| {
                let entry = self.catalog.get(name)?;
                self.unavailable_reason(entry).map(|unavailable| format!("- `{name}`: {}", unavailable.reason()))
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
