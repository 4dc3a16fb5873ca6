//! Client of the CometBFT RPC of a chain's nodes, over HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use svc_wire::{
    absence::is_absence,
    chain_error::ChainError,
    comet_rpc::{
        self, AbciQueryResult, BlockResults, BroadcastTxResult, CommittedBlock, IncludedTx, NodeStatus, RpcError,
        RpcResponse,
    },
    tx::tx_hash,
};

use super::{
    endpoints::{EndpointReach, FailoverError, UpstreamEndpoints, UpstreamOrigins},
    mempool_errors::{is_in_mempool_cache, mempool_refusal},
    node_dispute::{HistoryDispute, OpenDispute},
    upstream_error::{UpstreamError, UpstreamKind},
};

/// The error of a request to a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeClientError {
    /// The HTTP exchange failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The node answered with a JSON-RPC error.
    #[error("the node refused {method}: {error}")]
    Rpc {
        /// RPC method.
        method: &'static str,
        /// Error of the node.
        error: RpcError,
    },
    /// Two nodes have different blocks at one height. Nothing is sent to either of them.
    #[error(transparent)]
    Disputed(#[from] Box<HistoryDispute>),
    /// The application refused a query.
    #[error("query {path} failed with {}/{}: {}", error.codespace, error.code, error.sentence())]
    Query {
        /// gRPC path.
        path: String,
        /// Error of the application.
        error: ChainError,
    },
}

/// Result of CheckTx for a broadcast transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BroadcastOutcome {
    /// The transaction is in the mempool.
    Accepted,
    /// The node refused the transaction. Whether it has passed it on all the same cannot be seen.
    Refused(ChainError),
}

impl NodeClientError {
    /// Whether no byte of the request left this process.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Upstream(error) => error.is_unsent(),
            Self::Disputed(_) => true,
            Self::Rpc { .. } | Self::Query { .. } => false,
        }
    }

    /// The error for an answer that cannot be read.
    pub fn unreadable(reason: String) -> Self {
        Self::Upstream(UpstreamError::Protocol { kind: UpstreamKind::Rpc, reason, body: String::new() })
    }

    /// Whether the node states that the thing of the query does not exist.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Query { path, error } if is_absence(path, error))
    }
}

impl FailoverError for NodeClientError {
    fn allows_failover(&self) -> bool {
        matches!(self, Self::Upstream(error) if error.allows_failover())
    }
}

/// The queries whose answers a node describes otherwise than this program reads them, by their paths, with the reason.
type MisreadAnswers = BTreeMap<String, String>;

/// Client of a chain's nodes, one of which is current.
#[derive(Clone)]
pub struct NodeClient {
    endpoints: UpstreamEndpoints,
    /// The same nodes, with connections of their own.
    write_endpoints: UpstreamEndpoints,
    /// Chain id of all nodes, once it is known.
    chain_id: Arc<OnceLock<String>>,
    /// The queries of each node whose answers would be misread, with the reason.
    misread: Arc<Mutex<HashMap<String, MisreadAnswers>>>,
    pub(super) dispute: Arc<Mutex<Option<OpenDispute>>>,
}

impl NodeClient {
    /// Makes a client of the nodes at `origins`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(origins: impl Into<UpstreamOrigins>) -> Result<Self, UpstreamError> {
        let endpoints = UpstreamEndpoints::new(UpstreamKind::Rpc, &origins.into())?;
        let write_endpoints = endpoints.with_own_connections()?;
        let misread = Arc::default();
        Ok(Self { endpoints, write_endpoints, chain_id: Arc::default(), misread, dispute: Arc::default() })
    }

    /// Returns a client for writes: it has connections, permits and circuit breakers of its own, so that no number of reads delays or
    /// stops a write.
    #[must_use]
    pub fn for_writes(&self) -> Self {
        self.with_endpoints(self.write_endpoints.clone())
    }

    /// Returns the endpoints of the nodes.
    pub fn endpoints(&self) -> &UpstreamEndpoints {
        &self.endpoints
    }

    /// Returns the origin of the current node.
    pub fn origin(&self) -> &str {
        self.endpoints.current().origin()
    }

    /// Returns a client with the current node fixed.
    #[must_use]
    pub fn pinned(&self) -> Self {
        self.with_endpoints(self.endpoints.pinned())
    }

    /// Returns clients of the nodes that are not current, each of them fixed.
    pub fn alternatives(&self) -> Vec<Self> {
        self.endpoints.alternatives().into_iter().map(|endpoints| self.with_endpoints(endpoints)).collect()
    }

    /// Returns clients of all nodes, each of them fixed.
    pub fn each(&self) -> Vec<Self> {
        self.endpoints.all().into_iter().map(|endpoints| self.with_endpoints(endpoints)).collect()
    }

    /// Sets the chain id: a node of another chain counts as a node without an answer.
    pub fn bind_to_chain(&self, chain_id: &str) {
        let _ = self.chain_id.set(chain_id.to_owned());
    }

    /// Takes the queries whose answers the current node describes otherwise than this program reads them. They fail from now on, instead of
    /// being misread; their bytes can still be had.
    pub(super) fn set_misread(&self, misread: MisreadAnswers) {
        let mut all = self.misread.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(self.origin().to_owned(), misread);
    }

    fn why_misread(&self, path: &str) -> Option<String> {
        let all = self.misread.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(self.origin())?.get(path).cloned()
    }

    pub(super) fn with_endpoints(&self, endpoints: UpstreamEndpoints) -> Self {
        Self { endpoints, ..self.clone() }
    }

    pub(super) async fn query_reach(self) -> Option<EndpointReach> {
        let status = self.status().await.ok()?.sync_info;
        Some(EndpointReach { height: status.latest_block_height, is_ready: !status.catching_up })
    }

    /// Asks the current node, and after a connection error the others that have reached `at_least`. For reads only.
    ///
    /// # Errors
    /// The error of the current node, when no other node answers.
    pub async fn read_with_failover<T, A, F>(&self, at_least: u64, ask: A) -> Result<T, NodeClientError>
    where
        A: Fn(Self) -> F,
        F: Future<Output = Result<T, NodeClientError>>,
    {
        let reach = |endpoints| self.with_endpoints(endpoints).query_reach();
        self.endpoints.read_with_failover(at_least, |endpoints| ask(self.with_endpoints(endpoints)), reach).await
    }

    /// Makes the error for a request that was not sent.
    pub fn unsent_error(&self, reason: &str) -> NodeClientError {
        let (kind, origin) = (UpstreamKind::Rpc, self.origin().to_owned());
        NodeClientError::Upstream(UpstreamError::Unreachable { kind, origin, reason: reason.to_owned() })
    }

    async fn call<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, NodeClientError> {
        self.call_as(method, method, params).await
    }

    async fn call_as<T: DeserializeOwned>(
        &self,
        method: &'static str,
        operation: &str,
        params: Value,
    ) -> Result<T, NodeClientError> {
        let request = comet_rpc::build_request(1, method, params);
        // The current node may be replaced during the request.
        let upstream = self.endpoints.current();
        let body = match upstream.post(operation, "/", &request).await {
            Ok(answer) => answer.body.to_vec(),
            // CometBFT answers JSON-RPC errors with status 500 and the error as its body.
            Err(UpstreamError::Http { status: 500, body, .. }) if body.trim_start().starts_with('{') => {
                body.into_bytes()
            }
            Err(error) => return Err(error.into()),
        };
        let response: RpcResponse = serde_json::from_slice(&body)
            .map_err(|error| upstream.protocol_error(format!("{method}: {error}"), &body))?;
        if let Some(error) = response.error {
            return Err(NodeClientError::Rpc { method, error });
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

    /// Calls any method and returns its `result`.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`.
    pub async fn call_raw(&self, method: &'static str, params: Value) -> Result<Value, NodeClientError> {
        self.call(method, params).await
    }

    /// Calls `status`.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`; `Protocol` for a node of another chain.
    pub async fn status(&self) -> Result<NodeStatus, NodeClientError> {
        let status: NodeStatus = self.call("status", json!({})).await?;
        self.require_chain(&status.node_info.network)?;
        Ok(status)
    }

    fn require_chain(&self, found: &str) -> Result<(), NodeClientError> {
        match self.chain_id.get() {
            Some(own) if own != found => {
                let reason = format!("it runs {found:?}, not {own:?}");
                Err(self.endpoints.current().protocol_error(reason, &[]).into())
            }
            _ => Ok(()),
        }
    }

    /// Calls `broadcast_tx_sync`.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`; the node may have the transaction all the same. `Disputed`: nothing was sent.
    pub async fn broadcast(&self, bytes: &[u8]) -> Result<BroadcastOutcome, NodeClientError> {
        if let Some(dispute) = self.dispute() {
            return Err(Box::new(dispute).into());
        }
        let outcome = self.call::<BroadcastTxResult>("broadcast_tx_sync", json!({"tx": STANDARD.encode(bytes)})).await;
        let answer = match outcome {
            Ok(answer) => answer,
            // The node reports a transaction in its mempool cache and a full mempool as JSON-RPC errors with a sentence.
            Err(NodeClientError::Rpc { error, .. }) if is_in_mempool_cache(&error) => {
                return Ok(BroadcastOutcome::Accepted);
            }
            Err(error) => {
                return match mempool_refusal(&error) {
                    Some(refusal) => Ok(BroadcastOutcome::Refused(refusal)),
                    None => Err(error),
                };
            }
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

    /// Calls `tx`; `None` when the transaction index does not have the hash, or is off. An index may lack blocks for good, so that
    /// `None` proves nothing.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`; `Protocol` for another transaction.
    pub async fn tx(&self, hash: &str) -> Result<Option<IncludedTx>, NodeClientError> {
        let Ok(bytes) = hex::decode(hash) else {
            return Ok(None);
        };
        match self.call::<IncludedTx>("tx", json!({"hash": STANDARD.encode(bytes), "prove": false})).await {
            Ok(tx) if tx_hash(&tx.tx) != hash.to_uppercase() => {
                let reason = format!("tx: the answer is transaction {}, expected {hash}", tx_hash(&tx.tx));
                Err(self.endpoints.current().protocol_error(reason, &[]).into())
            }
            Ok(tx) => Ok(Some(tx)),
            Err(NodeClientError::Rpc { error, .. }) if is_not_indexed(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Calls `block`.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`; `Protocol` for a block of another height.
    pub async fn block(&self, height: u64) -> Result<CommittedBlock, NodeClientError> {
        let block: CommittedBlock = self.call("block", json!({"height": height.to_string()})).await?;
        self.require_height("block", height, block.block.header.height)?;
        self.require_chain(&block.block.header.chain_id)?;
        Ok(block)
    }

    /// Calls `block_results`.
    ///
    /// # Errors
    /// Every [`NodeClientError`] except `Query`; `Protocol` for the results of another height.
    pub async fn block_results(&self, height: u64) -> Result<BlockResults, NodeClientError> {
        let results: BlockResults = self.call("block_results", json!({"height": height.to_string()})).await?;
        self.require_height("block_results", height, results.height)?;
        Ok(results)
    }

    fn require_height(&self, method: &str, expected: u64, found: u64) -> Result<(), NodeClientError> {
        if found == expected {
            return Ok(());
        }
        let reason = format!("{method}: the answer is of height {found}, expected {expected}");
        Err(self.endpoints.current().protocol_error(reason, &[]).into())
    }

    /// Sends a gRPC query as bytes through `abci_query`. `height` 0 is the newest state.
    ///
    /// # Errors
    /// Every [`NodeClientError`].
    pub async fn query_bytes(&self, path: &str, request: &[u8], height: u64) -> Result<Vec<u8>, NodeClientError> {
        Ok(self.abci_query(path, request, height).await?.0)
    }

    /// The reply message, and the height of the state that it was read from.
    async fn abci_query(&self, path: &str, request: &[u8], height: u64) -> Result<(Vec<u8>, u64), NodeClientError> {
        let params =
            json!({"path": path, "data": hex::encode_upper(request), "height": height.to_string(), "prove": false});
        let AbciQueryResult { response } = self.call_as("abci_query", path, params).await?;
        let height = response.height;
        match response.into_result() {
            Ok(value) => Ok((value, height)),
            Err(error) => Err(NodeClientError::Query { path: path.to_owned(), error }),
        }
    }

    /// Sends a gRPC query through `abci_query`. `height` 0 is the newest state.
    ///
    /// # Errors
    /// Every [`NodeClientError`].
    pub async fn query<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        height: u64,
    ) -> Result<R, NodeClientError> {
        Ok(self.query_with_height(path, request, height).await?.0)
    }

    /// Sends a gRPC query through `abci_query`. `height` 0 is the newest state. The answer has the height of the state.
    ///
    /// # Errors
    /// Every [`NodeClientError`].
    pub async fn query_with_height<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        request: &Q,
        height: u64,
    ) -> Result<(R, u64), NodeClientError> {
        if let Some(reason) = self.why_misread(path) {
            return Err(NodeClientError::unreadable(format!("the answer of {path} cannot be read: {reason}")));
        }
        let (bytes, height) = self.abci_query(path, &request.encode_to_vec(), height).await?;
        let reply = R::decode(bytes.as_slice())
            .map_err(|error| self.endpoints.current().protocol_error(format!("{path}: {error}"), &[]))?;
        Ok((reply, height))
    }
}

/// `tx (HASH) not found, err: …` and `transaction indexing is disabled` — CometBFT RPC, `tx`. Any other error says nothing of the transaction.
fn is_not_indexed(error: &RpcError) -> bool {
    let is_absent = error.data.starts_with("tx (") && error.data.contains(") not found");
    is_absent || error.data.starts_with("transaction indexing is disabled")
}
