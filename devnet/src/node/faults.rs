//! What is ordered to go wrong. Counts run down; switches stay until they are turned back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A refusal with the chain's identity of errors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// How many are refused.
    pub times: u32,
    /// Codespace.
    #[serde(default = "sdk")]
    pub codespace: String,
    /// Code.
    pub code: u32,
    /// Text.
    #[serde(default)]
    pub log: String,
}

fn sdk() -> String {
    "sdk".to_owned()
}

/// What an answer over HTTP POST becomes. Its request was executed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbleKind {
    /// JSON that ends in the middle.
    Malformed,
    /// A valid answer to another request.
    WrongId,
    /// The error page of a proxy, with status 502.
    Html,
    /// Nothing, with status 200.
    Empty,
    /// The connection ends in the middle of the body.
    Cut,
}

/// Answers that cannot be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Garble {
    /// How many are garbled.
    pub times: u32,
    /// Method whose answers are meant; empty for every method.
    #[serde(default)]
    pub method: String,
    /// What they become.
    pub how: GarbleKind,
}

/// Faults of a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Transactions that pass CheckTx and then vanish.
    pub drop_after_check: u32,
    /// Blocks that stay empty while transactions wait.
    pub hold_blocks: u32,
    /// All blocks stay empty while transactions wait.
    pub hold_inclusion: bool,
    /// Blocks that take their transactions in reverse order.
    pub reorder_blocks: u32,
    /// Transactions that CheckTx refuses, whatever they are.
    pub refuse: Option<Refusal>,
    /// The mempool takes nothing more.
    pub mempool_full: bool,
    /// Simulations that fail, with this text.
    pub fail_simulations: Option<(u32, String)>,
    /// Simulations tell this percentage of the gas that was used; 0 tells the truth.
    pub understate_gas_percent: u64,
    /// Transactions that would stay in the mempool after a block, and vanish.
    pub drop_on_recheck: u32,
    /// Transactions accepted here are not offered to other nodes.
    pub no_gossip: bool,
    /// Blocks a replica stays behind the node it follows; who makes the blocks is never behind.
    pub lag_blocks: u64,
    /// Blocks that WebSocket subscribers are not told about.
    pub lose_events: u32,
    /// WebSocket subscribers are told nothing, and get everything at once when this ends.
    pub stall_websockets: bool,
    /// Answers wait this long, in milliseconds.
    pub delay_ms: u64,
    /// Method whose answers wait; empty for every method.
    pub delay_method: String,
    /// Answers that are garbled.
    pub garble: Option<Garble>,
}

/// Takes one of a count.
pub fn take(count: &mut u32) -> bool {
    let is_left = *count > 0;
    *count -= u32::from(is_left);
    is_left
}

fn means(ordered: &str, method: &str) -> bool {
    ordered.is_empty() || ordered == method
}

impl Faults {
    /// Whether the next block stays empty.
    pub fn holds(&mut self) -> bool {
        self.hold_inclusion || take(&mut self.hold_blocks)
    }

    /// The refusal ordered for the next CheckTx.
    pub fn refusal(&mut self) -> Option<Refusal> {
        let refusal = self.refuse.as_mut()?;
        take(&mut refusal.times).then(|| refusal.clone())
    }

    /// Milliseconds the answer to this method waits.
    pub fn delay(&self, method: &str) -> u64 {
        if means(&self.delay_method, method) { self.delay_ms } else { 0 }
    }

    /// What the answer to this request, or batch of them, becomes.
    pub fn garbling(&mut self, request: &Value) -> Option<GarbleKind> {
        let garble = self.garble.as_mut()?;
        let is_meant = |one: &Value| means(&garble.method, one["method"].as_str().unwrap_or_default());
        let is_any = request.as_array().map_or_else(|| is_meant(request), |batch| batch.iter().any(is_meant));
        (is_any && take(&mut garble.times)).then_some(garble.how)
    }

    /// Gas a simulation tells of what was used.
    pub fn told_gas(&self, used: u64) -> u64 {
        if self.understate_gas_percent == 0 { used } else { used.saturating_mul(self.understate_gas_percent) / 100 }
    }
}
