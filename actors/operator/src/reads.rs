//! Reads of the operator's upstreams: the indexer, the graph, the chain, the agents. No actor stands between, except where one
//! knows something: how far a reader has come, and how an agent is logged in to.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use svc_kit::{Retained, upstream::NodeClient};
use svc_wire::{
    comet::Tx,
    envelope::{Code, ErrorEnvelope},
};
use tokio::time::Instant;

use crate::{
    agent_session::AgentRequest,
    barrier::{BarrierHandle, Cursor},
    error::{agent_error, ask_error, invalid_arguments, node_error, unknown_effect, upstream_error},
    flow::{RESTART_PATIENCE, persistently},
    operator::Operator,
};

/// Who reads the chain, and can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The indexer.
    Indexer,
    /// The graph.
    Graph,
    /// The node itself.
    Node,
}

/// How long an agent may take, its login included.
const AGENT_PATIENCE: Duration = Duration::from_secs(45);
/// How often the node's height is looked at while somebody waits for it; it is told by its WebSocket.
const NODE_LOOK: Duration = Duration::from_millis(50);

impl Operator {
    /// Waits until a reader has reached `height`, at most as long as a write waits for the indexer.
    pub async fn until_height(&self, reader: Reader, height: u64) -> Result<(), ErrorEnvelope> {
        let patience = self.parts().indexer_timeout;
        let (name, reached) = match reader {
            Reader::Indexer => {
                let parts = self.parts();
                ("indexer", barrier_reached(&parts.barrier, &parts.cursor, height, patience).await)
            }
            Reader::Graph => match self.graph() {
                Some(graph) => ("graph", barrier_reached(&graph.barrier, &graph.cursor, height, patience).await),
                None => ("graph", 0),
            },
            Reader::Node => ("node", self.node_reached(height, patience).await),
        };
        if reached >= height {
            return Ok(());
        }
        let message = format!("the {name} is at block {reached}, {height} was asked for, after {patience:?}");
        let hint = "try again in a moment, or leave min_height out to read what there is";
        Err(ErrorEnvelope::new(Code::IndexerBehind, message, hint)
            .with_details(json!({"reader": name, "height": reached, "min_height": height})))
    }

    async fn node_reached(&self, height: u64, patience: Duration) -> u64 {
        let deadline = Instant::now() + patience;
        loop {
            let reached = self.node_height();
            if reached >= height || Instant::now() >= deadline {
                return reached;
            }
            tokio::time::sleep(NODE_LOOK).await;
        }
    }

    /// A read of the indexer.
    pub async fn indexer_get(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<Value, ErrorEnvelope> {
        self.indexer().get(operation, path, query, at_block_height).await.map_err(|error| upstream_error(&error))
    }

    /// A read of the indexer that is asked with a body.
    pub async fn indexer_post(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        at_block_height: Option<u64>,
    ) -> Result<Value, ErrorEnvelope> {
        self.indexer().post(operation, path, body, at_block_height).await.map_err(|error| upstream_error(&error))
    }

    /// A traversal of the graph.
    pub async fn traverse(&self, query: &str, input: &Value, page: &Value) -> Result<Value, ErrorEnvelope> {
        let graph = self.graph().ok_or_else(no_graph)?;
        graph.client.traverse(query, input, page).await.map_err(|error| upstream_error(&error))
    }

    /// A search of the graph.
    pub async fn search(&self, request: &Value) -> Result<Value, ErrorEnvelope> {
        let graph = self.graph().ok_or_else(no_graph)?;
        graph.client.search(request).await.map_err(|error| upstream_error(&error))
    }

    /// A transaction by hash, with the newest height of the node.
    pub async fn tx(&self, hash: &str) -> Result<(Option<Tx>, u64), ErrorEnvelope> {
        // Height first: absence at that height is what an answer of `None` proves.
        let status = self.node().status().await.map_err(|error| node_error(&error))?;
        let found = self.node().tx(hash).await.map_err(|error| node_error(&error))?;
        Ok((found, status.sync_info.latest_block_height))
    }

    /// An RPC method of the node, its `result` as it is.
    pub async fn node_rpc(&self, method: &'static str, params: Value) -> Result<Value, ErrorEnvelope> {
        let ask = |node: NodeClient| {
            let params = params.clone();
            async move { node.raw(method, params).await }
        };
        self.node().read(self.node_height(), ask).await.map_err(|error| node_error(&error))
    }

    /// A gRPC query of the chain, `/package.Query/Method`, as JSON in and out. Height 0 is the newest state.
    pub async fn chain_query(&self, path: &str, request: &Value, height: u64) -> Result<Value, ErrorEnvelope> {
        let registry = &self.chain().registry;
        let rpc = registry.rpcs().find(|(name, ..)| name == path).ok_or_else(|| {
            let hint = "the node runs a chain without this module";
            ErrorEnvelope::new(Code::UpstreamProtocolError, format!("the chain has no query {path}"), hint)
        })?;
        let bytes =
            registry.encode(rpc.1.full_name(), request).map_err(|error| invalid_arguments(&error.to_string()))?;
        let bytes = bytes.as_slice();
        let ask = |node: NodeClient| async move { node.query_bytes(path, bytes, height).await };
        let answer = self.node().read(self.node_height(), ask).await.map_err(|error| node_error(&error))?;
        registry.decode(rpc.2.full_name(), &answer).map_err(|error| {
            let hint = "the node answers something else than its own descriptors say";
            ErrorEnvelope::new(Code::UpstreamProtocolError, error.to_string(), hint)
        })
    }

    /// A request to one of the corporation's agents. Nothing else is contacted.
    pub async fn agent_call(&self, did: &str, request: AgentRequest) -> Result<Value, ErrorEnvelope> {
        let snapshot = self.snapshot();
        if !snapshot.agents.iter().any(|agent| agent.did == did) {
            let known: Vec<&str> = snapshot.agents.iter().map(|agent| agent.did.as_str()).take(20).collect();
            let message = format!(
                "{did} is no agent of corporation {}: none of its participants has this DID and an authorized VS operator",
                self.corporation_id()
            );
            let hint = "svc.wallet.listVSAgents shows the agents; nothing was contacted";
            return Err(ErrorEnvelope::new(Code::VsaNotAuthorized, message, hint)
                .with_details(json!({"agent_did": did, "known": known})));
        }
        let Some(session) = self.directory().session(did) else {
            let hint = "try again in a moment";
            return Err(ErrorEnvelope::new(Code::Restarting, format!("the session of {did} is starting"), hint));
        };
        let is_read = request.method == Method::GET;
        match session.call(request, AGENT_PATIENCE).await {
            Ok(outcome) => outcome.map_err(|error| agent_error(did, &error, is_read)),
            Err(error) => {
                let envelope = ask_error(&error);
                Err(if is_read { envelope } else { unknown_effect(envelope) })
            }
        }
    }
}

/// Where a reader is once it has reached `height` or the patience is over. A barrier that dies is asked again.
async fn barrier_reached(barrier: &BarrierHandle, cursor: &Retained<Cursor>, height: u64, patience: Duration) -> u64 {
    let deadline = Instant::now() + patience;
    let until_up = || barrier.0.until_up(RESTART_PATIENCE);
    let reached = persistently(deadline, until_up, |left| barrier.read_may_begin(height, left)).await;
    reached.unwrap_or_else(|_| cursor.with(|cursor| cursor.height))
}

fn no_graph() -> ErrorEnvelope {
    ErrorEnvelope::new(Code::ToolUnknown, "this server has no graph", "set SVC_GRAPH and start it again")
}
