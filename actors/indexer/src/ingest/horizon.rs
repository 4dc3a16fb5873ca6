//! The heights that a node can no longer be indexed from: those without the block or the state after it.

/// A height that no node has any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no node has block {wanted} with its state any more, the oldest that one has is {oldest}: {}",
    if *.is_empty { "start there, or add a node to SVC_RPC that has it" } else { "add an archive node to SVC_RPC, or use a new database" }
)]
pub struct PrunedHeight {
    /// The height that is needed.
    pub wanted: u64,
    /// The oldest height that one of the nodes has.
    pub oldest: u64,
    /// Whether the store has no block yet.
    pub is_empty: bool,
}
