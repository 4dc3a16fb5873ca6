//! Faults of a node, ordered by tests. Counts run down to 0; switches stay until they are changed back.

pub mod garble;
pub mod lies;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_wire::comet_rpc::RpcError;

use self::lies::NodeLies;

/// A refusal of CheckTx with codespace and code.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckTxRefusal {
    /// Number of transactions to refuse.
    pub times: u32,
    /// Codespace.
    #[serde(default = "sdk")]
    pub codespace: String,
    /// Code.
    pub code: u32,
    /// Text.
    #[serde(default)]
    pub log: String,
    /// The node passes the refused bytes on, and a block of others contains them if they are valid.
    #[serde(default)]
    pub is_relayed: bool,
}

impl CheckTxRefusal {
    /// A refusal for a code of the SDK.
    pub fn sdk(times: u32, code: u32, log: &str) -> Self {
        Self { times, codespace: sdk(), code, log: log.to_owned(), is_relayed: false }
    }

    /// The same refusal of bytes that the node passes on.
    #[must_use]
    pub fn relayed(self) -> Self {
        Self { is_relayed: true, ..self }
    }
}

fn sdk() -> String {
    "sdk".to_owned()
}

/// Kind of garbled answer over HTTP POST. The request is executed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbleKind {
    /// The first half of the JSON.
    Malformed,
    /// A valid answer with the id of another request.
    WrongId,
    /// The error page of a proxy, with status 502.
    Html,
    /// An empty body with status 200.
    Empty,
    /// The connection ends after half of the body.
    Cut,
}

/// Order to garble answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GarbleFault {
    /// Number of answers to garble.
    pub times: u32,
    /// Method of the answers; empty for every method.
    #[serde(default)]
    pub method: String,
    /// Kind of garbled answer.
    pub how: GarbleKind,
}

/// Order to fail queries.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryRefusal {
    /// End of the path, for example `feegrant.v1beta1.Query/Allowance`.
    pub path: String,
    /// Code, of the codespace sdk.
    pub code: u32,
    /// Text.
    pub log: String,
}

/// Order to answer requests with a JSON-RPC error, as a node does in which something has failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RpcFailure {
    /// Number of answers.
    pub times: u32,
    /// Methods of the requests.
    pub methods: Vec<String>,
    /// Sentence of the node, in `data`.
    pub data: String,
}

/// Faults of a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeFaults {
    /// Number of transactions that pass CheckTx and do not enter the mempool.
    pub drop_after_check: u32,
    /// Number of blocks that stay empty while the mempool has transactions.
    pub hold_blocks: u32,
    /// All blocks stay empty while the mempool has transactions.
    pub hold_inclusion: bool,
    /// Number of blocks with their transactions in reverse order.
    pub reorder_blocks: u32,
    /// Transactions that CheckTx refuses, valid or not.
    pub refuse: Option<CheckTxRefusal>,
    /// Until the next block CheckTx refuses every signature with account number 0, as a node does that has just started.
    pub has_just_started: bool,
    /// Each start of a node whose chain has blocks makes it one that has just started.
    pub starts_like_a_node: bool,
    /// The mempool is full.
    pub mempool_full: bool,
    /// Number of simulations that fail, and their error text.
    pub fail_simulations: Option<(u32, String)>,
    /// Queries of the newest state that fail. An index reads at heights.
    pub fail_queries: Option<QueryRefusal>,
    /// Percentage of the used gas that simulations report; 0 means the correct amount.
    pub understate_gas_percent: u64,
    /// Number of valid transactions that the recheck after a block drops.
    pub drop_on_recheck: u32,
    /// Transactions accepted here are not offered to other nodes.
    pub no_gossip: bool,
    /// Number of blocks that a replica stays behind its leader; without effect on the leader.
    pub lag_blocks: u64,
    /// Number of blocks without a notification of WebSocket subscribers.
    pub lose_events: u32,
    /// Holds back all notifications of WebSocket subscribers; they are sent once this is false again.
    pub stall_websockets: bool,
    /// The transaction index is off.
    pub index_off: bool,
    /// Number of blocks with transactions that the transaction index never gets, as after a kill between commit and indexing.
    pub unindexed_blocks: u32,
    /// Blocks and results below this height are pruned.
    pub pruned_below: u64,
    /// Number of newest heights whose state the node has; 0 for all. Blocks and results stay.
    pub kept_states: u64,
    /// Milliseconds between a block and its results: until then `block_results` has none, and subscribers hear nothing.
    pub late_results_ms: u64,
    /// Minimum price of gas in millionths of the fee denom; the usual one when absent.
    pub gas_price_micros: Option<u64>,
    /// Delay of answers, in milliseconds.
    pub delay_ms: u64,
    /// Method of the delayed answers; empty for every method.
    pub delay_method: String,
    /// The delay is between the execution of a request and its answer, and not before both.
    pub delay_after: bool,
    /// Requests that are answered with an internal error.
    pub fail_methods: Option<RpcFailure>,
    /// Answers to garble.
    pub garble: Option<GarbleFault>,
    /// Lies about the chain.
    pub lies: NodeLies,
}

/// Decrements a count; returns whether it was above 0.
pub fn take_one(count: &mut u32) -> bool {
    let is_left = *count > 0;
    *count -= u32::from(is_left);
    is_left
}

fn matches_method(ordered: &str, method: &str) -> bool {
    ordered.is_empty() || ordered == method
}

impl NodeFaults {
    /// Tells whether the next block stays empty, and counts it.
    pub fn take_block_hold(&mut self) -> bool {
        self.hold_inclusion || take_one(&mut self.hold_blocks)
    }

    /// Returns the refusal of the next CheckTx, and counts it.
    pub fn take_refusal(&mut self) -> Option<CheckTxRefusal> {
        let refusal = self.refuse.as_mut()?;
        take_one(&mut refusal.times).then(|| refusal.clone())
    }

    /// Returns the delays before the execution of a method and before its answer.
    pub fn method_delays(&self, method: &str) -> [Duration; 2] {
        let delay = if matches_method(&self.delay_method, method) { self.delay_ms } else { 0 };
        let delay = Duration::from_millis(delay);
        if self.delay_after { [Duration::ZERO, delay] } else { [delay, Duration::ZERO] }
    }

    /// Returns the error that a method is answered with, and counts it.
    pub fn take_rpc_error(&mut self, method: &str) -> Option<RpcError> {
        let failure = self.fail_methods.as_mut().filter(|failure| failure.methods.iter().any(|one| one == method))?;
        let error = || RpcError { code: -32603, message: "Internal error".to_owned(), data: failure.data.clone() };
        take_one(&mut failure.times).then(error)
    }

    /// Returns how the answer to a request or batch is garbled, and counts it.
    pub fn take_garble(&mut self, request: &Value) -> Option<GarbleKind> {
        let garble = self.garble.as_mut()?;
        let is_wanted = |one: &Value| matches_method(&garble.method, one["method"].as_str().unwrap_or_default());
        let is_any = request.as_array().map_or_else(|| is_wanted(request), |batch| batch.iter().any(is_wanted));
        (is_any && take_one(&mut garble.times)).then_some(garble.how)
    }

    /// Returns the gas that a simulation reports for the used gas.
    pub fn reported_gas(&self, used: u64) -> u64 {
        if self.understate_gas_percent == 0 { used } else { used.saturating_mul(self.understate_gas_percent) / 100 }
    }
}
