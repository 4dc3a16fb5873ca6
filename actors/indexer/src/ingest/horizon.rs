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

/// Part of the heights with state that an empty store does not begin with, and most of them: a node that prunes would lose the state of
/// the first block while it is read.
const MARGIN_DIVISOR: u64 = 10;
const MAX_MARGIN: u64 = 1_000;

/// Returns the first height of an empty store, from the oldest one that a node has with its state.
pub fn start_of_empty_store(oldest: u64, newest: u64) -> u64 {
    // A node whose oldest height is not the first prunes, blocks or state, and goes on with it.
    let margin = if oldest > 1 { (newest.saturating_sub(oldest) / MARGIN_DIVISOR).min(MAX_MARGIN) } else { 0 };
    oldest + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_store_begins_where_state_is_left_long_enough_to_be_read() {
        for (oldest, newest, start) in
            [(1, 1, 1), (1, 900, 1), (50, 900, 135), (51, 100, 55), (500_000, 900_000, 501_000), (7, 7, 7)]
        {
            assert_eq!(start_of_empty_store(oldest, newest), start, "{oldest} {newest}");
        }
    }

    #[test]
    fn a_pruned_height_is_an_error_with_the_oldest_height_and_the_choices() {
        let words = |is_empty| PrunedHeight { wanted: 7, oldest: 50, is_empty }.to_string();
        assert_eq!(
            words(true),
            "no node has block 7 with its state any more, the oldest that one has is 50: start there, or add a node to SVC_RPC \
             that has it"
        );
        assert!(words(false).ends_with("add an archive node to SVC_RPC, or use a new database"));
    }
}
