//! The tool server behind a session. Over stdio a host waits seconds for `initialize`, and a chain may take longer to be found: a
//! session is answered at once, and has its tools when the server is ready.

use std::{sync::Arc, time::Duration};

use rmcp::model::{CallToolResponse, Prompt, Tool};
use serde_json::{Value, json};
use svc_operator::MissingServer;
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};
use tokio::sync::watch;

use super::{
    call::{ToolAnswer, error_result},
    catalog::{CallPolicy, CatalogEntry, CatalogError, ToolSelection, status_entry},
    prompts::{PromptCatalog, PromptTemplate},
    server::ToolServer,
};

/// Wait of a list or a call for a server that is starting. Most hosts list the tools once, and several ignore that the list has
/// changed; all that were tried wait this long, and the least patient one gives a server ten seconds.
const SHORT_WAIT: Duration = Duration::from_secs(6);

/// The start of a tool server.
#[derive(Clone)]
pub enum Startup {
    /// Chain and corporation are being found.
    Starting,
    /// It serves.
    Ready(Arc<ToolServer>),
    /// It will never serve: a setting is wrong.
    Failed(ErrorEnvelope),
}

/// A tool server that serves, or will.
#[derive(Clone)]
pub struct ServerSlot {
    corporation_id: u64,
    startup: watch::Receiver<Startup>,
    /// The reason for which the start takes longer.
    waiting_for: watch::Receiver<Option<MissingServer>>,
    /// The one tool that answers before the chain is known.
    status_tool: Option<Arc<CatalogEntry>>,
    /// Whether names are listed with underscores.
    is_underscored: bool,
}

/// The end of a slot that says how the start has gone.
pub struct StartupPublisher(watch::Sender<Startup>);

impl StartupPublisher {
    /// Publishes the outcome of the start.
    pub fn publish(&self, outcome: Startup) {
        self.0.send_replace(outcome);
    }
}

impl ServerSlot {
    /// A slot for a tool server that is being started. Fails when the embedded table cannot be read.
    pub fn starting(
        corporation_id: u64,
        waiting_for: watch::Receiver<Option<MissingServer>>,
        selection: &ToolSelection,
    ) -> Result<(Self, StartupPublisher), CatalogError> {
        let (sender, startup) = watch::channel(Startup::Starting);
        let status = status_entry(selection)?;
        let is_available = !matches!(status.call_policy, CallPolicy::Excluded | CallPolicy::Deny);
        let status_tool = is_available.then(|| Arc::new(status));
        let is_underscored = selection.is_underscored;
        Ok((Self { corporation_id, startup, waiting_for, status_tool, is_underscored }, StartupPublisher(sender)))
    }

    /// A slot with a tool server that serves.
    pub fn ready(server: Arc<ToolServer>) -> Self {
        Self {
            corporation_id: server.operator().corporation_id(),
            startup: watch::channel(Startup::Ready(server)).1,
            waiting_for: watch::channel(None).1,
            status_tool: None,
            is_underscored: false,
        }
    }

    /// The configured corporation.
    pub fn corporation_id(&self) -> u64 {
        self.corporation_id
    }

    /// The tool server, or the reason for which there is none.
    pub fn server(&self) -> Result<Arc<ToolServer>, ErrorEnvelope> {
        match &*self.startup.borrow() {
            Startup::Ready(server) => Ok(Arc::clone(server)),
            Startup::Failed(error) => Err(error.clone()),
            Startup::Starting => Err(self.starting_error()),
        }
    }

    /// Waits until the start has ended.
    pub async fn outcome(&self) -> Result<Arc<ToolServer>, ErrorEnvelope> {
        let mut startup = self.startup.clone();
        if startup.wait_for(|startup| !matches!(startup, Startup::Starting)).await.is_err() {
            let (message, hint) = ("the start of the server has ended without an outcome", "start the server again");
            return Err(ErrorEnvelope::new(FailureCode::NotReady, message, hint).not_retryable());
        }
        self.server()
    }

    /// The tool server, after a short wait for one that is starting: with a healthy node it is there before the wait ends, and a
    /// host that asks once for the tools gets all of them.
    pub async fn server_soon(&self) -> Result<Arc<ToolServer>, ErrorEnvelope> {
        tokio::time::timeout(SHORT_WAIT, self.outcome()).await.unwrap_or_else(|_| self.server())
    }

    fn starting_error(&self) -> ErrorEnvelope {
        let reason = self.waiting_for.borrow().as_ref().map(|missing| missing.reason.clone());
        let message = match &reason {
            Some(reason) => format!("the chain is not known yet: {reason}"),
            None => "the chain is not known yet".to_owned(),
        };
        let hint = "call again in a moment; svc.wallet.getStatus shows the state of the start";
        ErrorEnvelope::new(FailureCode::NotReady, message, hint).with_details(json!({"waiting_for": reason}))
    }

    /// The state of a server that does not serve: the members of its status that are known before the chain is.
    pub fn status(&self) -> Value {
        let (status, reason) = match &*self.startup.borrow() {
            Startup::Starting => ("degraded", self.starting_error().message),
            Startup::Ready(_) => ("ok", String::new()),
            Startup::Failed(error) => ("failed", error.message.clone()),
        };
        let link = json!({"connected": false, "last_height": null, "last_event_at": null});
        json!({
            "bootstrap_complete": false, "status": status, "reason": reason, "rpc_ws": link, "indexer_ws": link, "graph_ws": null,
            "capability_cache_refreshed_at": null, "build_version": env!("CARGO_PKG_VERSION"), "actors": [],
        })
    }

    /// The tools of a server that does not serve.
    pub fn tools_before_ready(&self) -> Vec<Tool> {
        self.status_tool.iter().map(|entry| entry.listed_tool(self.is_underscored)).collect()
    }

    /// The prompts of a server that does not serve: the same as later.
    pub fn prompts_before_ready() -> Vec<Prompt> {
        PromptCatalog::load().map(|prompts| prompts.iter().map(PromptTemplate::listing).collect()).unwrap_or_default()
    }

    /// The tool server for a call, or the answer of a server that does not serve.
    pub async fn server_for_call(&self, name: &str) -> Result<Arc<ToolServer>, CallToolResponse> {
        if self.status_tool.as_ref().is_some_and(|entry| name.replace('_', ".") == entry.tool.name) {
            return self.server().map_err(|_| {
                let status = self.status();
                let summary = format!("{name}: {}", status["status"].as_str().unwrap_or_default());
                ToolAnswer::new(summary, status).into_result().into()
            });
        }
        self.server_soon().await.map_err(|error| error_result(&error).into())
    }
}
