//! The blocks that the chain has lost: it went back to a height and made other ones. Pure.

use std::collections::BTreeSet;

/// The blocks above a height that the chain had, and does not have any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostBlocks {
    /// Newest height at which the chain still has the block that the agent knows.
    pub newest_kept: u64,
    /// Hash of that block at the node, upper-case hex; `None` for a chain that was started once more.
    pub kept_hash: Option<String>,
    /// Hashes of the account's transactions that belong to these blocks, as its journal names them; `None` without a journal.
    pub transactions: Option<BTreeSet<String>>,
}

/// The heights whose events are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostHeights {
    /// First height.
    pub first: u64,
    /// Last height.
    pub last: u64,
}

impl LostBlocks {
    /// Whether a transaction may have been in one of the blocks; without a hash nothing is known about it.
    pub fn may_have(&self, hash: Option<&str>) -> bool {
        match (&self.transactions, hash) {
            (Some(transactions), Some(hash)) => transactions.contains(hash),
            (None, _) | (_, None) => true,
        }
    }

    /// The heights up to `cursor` whose events were stored from lost blocks.
    pub fn heights_below(&self, cursor: Option<u64>) -> Option<LostHeights> {
        let last = cursor.filter(|cursor| *cursor > self.newest_kept)?;
        Some(LostHeights { first: self.newest_kept + 1, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_lost_when_the_journal_says_so_and_may_be_when_nothing_is_known() {
        let known =
            LostBlocks { newest_kept: 10, kept_hash: None, transactions: Some(BTreeSet::from(["LOST".to_owned()])) };
        let unknown = LostBlocks { transactions: None, ..known.clone() };
        for (hash, by_journal, without) in [(Some("LOST"), true, true), (Some("KEPT"), false, true), (None, true, true)]
        {
            assert_eq!((known.may_have(hash), unknown.may_have(hash)), (by_journal, without), "{hash:?}");
        }
    }

    #[test]
    fn events_above_the_height_are_lost_and_none_at_it() {
        let lost = LostBlocks { newest_kept: 10, kept_hash: None, transactions: None };
        for (cursor, expected) in [
            (None, None),
            (Some(0), None),
            (Some(10), None),
            (Some(11), Some(LostHeights { first: 11, last: 11 })),
            (Some(60), Some(LostHeights { first: 11, last: 60 })),
        ] {
            assert_eq!(lost.heights_below(cursor), expected, "{cursor:?}");
        }
    }
}
