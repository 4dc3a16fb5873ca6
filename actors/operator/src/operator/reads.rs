//! Reads of the operator's upstreams: indexer, graph and chain. A read passes no actor, except the barrier when it waits for a height.

use std::sync::Arc;

use std::time::Duration;

use serde_json::{Value, json};
use svc_net::upstream::{JsonDocument, KeptPart, NodeClient, NodeClientError};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode, NextStep};
use tokio::time::Instant;

use super::Operator;
use crate::{
    barrier::BarrierHandle,
    error::{indexer_error, invalid_arguments, node_error, pruned_error, upstream_error},
    refresher::RefreshTrigger,
};

/// A reader of the chain whose height a read can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeightSource {
    /// The indexer.
    Indexer,
    /// The graph.
    Graph,
    /// The node itself.
    Node,
}

/// Time between two reads of a snapshot that is not yet at the height of a write.
const SNAPSHOT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at the node's height, which its WebSocket reports.
const NODE_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Operator {
    /// Longest wait of a write, and of a read, for the indexer.
    pub fn indexer_timeout(&self) -> Duration {
        self.context().indexer_timeout
    }

    /// Waits for a snapshot of the corporation at `height` or later; whether it is there.
    pub async fn await_snapshot(&self, height: u64, wait_limit: Duration) -> bool {
        let is_reached = || self.snapshot().as_of_height >= height;
        if is_reached() {
            return true;
        }
        let deadline = Instant::now() + wait_limit;
        if !self.indexer().guard().has_none_left() {
            await_barrier_height(&self.context().barrier, height, deadline).await;
        }
        loop {
            let time_left = deadline.saturating_duration_since(Instant::now());
            if is_reached() || time_left.is_zero() {
                return is_reached();
            }
            let _ = self.context().refresher.refresh(RefreshTrigger::WriteMismatch, time_left).await;
            if !is_reached() {
                // The read failed, or went to an indexer that is behind.
                tokio::time::sleep(SNAPSHOT_RETRY_INTERVAL.min(time_left)).await;
            }
        }
    }

    /// Waits until a reader has reached `height`, at most for `wait_limit`.
    pub async fn await_height(
        &self,
        reader: HeightSource,
        height: u64,
        wait_limit: Duration,
    ) -> Result<(), ErrorEnvelope> {
        if reader == HeightSource::Indexer && self.indexer().guard().has_none_left() {
            // The read says so.
            return Ok(());
        }
        let deadline = Instant::now() + wait_limit;
        let (name, reached) = match reader {
            HeightSource::Indexer => ("indexer", await_barrier_height(&self.context().barrier, height, deadline).await),
            HeightSource::Graph => match self.graph() {
                Some(graph) => ("graph", await_barrier_height(&graph.barrier, height, deadline).await),
                None => ("graph", 0),
            },
            HeightSource::Node => ("node", self.await_node_height(height, deadline).await),
        };
        if reached >= height {
            return Ok(());
        }
        let message = format!("the {name} is at block {reached}, {height} was asked for, after {wait_limit:?}");
        let hint = "try again in a moment, or omit min_height to read the present state";
        Err(ErrorEnvelope::new(FailureCode::IndexerBehind, message, hint)
            .with_details(json!({"reader": name, "height": reached, "min_height": height})))
    }

    async fn await_node_height(&self, height: u64, deadline: Instant) -> u64 {
        loop {
            let reached = self.pipeline().clock().height;
            if reached >= height || Instant::now() >= deadline {
                return reached;
            }
            tokio::time::sleep(NODE_POLL_INTERVAL).await;
        }
    }

    /// The reason for which it is not known whether the indexer in use follows the chain of the node.
    pub fn doubt_about_indexer(&self) -> Option<String> {
        self.indexer().guard().doubt_about_current()
    }

    /// A read of the indexer.
    pub async fn indexer_get(
        &self,
        operation: &str,
        path: &str,
        query: &[(String, String)],
        at_block_height: Option<u64>,
    ) -> Result<JsonDocument, ErrorEnvelope> {
        self.indexer()
            .get_document(operation, path, query, at_block_height)
            .await
            .map_err(|error| indexer_error(&error, at_block_height))
    }

    /// A read of the indexer with a JSON body.
    pub async fn indexer_post(
        &self,
        operation: &str,
        path: &str,
        body: &Value,
        at_block_height: Option<u64>,
    ) -> Result<JsonDocument, ErrorEnvelope> {
        self.indexer()
            .post_document(operation, path, body, at_block_height)
            .await
            .map_err(|error| indexer_error(&error, at_block_height))
    }

    /// A traversal of the graph.
    pub async fn traverse(&self, query: &str, input: &Value, page: &Value) -> Result<Value, ErrorEnvelope> {
        let graph = self.graph().ok_or_else(graph_missing)?;
        graph.client.traverse(query, input, page).await.map_err(|error| upstream_error(&error))
    }

    /// A search of the graph.
    pub async fn search(&self, request: &Value) -> Result<Value, ErrorEnvelope> {
        let graph = self.graph().ok_or_else(graph_missing)?;
        graph.client.search(request).await.map_err(|error| upstream_error(&error))
    }

    /// An RPC method of the node; yields its `result`.
    pub async fn node_rpc(&self, method: &'static str, params: Value) -> Result<Value, ErrorEnvelope> {
        let ask = |node: NodeClient| {
            let params = params.clone();
            async move { node.call_raw(method, params).await }
        };
        self.ask_nodes(KeptPart::Block, ask).await
    }

    /// Asks the node in use, and the others where it does not answer or has pruned the data.
    async fn ask_nodes<T, A, F>(&self, part: KeptPart, ask: A) -> Result<T, ErrorEnvelope>
    where
        A: Fn(NodeClient) -> F,
        F: Future<Output = Result<T, NodeClientError>>,
    {
        let nodes = self.node();
        let known_height = self.pipeline().clock().height;
        let answer = match nodes.read_with_failover(known_height, &ask).await {
            Err(error) if error.is_pruned() => nodes.read_at_others(error, known_height, &ask).await,
            answer => answer,
        };
        match answer {
            Err(error) if error.is_pruned() => Err(pruned_error(&error, nodes.oldest_height(part).await.ok())),
            answer => answer.map_err(|error| node_error(&error)),
        }
    }

    /// A gRPC query of the chain, `/package.Query/Method`, with request and answer as JSON. Height 0 is the newest state.
    pub async fn chain_query(&self, path: &str, request: &Value, height: u64) -> Result<Value, ErrorEnvelope> {
        // The answer is one of the node's release.
        let registry = self.pipeline().served_messages().unwrap_or_else(|| Arc::clone(&self.chain().served));
        let rpc = registry.rpc_methods().find(|rpc| rpc.path == path).ok_or_else(|| {
            let hint = "the node runs a chain without this module";
            ErrorEnvelope::new(FailureCode::UpstreamProtocolError, format!("the chain has no query {path}"), hint)
        })?;
        let bytes =
            registry.encode(rpc.request.full_name(), request).map_err(|error| invalid_arguments(&error.to_string()))?;
        let bytes = bytes.as_slice();
        let ask = |node: NodeClient| async move { node.query_bytes(path, bytes, height).await };
        let answer = self.ask_nodes(KeptPart::State, ask).await?;
        registry.decode(rpc.response.full_name(), &answer).map_err(|error| {
            let hint = "the answer of the node contradicts its own descriptors";
            ErrorEnvelope::new(FailureCode::UpstreamProtocolError, error.to_string(), hint)
        })
    }
}

/// Height of a reader once it has reached `height` or the deadline has passed.
async fn await_barrier_height(barrier: &BarrierHandle, height: u64, deadline: Instant) -> u64 {
    barrier.await_read_height(height, deadline).await.unwrap_or_else(|_| barrier.height())
}

fn graph_missing() -> ErrorEnvelope {
    ErrorEnvelope::new(
        FailureCode::ToolUnknown,
        "this server has no graph",
        "configure a graph and start the server again",
    )
    .with_next_step(NextStep::ConfigureGraph)
}
