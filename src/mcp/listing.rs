//! The lists of a tool server: tools, prompts and resources, in pages.

// Logging is a capability of the older protocol versions.
#![allow(deprecated)]

use rmcp::{
    ErrorData,
    model::{PaginatedRequestParams, Prompt, Resource, ServerCapabilities, Tool},
};

use super::{prompts::PromptTemplate, resources::OwnResource, server::ToolServer};
use crate::principals::Principal;

/// Elements of one page. It has room for every tool: several hosts and frameworks read the first page only, and say nothing of the
/// tools that they miss.
const PAGE_SIZE: usize = 250;

impl ToolServer {
    /// The tools that are available to a principal now.
    pub fn listed_tools(&self, principal: &Principal) -> Vec<Tool> {
        let entries = self.listed_entries().filter(|entry| principal.rights.allow(&entry.facts()));
        entries.map(|entry| self.catalog.listed_tool(entry)).collect()
    }

    /// The prompts.
    pub fn listed_prompts(&self) -> Vec<Prompt> {
        self.prompts.iter().map(PromptTemplate::listing).collect()
    }

    /// The resources.
    pub fn listed_resources() -> Vec<Resource> {
        OwnResource::ALL.into_iter().map(OwnResource::listing).collect()
    }
}

/// The capabilities that a tool server declares.
pub fn server_capabilities() -> ServerCapabilities {
    ServerCapabilities::builder()
        .enable_tools()
        .enable_tool_list_changed()
        .enable_resources()
        .enable_resources_subscribe()
        .enable_prompts()
        .enable_completions()
        .enable_logging()
        .build()
}

/// One page of a list, and the cursor of the next page. Fails on a cursor that this function did not give.
pub fn paginate<T: Clone>(
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
    let end = all.len().min(start + PAGE_SIZE);
    Ok((all[start..end].to_vec(), (end < all.len()).then(|| end.to_string())))
}
