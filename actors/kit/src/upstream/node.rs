//! A node's CometBFT RPC over HTTP.

use std::sync::{Arc, OnceLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use svc_wire::{
    chain_error::ChainError,
    comet::{self, AbciQuery, Block, BlockResults, BroadcastSync, Response, RpcError, Status, Tx},
};

use super::{
    endpoints::{Endpoints, NoAnswer, Origins, Reach},
    http_client::{Kind, UpstreamError},
};

/// A request to a node failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The HTTP exchange failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The node answered with a JSON-RPC error.
    #[error("the node refused {method}: {error}")]
    Rpc {
        /// RPC method.
        method: &'static str,
        /// Its error.
        error: RpcError,
    },
    /// A query was refused by the application.
    #[error("query {path} failed with {}/{}: {}", error.codespace, error.code, error.raw_log)]
    Query {
        /// gRPC path.
        path: String,
        /// The refusal.
        error: ChainError,
    },
}

/// What CheckTx said of a broadcast transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BroadcastOutcome {
    /// In the mempool.
    Accepted,
    /// Refused; it will not execute.
    Refused(ChainError),
}

impl NoAnswer for NodeError {
    fn is_no_answer(&self) -> bool {
        matches!(self, Self::Upstream(error) if error.is_no_answer())
    }
}

/// Client of a chain's nodes, one of which is in use.
#[derive(Clone)]
pub struct NodeClient {
    endpoints: Endpoints,
    /// The chain all of them must be nodes of, once it is known.
    chain_id: Arc<OnceLock<String>>,
}

impl NodeClient {
    /// A client for the nodes at `origins`.
    pub fn new(origins: impl Into<Origins>) -> Result<Self, UpstreamError> {
        Ok(Self { endpoints: Endpoints::new(Kind::Rpc, &origins.into())?, chain_id: Arc::default() })
    }

    /// The nodes, and which of them is in use.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Where the node in use is.
    pub fn origin(&self) -> &str {
        self.endpoints.current().origin()
    }

    /// A client of the node that is in use now, whatever comes.
    #[must_use]
    pub fn pinned(&self) -> Self {
        self.with(self.endpoints.pinned())
    }

    /// Clients of the nodes that are not in use.
    pub fn others(&self) -> Vec<Self> {
        self.endpoints.others().into_iter().map(|endpoints| self.with(endpoints)).collect()
    }

    /// Takes another node into use when this one does not answer or is behind.
    pub async fn choose(&self) {
        self.endpoints.choose(0, |endpoints| self.with(endpoints).reach()).await;
    }

    /// From now on a node of another chain counts as one that does not answer.
    pub fn bind_to_chain(&self, chain_id: &str) {
        let _ = self.chain_id.set(chain_id.to_owned());
    }

    fn with(&self, endpoints: Endpoints) -> Self {
        Self { endpoints, chain_id: Arc::clone(&self.chain_id) }
    }

    async fn reach(self) -> Option<Reach> {
        let status = self.status().await.ok()?.sync_info;
        Some(Reach { height: status.latest_block_height, is_ready: !status.catching_up })
    }

    /// Asks the node in use; when it does not answer, another one that has reached `at_least`. For reads only.
    pub async fn read<T, A, F>(&self, at_least: u64, ask: A) -> Result<T, NodeError>
    where
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, NodeError>>,
    {
        let reach = |endpoints| self.with(endpoints).reach();
        self.endpoints.read(at_least, |endpoints| ask(self.with(endpoints)), reach).await
    }

    /// The failure of a request that was never sent.
    pub fn unsent(&self, reason: &str) -> NodeError {
        let (kind, origin) = (Kind::Rpc, self.origin().to_owned());
        NodeError::Upstream(UpstreamError::Unreachable { kind, origin, reason: reason.to_owned() })
    }

    async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, NodeError> {
        self.call_as(method, method, params).await
    }

    async fn call_as<T: DeserializeOwned>(
        &self,
        method: &'static str,
        operation: &str,
        params: Value,
    ) -> Result<T, NodeError> {
        let request = comet::request(1, method, params);
        // One and the same node, also when another is taken into use meanwhile.
        let upstream = self.endpoints.current();
        let body = match upstream.post(operation, "/", &request).await {
            Ok(answer) => answer.body.to_vec(),
            // CometBFT answers JSON-RPC errors with status 500 and the error as its body.
            Err(UpstreamError::Http { status: 500, body, .. }) if body.trim_start().starts_with('{') => {
                body.into_bytes()
            }
            Err(error) => return Err(error.into()),
        };
        let response: Response = serde_json::from_slice(&body)
            .map_err(|error| upstream.protocol_error(format!("{method}: {error}"), &body))?;
        if let Some(error) = response.error {
            return Err(NodeError::Rpc { method, error });
        }
        if response.id != request["id"] {
            let reason = format!("{method}: the answer has id {}, expected {}", response.id, request["id"]);
            return Err(upstream.protocol_error(reason, &body).into());
        }
        let result = response
            .result
            .ok_or_else(|| upstream.protocol_error(format!("{method}: neither result nor error"), &body))?;
        Ok(serde_json::from_value(result)
            .map_err(|error| upstream.protocol_error(format!("{method}: {error}"), &body))?)
    }

    /// Any method, its `result` as it is.
    pub async fn raw(&self, method: &'static str, params: Value) -> Result<Value, NodeError> {
        self.call(method, params).await
    }

    /// `status`
    pub async fn status(&self) -> Result<Status, NodeError> {
        let status: Status = self.call("status", json!({})).await?;
        match self.chain_id.get() {
            Some(own) if *own != status.node_info.network => {
                let reason = format!("it runs {:?}, not {own:?}", status.node_info.network);
                Err(self.endpoints.current().protocol_error(reason, &[]).into())
            }
            _ => Ok(status),
        }
    }

    /// `broadcast_tx_sync`
    pub async fn broadcast(&self, bytes: &[u8]) -> Result<BroadcastOutcome, NodeError> {
        let outcome = self.call::<BroadcastSync>("broadcast_tx_sync", json!({"tx": STANDARD.encode(bytes)})).await;
        let answer = match outcome {
            Ok(answer) => answer,
            // A transaction whose bytes the mempool remembers, and a full mempool, come as JSON-RPC errors with a sentence.
            Err(NodeError::Rpc { error, .. }) if is_in_mempool_cache(&error) => {
                return Ok(BroadcastOutcome::Accepted);
            }
            Err(NodeError::Rpc { error, .. }) if is_mempool_full(&error) => {
                let error = ChainError { codespace: "sdk".to_owned(), code: 20, raw_log: error.data };
                return Ok(BroadcastOutcome::Refused(error));
            }
            Err(error) => return Err(error),
        };
        Ok(match (answer.codespace.as_str(), answer.code) {
            (_, 0) | ("sdk", 19) => BroadcastOutcome::Accepted,
            _ => BroadcastOutcome::Refused(ChainError {
                codespace: answer.codespace,
                code: answer.code,
                raw_log: answer.log,
            }),
        })
    }

    /// `tx`; `None` when the node does not know the hash.
    pub async fn tx(&self, hash: &str) -> Result<Option<Tx>, NodeError> {
        let Ok(bytes) = hex::decode(hash) else {
            return Ok(None);
        };
        match self.call("tx", json!({"hash": STANDARD.encode(bytes), "prove": false})).await {
            Ok(tx) => Ok(Some(tx)),
            Err(NodeError::Rpc { error, .. }) if is_tx_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `block`
    pub async fn block(&self, height: u64) -> Result<Block, NodeError> {
        self.call("block", json!({"height": height.to_string()})).await
    }

    /// `block_results`
    pub async fn block_results(&self, height: u64) -> Result<BlockResults, NodeError> {
        self.call("block_results", json!({"height": height.to_string()})).await
    }

    /// A gRPC query through `abci_query`, as bytes. `height` 0 is the newest state.
    pub async fn query_bytes(&self, path: &str, request: &[u8], height: u64) -> Result<Vec<u8>, NodeError> {
        let params =
            json!({"path": path, "data": hex::encode_upper(request), "height": height.to_string(), "prove": false});
        let answer: AbciQuery = self.call_as("abci_query", path, params).await?;
        answer.response.into_result().map_err(|error| NodeError::Query { path: path.to_owned(), error })
    }

    /// A gRPC query through `abci_query`.
    pub async fn query<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        height: u64,
    ) -> Result<R, NodeError> {
        let bytes = self.query_bytes(path, &request.encode_to_vec(), height).await?;
        Ok(R::decode(bytes.as_slice())
            .map_err(|error| self.endpoints.current().protocol_error(format!("{path}: {error}"), &[]))?)
    }
}

/// `tx already exists in cache` — CometBFT mempool, `ErrTxInCache`.
fn is_in_mempool_cache(error: &RpcError) -> bool {
    error.data.contains("tx already exists in cache")
}

/// `mempool is full: number of txs 5000 (max: 5000), …` — CometBFT mempool, `ErrMempoolIsFull`.
fn is_mempool_full(error: &RpcError) -> bool {
    error.data.contains("mempool is full")
}

/// `tx (HASH) not found, err: …` — CometBFT RPC, `tx`.
fn is_tx_not_found(error: &RpcError) -> bool {
    error.data.contains("not found")
}
