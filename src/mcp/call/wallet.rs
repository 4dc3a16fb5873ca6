//! Wallet tools: they answer from the server's own state and the catalog.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    mcp::{
        catalog::{CatalogEntry, ToolAction, WalletTool},
        resources::OwnResource,
        server::ToolServer,
        session::ToolCaller,
    },
    principals::Principal,
};

/// The resource with the content of a tool.
fn own_resource(tool: WalletTool) -> Option<OwnResource> {
    match tool {
        WalletTool::GetAddress => Some(OwnResource::Operator),
        WalletTool::GetCorporation => Some(OwnResource::Corporation),
        WalletTool::ListAuthorizations => Some(OwnResource::Authorizations),
        WalletTool::ListVsAgents => Some(OwnResource::VsAgents),
        WalletTool::GetStatus => Some(OwnResource::Status),
        WalletTool::FindTools => None,
    }
}

impl ToolServer {
    /// Answers a wallet tool with structured content.
    pub(super) async fn call_wallet(&self, tool: WalletTool, arguments: &Value, caller: &ToolCaller<'_>) -> Value {
        let principal = caller.principal();
        let shown_height = match own_resource(tool) {
            Some(own) => self.await_own_state(own, caller.session()).await,
            None => None,
        };
        let mut content = match tool {
            WalletTool::GetAddress => self.read_own_resource(OwnResource::Operator, principal).await,
            WalletTool::GetCorporation => self.read_own_resource(OwnResource::Corporation, principal).await,
            WalletTool::ListAuthorizations => {
                json!({"authorizations": self.read_own_resource(OwnResource::Authorizations, principal).await})
            }
            WalletTool::ListVsAgents => json!({"vs_agents": self.list_vs_agents()}),
            WalletTool::GetStatus => self.read_own_resource(OwnResource::Status, principal).await,
            WalletTool::FindTools => json!({"tools": self.find_tools(arguments, principal)}),
        };
        if let Some(height) = shown_height {
            content["as_of_height"] = height.into();
        }
        content
    }

    /// The tools that match the words of a query, best first. A word counts most in the name, then in the title, then in the
    /// description.
    fn find_tools(&self, arguments: &Value, principal: &Principal) -> Vec<Value> {
        let query = arguments["query"].as_str().unwrap_or_default().to_lowercase();
        let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).collect();
        let limit = arguments["limit"].as_u64().and_then(|limit| usize::try_from(limit).ok()).unwrap_or(10);
        let mut found: Vec<(usize, &Arc<CatalogEntry>)> = self
            .catalog
            .iter()
            .filter(|entry| principal.rights.allow(&entry.facts()))
            .filter_map(|entry| {
                let tool = &entry.tool;
                let (name, title) =
                    (tool.name.to_lowercase(), tool.title.as_deref().unwrap_or_default().to_lowercase());
                let description = tool.description.as_deref().unwrap_or_default().to_lowercase();
                let weight = |word: &&str| {
                    8 * usize::from(name.contains(*word))
                        + 4 * usize::from(title.contains(*word))
                        + usize::from(description.contains(*word))
                };
                let score: usize = words.iter().map(weight).sum();
                (score > 0).then_some((score, entry))
            })
            .collect();
        found.sort_by_key(|(score, entry)| (std::cmp::Reverse(*score), entry.tool.name.len()));
        let reader = self.catalog.iter().find(|entry| matches!(entry.action, ToolAction::UnlistedRead));
        let reader = reader.filter(|entry| self.unavailable_reason(entry).is_none());
        let through = reader.map_or_else(
            || "it is called by its name".to_owned(),
            |entry| format!("call it through {}", self.catalog.listed_tool(entry).name),
        );
        let row = |(_, entry): (usize, &Arc<CatalogEntry>)| {
            let unavailable = self.unavailable_reason(entry);
            let mut row = json!({
                "name": self.catalog.listed_tool(entry).name, "title": entry.tool.title, "description": entry.tool.description,
                "listed": unavailable.is_none() && !entry.is_unlisted,
            });
            if entry.is_unlisted && unavailable.is_none() {
                row["reason"] = through.as_str().into();
                row["input_schema"] = Value::Object((*entry.tool.input_schema).clone());
            } else if let Some(unavailable) = unavailable {
                row["reason"] = unavailable.reason().into();
            }
            row
        };
        found.into_iter().take(limit).map(row).collect()
    }
}
