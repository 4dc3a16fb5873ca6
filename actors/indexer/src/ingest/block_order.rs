//! Whether a block of a node follows the blocks of the store. Pure.

use svc_wire::{comet_rpc::CommittedBlock, timestamp};

use crate::store::{StoredBlock, iso_millis};

/// The store and a node have different blocks at one height.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node has another history: block {height} of the index is {stored}, and the node's is {found}; configure a node with \
     the history of the index, or run `svc indexer rollback --to H` with the newest height H that both have"
)]
pub struct HistoryMismatch {
    /// The height.
    pub height: u64,
    /// Hash in the store, or the time of a block without one.
    pub stored: String,
    /// Hash at the node, or the time of its block.
    pub found: String,
}

/// A block of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeBlock {
    /// Nanoseconds since the epoch; `None` for a time that cannot be read.
    pub time: Option<i128>,
    /// Upper-case hex.
    pub hash: String,
}

impl NodeBlock {
    /// The block of an answer.
    pub fn new(block: &CommittedBlock) -> Self {
        let time = timestamp::parse_rfc3339(&block.block.header.time).as_ref().map(timestamp::unix_nanos);
        Self { time, hash: block.block_id.hash.clone() }
    }
}

/// The next block, and the one that it names as its predecessor.
#[derive(Debug, Clone, Copy)]
pub struct NextLink<'a> {
    pub height: u64,
    /// Upper-case hex; empty in the first block of a chain.
    pub last_hash: &'a str,
}

/// The decision about the next block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextBlock {
    /// It follows the newest block of the store.
    Take,
    /// It does, and the newest block of the store has this hash.
    Learn(String),
    /// It follows another block.
    Mismatch(HistoryMismatch),
}

/// Compares the newest block of the store with the one that the next block names. `before` is the node's block at the height of the newest
/// one, where the store has no hash of it; it is `None` when no node has it any more.
pub fn judge_next(newest: &StoredBlock, before: Option<&NodeBlock>, next: &NextLink<'_>) -> NextBlock {
    // An empty store begins with any block, and a block that another process has written is left unchanged.
    if newest.place.height == 0 || next.height <= newest.place.height {
        return NextBlock::Take;
    }
    let mismatch = |stored: String, found: String| {
        NextBlock::Mismatch(HistoryMismatch { height: newest.place.height, stored, found })
    };
    match (&newest.hash, before) {
        (Some(stored), _) if *stored == next.last_hash => NextBlock::Take,
        (Some(stored), _) => mismatch(stored.clone(), next.last_hash.to_owned()),
        (None, None) => NextBlock::Take,
        (None, Some(before)) => match compare_block(newest, before) {
            Some(mismatch) => NextBlock::Mismatch(mismatch),
            None if before.hash == next.last_hash => NextBlock::Learn(before.hash.clone()),
            None => mismatch(before.hash.clone(), next.last_hash.to_owned()),
        },
    }
}

/// Compares a block of the store with the node's block of the same height: by hash, or by time where the store has no hash.
pub fn compare_block(stored: &StoredBlock, found: &NodeBlock) -> Option<HistoryMismatch> {
    let height = stored.place.height;
    match &stored.hash {
        Some(hash) if *hash == found.hash => None,
        Some(hash) => Some(HistoryMismatch { height, stored: hash.clone(), found: found.hash.clone() }),
        None if found.time == Some(stored.place.time) => None,
        None => {
            let found = found.time.map_or_else(|| "of an unreadable time".to_owned(), of_time);
            Some(HistoryMismatch { height, stored: of_time(stored.place.time), found })
        }
    }
}

fn of_time(time: i128) -> String {
    format!("of {}", iso_millis(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Checkpoint;

    fn stored(height: u64, hash: Option<&str>) -> StoredBlock {
        let place = Checkpoint { height, time: i128::from(height) * 1_000_000_000 };
        StoredBlock { place, hash: hash.map(str::to_owned) }
    }

    fn found(time: Option<i128>, hash: &str) -> NodeBlock {
        NodeBlock { time: time.map(|seconds| seconds * 1_000_000_000), hash: hash.to_owned() }
    }

    #[test]
    fn a_block_is_taken_only_on_top_of_the_newest_one() {
        let mismatch = |stored: &str, found: &str| {
            NextBlock::Mismatch(HistoryMismatch { height: 7, stored: stored.to_owned(), found: found.to_owned() })
        };
        let learn = NextBlock::Learn("A7".to_owned());
        for (newest, before, (height, last_hash), expected) in [
            (stored(0, None), None, (1, ""), NextBlock::Take),
            (stored(0, None), None, (50, "X"), NextBlock::Take),
            (stored(7, Some("A7")), None, (8, "A7"), NextBlock::Take),
            (stored(7, Some("A7")), None, (8, "B7"), mismatch("A7", "B7")),
            (stored(7, Some("A7")), None, (8, ""), mismatch("A7", "")),
            // The hash of the store decides.
            (stored(7, Some("A7")), Some(found(Some(7), "B7")), (8, "B7"), mismatch("A7", "B7")),
            // Another process has written it.
            (stored(7, Some("A7")), None, (7, "B6"), NextBlock::Take),
            // A store of an earlier release.
            (stored(7, None), Some(found(Some(7), "A7")), (8, "A7"), learn),
            (stored(7, None), Some(found(Some(7), "A7")), (8, "B7"), mismatch("A7", "B7")),
            (
                stored(7, None),
                Some(found(Some(9), "A7")),
                (8, "A7"),
                mismatch("of 1970-01-01T00:00:07.000Z", "of 1970-01-01T00:00:09.000Z"),
            ),
            (
                stored(7, None),
                Some(found(None, "A7")),
                (8, "A7"),
                mismatch("of 1970-01-01T00:00:07.000Z", "of an unreadable time"),
            ),
            (stored(7, None), None, (8, "B7"), NextBlock::Take),
        ] {
            let next = NextLink { height, last_hash };
            assert_eq!(judge_next(&newest, before.as_ref(), &next), expected, "{newest:?} {before:?} {last_hash}");
        }
    }

    #[test]
    fn blocks_of_one_height_are_compared_by_hash_or_else_by_time() {
        for (hash, time, is_same) in [(Some("A7"), Some(9), true), (Some("B7"), Some(7), false), (None, Some(7), true)]
        {
            let compared = compare_block(&stored(7, hash), &found(time, "A7"));
            assert_eq!(compared.is_none(), is_same, "{hash:?} {time:?}");
        }
        let text = compare_block(&stored(7, Some("B7")), &found(Some(7), "A7")).map(|mismatch| mismatch.to_string());
        assert!(text.is_some_and(|text| text.contains("block 7 of the index is B7, and the node's is A7")));
    }
}
