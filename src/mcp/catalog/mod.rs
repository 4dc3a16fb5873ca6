//! The tools as data: an embedded table per surface (`data/`), and a file of code per surface that makes tools of it. The
//! selection of the deployment is applied once, to each entry; listing and dispatch both read it there.

mod arguments;
mod cosmos;
mod definition;
mod entry;
mod graph;
mod idx;
mod ledger;
mod listed_schema;
mod normalization;
mod selection;
mod table;
mod vsa;
mod wallet;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rmcp::model::Tool;
use svc_operator::RegistryChain;

use definition::ToolDefinition;

use crate::tools::{TableError, tool_names_in};

pub use arguments::{ArgumentViolation, invalid_arguments};
pub use cosmos::{CosmosQuery, CosmosTool, QueryDefaults};
pub use entry::{CatalogEntry, ToolAction};
pub use graph::{GraphQuery, GraphTool};
pub use idx::{DEFAULT_ROWS, IdxTool, ListShape, NextPage};
pub use ledger::{AccountRole, INCLUDE_EVENTS, LedgerTool};
pub use selection::{CallPolicy, DESTRUCTIVE_VERBS, PolicyRule, ToolPattern, ToolSelection};
pub use table::CatalogError;
pub use vsa::VsaTool;
pub use wallet::WalletTool;

/// The tool that shows the state of the server, which needs no chain.
pub fn status_entry(selection: &ToolSelection) -> Result<CatalogEntry, CatalogError> {
    let status = wallet::tools()?.into_iter().find(|(_, tool)| *tool == Some(WalletTool::GetStatus));
    let missing = || CatalogError::Table(TableError { surface: "wallet", reason: "it has no getStatus".to_owned() });
    let (definition, _) = status.ok_or_else(missing)?;
    CatalogEntry::new(definition, ToolAction::Wallet(WalletTool::GetStatus), selection)
}

/// All tools of a server, by name.
pub struct ToolCatalog {
    entries: BTreeMap<String, Arc<CatalogEntry>>,
    is_partial: bool,
    has_unlisted: bool,
    is_underscored: bool,
}

impl ToolCatalog {
    /// Builds every tool. The input schemas of ledger tools come from the chain's own message descriptors. Fails when an embedded
    /// table cannot be read or does not fit the chain.
    pub fn build(chain: &RegistryChain, selection: &ToolSelection) -> Result<Self, CatalogError> {
        let mut tools: Vec<(ToolDefinition, ToolAction)> = Vec::new();
        tools.extend(with_action(ledger::tools(chain)?, ToolAction::Ledger));
        tools.extend(with_action(idx::tools()?, ToolAction::Idx));
        tools.extend(with_action(graph::tools()?, ToolAction::Graph));
        tools.extend(with_action(vsa::tools()?, ToolAction::Vsa));
        tools.extend(with_action(cosmos::tools()?, ToolAction::Cosmos));
        tools.extend(with_action(wallet::tools()?, |tool| tool.map_or(ToolAction::UnlistedRead, ToolAction::Wallet)));
        let mut entries = BTreeMap::new();
        for (definition, action) in tools {
            let entry = CatalogEntry::new(definition, action, selection)?;
            entries.insert(entry.tool.name.to_string(), Arc::new(entry));
        }
        let has_unlisted = entries.values().any(|entry| entry.is_unlisted);
        let is_partial = has_unlisted || entries.values().any(|entry| entry.call_policy == CallPolicy::Excluded);
        Ok(Self { entries, is_partial, has_unlisted, is_underscored: selection.is_underscored })
    }

    /// The tool with this name, written with dots or, for hosts that refuse dots, with underscores.
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.entries.get(name).or_else(|| self.entries.get(&name.replace('_', ".")))
    }

    /// A tool as this deployment lists it.
    pub fn listed_tool(&self, entry: &CatalogEntry) -> Tool {
        entry.listed_tool(self.is_underscored)
    }

    /// A text with the names of tools as this deployment lists them.
    pub fn with_listed_names(&self, text: String) -> String {
        if !self.is_underscored {
            return text;
        }
        let names: BTreeSet<String> = tool_names_in(&text).map(str::to_owned).collect();
        // The longest come first: a name may be the beginning of another one.
        let mut names: Vec<String> = names.into_iter().filter(|name| self.entries.contains_key(name)).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.iter().fold(text, |text, name| text.replace(name.as_str(), &name.replace('.', "_")))
    }

    /// All tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.entries.values()
    }

    /// Whether reads are called through `svc.wallet.readTool`.
    pub fn has_unlisted(&self) -> bool {
        self.has_unlisted
    }

    /// Whether this deployment leaves tools out.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }
}

fn with_action<T>(
    tools: Vec<(ToolDefinition, T)>,
    action: impl Fn(T) -> ToolAction,
) -> impl Iterator<Item = (ToolDefinition, ToolAction)> {
    tools.into_iter().map(move |(definition, tool)| (definition, action(tool)))
}

#[cfg(test)]
mod tests;
