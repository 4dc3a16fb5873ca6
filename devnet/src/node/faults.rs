//! What is ordered to go wrong. Counts run down; switches stay until they are turned back.

use serde::{Deserialize, Serialize};

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
    /// Blocks that WebSocket subscribers are not told about.
    pub lose_events: u32,
    /// WebSocket subscribers are told nothing, and get everything at once when this ends.
    pub stall_websockets: bool,
    /// Every answer waits this long, in milliseconds.
    pub delay_ms: u64,
}

/// Takes one of a count.
pub fn take(count: &mut u32) -> bool {
    let is_left = *count > 0;
    *count -= u32::from(is_left);
    is_left
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
}
