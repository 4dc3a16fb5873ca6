//! The tool server's front end: MCP over HTTP and stdio. It parses a request, asks the operator, shapes the answer and maps the
//! error.
//!
//! A call of a ledger tool passes through these files in order: `http` (listener, token, admission), `handler` (the MCP request),
//! `session/tool_caller` (the client's side of the call), `call/tool_call` (lookup, policy, dispatch), `catalog/entry` (check of
//! the arguments), `catalog/ledger` (the message), `call/confirmation` and `call/ledger_write` (the write). Clients of the
//! protocol versions with sessions pass through `session/manager` too.

mod call;
mod catalog;
mod completion;
mod extension;
mod handler;
mod http;
mod listing;
mod notifications;
mod prompts;
mod resources;
mod server;
mod session;
mod startup;

use std::sync::Arc;

use svc_operator::Operator;
use svc_otel::metrics;
use tokio::sync::watch;

use catalog::ToolCatalog;

pub use crate::tools::{SURFACES, TableError, ToolEffect, ToolNames};

pub use call::error_result;
pub use catalog::{CallPolicy, CatalogError, DESTRUCTIVE_VERBS, PolicyRule, ToolPattern, ToolSelection};
pub use extension::{McpExtension, NoExtension};
pub use handler::McpSession;
pub use http::{HttpServer, HttpServerConfig, HttpServerError, check_message};
pub use prompts::PromptError;
pub use server::ToolServer;
pub use session::SessionLimits;
pub use startup::{ServerSlot, Startup, StartupPublisher};

/// The embedded tables or prompts cannot be used with this chain.
#[derive(Debug, thiserror::Error)]
pub enum ToolServerError {
    /// The tools.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The prompts.
    #[error(transparent)]
    Prompts(#[from] PromptError),
}

impl ToolServer {
    /// Starts a tool server over a booted operator, and the task that notifies clients of changes until the server drains. Fails
    /// when the embedded tables do not fit the chain.
    pub fn start(operator: Operator, selection: &ToolSelection) -> Result<Arc<Self>, ToolServerError> {
        let catalog = ToolCatalog::build(operator.chain(), selection)?;
        let visible_state = watch::Sender::default();
        let prompts = prompts::PromptCatalog::load()?;
        let server = Arc::new(Self::new(operator, catalog, prompts, visible_state.clone()));
        metrics::record_bootstrap(true);
        server.record_tool_counts();
        tokio::spawn(notifications::watch_changes(Arc::clone(&server), visible_state));
        Ok(server)
    }
}
