//! Decisions about histories: whether the blocks of the node are those that the journal knows, and whether a rebase is right. Pure.

use std::{
    collections::VecDeque,
    fmt::{Display, Formatter, Result as FormatResult},
};

use serde::Serialize;

/// A block by height and hash (upper-case hex).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPin {
    /// Height.
    pub height: u64,
    /// Hash.
    pub hash: String,
}

/// The chain has another history than the journal: it went back and made other blocks, was started once more, or is another chain of the
/// same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainChange {
    /// Height of the lowest block that is known to differ.
    pub height: u64,
    /// Its hash in the journal; `None` where only a transaction shows the difference.
    pub pinned: Option<String>,
    /// A transaction that the journal has in the block, and the block of the node lacks.
    pub missing_tx: Option<String>,
    /// Hash of the block of the node.
    pub found: String,
    /// Newest height at which journal and node are known to have the same block.
    pub agreed: Option<u64>,
}

impl Display for ChainChange {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> FormatResult {
        let Self { height, found, .. } = self;
        match (&self.pinned, &self.missing_tx) {
            (None, Some(hash)) => write!(
                formatter,
                "the chain has another history: the journal has transaction {hash} in block {height}, and block {found} of the node \
                 lacks it"
            ),
            (pinned, _) => write!(
                formatter,
                "the chain has another history: block {height} of the journal is {}, and the node's is {found}",
                pinned.as_deref().unwrap_or("unknown")
            ),
        }
    }
}

/// The answer of the node about a block that the journal knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockAnswer {
    /// The node has the block.
    Same,
    /// The node has another block, with this hash.
    Other(String),
    /// The node has no block at this height: it is behind, or has pruned it.
    Absent,
}

/// The comparison of the journal with the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HistoryFinding {
    /// Newest block that both have.
    pub agreed: Option<u64>,
    /// The difference, if there is one.
    pub change: Option<ChainChange>,
    /// Newest known block that the node lacks.
    pub absent: Option<u64>,
    /// Newest known block that the node has pruned, where none above it could be compared.
    pub pruned: Option<u64>,
}

impl HistoryFinding {
    /// The finding of answers about pinned blocks, the newest first, up to the first block that both have.
    pub fn of_pins(answers: &[(BlockPin, BlockAnswer)]) -> Self {
        let agreed = answers.iter().find(|(_, answer)| *answer == BlockAnswer::Same).map(|(pin, _)| pin.height);
        let absent = answers.iter().find(|(_, answer)| *answer == BlockAnswer::Absent).map(|(pin, _)| pin.height);
        let change = answers.iter().rev().find_map(|(pin, answer)| match answer {
            BlockAnswer::Other(found) => Some(ChainChange {
                height: pin.height,
                pinned: Some(pin.hash.clone()),
                missing_tx: None,
                found: found.clone(),
                agreed,
            }),
            BlockAnswer::Same | BlockAnswer::Absent => None,
        });
        Self { agreed, change, absent, pruned: None }
    }

    /// The same with a transaction of the journal that its block at the node lacks.
    pub fn with_missing_tx(mut self, missing: MissingTx) -> Self {
        let agreed = self.agreed;
        self.change.get_or_insert_with(|| missing.into_change(agreed));
        self
    }
}

/// A transaction that the journal has in a block, and the block of the node lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingTx {
    /// Height of the block.
    pub height: u64,
    /// Hash of the transaction.
    pub hash: String,
    /// Hash of the block of the node.
    pub found: String,
}

impl MissingTx {
    /// The other history that the transaction shows, where both have the block at `agreed`.
    pub fn into_change(self, agreed: Option<u64>) -> ChainChange {
        let Self { height, hash, found } = self;
        ChainChange { height, pinned: None, missing_tx: Some(hash), found, agreed }
    }
}

/// The answer of a comparison of the running pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HistoryCheck {
    /// The node has the known blocks, or none of them any more. Its newest block is known from now on.
    Same {
        /// The newest block; `None` when its height is not believed.
        newest: Option<BlockPin>,
        /// Whether the node has shown a known block. Another history ends with that alone.
        is_shown: bool,
    },
    /// The node has another history.
    Changed(ChainChange),
    /// The node lacks the newest known block, or does not answer.
    Unproven,
}

/// Known blocks that are kept in memory. A chain that went back further is compared with the pinned blocks.
const MAX_RECENT: usize = 256;

/// The newest blocks that the pipeline knows of its chain, and the other history of the node, if it has one. The tree retains it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HistoryState {
    /// In the order of their heights.
    recent: VecDeque<BlockPin>,
    change: Option<ChainChange>,
    /// Whether the change was found at the boot: the journal was not compared with the account, and only another boot does it.
    is_of_boot: bool,
}

impl HistoryState {
    /// The state after the comparison of a boot.
    pub fn at_boot(pins: Vec<BlockPin>, change: Option<ChainChange>) -> Self {
        Self { recent: pins.into(), is_of_boot: change.is_some(), change }
    }

    /// The newest known block.
    pub fn known(&self) -> Option<&BlockPin> {
        self.recent.back()
    }

    /// The newest known blocks, the lowest first.
    pub fn recent(&self) -> impl Iterator<Item = &BlockPin> {
        self.recent.iter()
    }

    /// The other history of the node.
    pub fn change(&self) -> Option<&ChainChange> {
        self.change.as_ref()
    }

    /// Whether the block at `height` with this parent follows the newest known block.
    pub fn is_continued_by(&self, height: u64, parent: &str) -> bool {
        self.known().is_none_or(|known| known.height + 1 == height && known.hash == parent)
    }

    /// The nodes are in dispute: of the known blocks only the pinned ones are certain to be older.
    pub fn forget_unpinned(&mut self, pins: Vec<BlockPin>) {
        if self.change.is_none() {
            self.recent = pins.into();
        }
    }

    /// Records a comparison; true when the chain has changed with it, or has its known history again.
    pub fn record(&mut self, check: HistoryCheck) -> bool {
        match check {
            HistoryCheck::Unproven => false,
            HistoryCheck::Changed(change) => {
                let is_news = self.change.is_none();
                self.change.get_or_insert(change);
                is_news
            }
            HistoryCheck::Same { is_shown, .. } if self.is_of_boot || (self.change.is_some() && !is_shown) => false,
            HistoryCheck::Same { newest, .. } => {
                let known_height = self.known().map_or(0, |known| known.height);
                self.recent.extend(newest.filter(|newest| newest.height > known_height));
                if self.recent.len() > MAX_RECENT {
                    self.recent.pop_front();
                }
                self.change.take().is_some()
            }
        }
    }
}

/// A rebase that is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebaseRefusal {
    /// The node does not have the height.
    #[error("the node is at height {node_height}: --to {to} lies above it")]
    AboveNode {
        /// The height that was asked for.
        to: u64,
        /// Height of the node.
        node_height: u64,
    },
    /// The journal has another block, or another transaction in a block, at or below the height.
    #[error("{change}; --to must lie below {}", .change.height)]
    AboveFork {
        /// The lowest known difference at or below the height.
        change: Box<ChainChange>,
    },
    /// The nodes have different blocks.
    #[error(
        "{origin} has block {hash} of the journal at height {height}, and another node has another block: name the node that is right"
    )]
    NodesDiffer {
        /// The node with the block of the journal.
        origin: String,
        /// Height of the block.
        height: u64,
        /// Its hash.
        hash: String,
    },
    /// Nothing shows another history, and the node lacks blocks that the journal knows.
    #[error(
        "nothing shows another history: the node is at height {node_height} and lacks block {newest} of the journal; wait until it has \
         that height, or name another node"
    )]
    NodeBehind {
        /// Height of the node.
        node_height: u64,
        /// Newest known block that the node lacks.
        newest: u64,
    },
    /// Nothing can be compared.
    #[error("the node has pruned block {newest}, the newest one of the journal: name a node that has it")]
    Pruned {
        /// Newest known block.
        newest: u64,
    },
}

/// Whether a rebase to a height is made; `Ok(false)` where journal and node have the same history, and nothing is to be done.
///
/// # Errors
/// When the height is above the node's or not below the difference, and when the node is only behind.
pub(crate) fn judge_rebase(to: u64, node_height: u64, finding: &HistoryFinding) -> Result<bool, RebaseRefusal> {
    match (&finding.change, finding.absent) {
        _ if to > node_height => Err(RebaseRefusal::AboveNode { to, node_height }),
        (Some(change), _) if to >= change.height => Err(RebaseRefusal::AboveFork { change: Box::new(change.clone()) }),
        (Some(_), _) => Ok(true),
        (None, Some(newest)) => Err(RebaseRefusal::NodeBehind { node_height, newest }),
        (None, None) => match finding.pruned {
            Some(newest) => Err(RebaseRefusal::Pruned { newest }),
            None => Ok(false),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(height: u64) -> BlockPin {
        BlockPin { height, hash: format!("A{height}") }
    }

    fn change(height: u64, agreed: Option<u64>) -> ChainChange {
        let (pinned, found) = (Some(format!("A{height}")), format!("B{height}"));
        ChainChange { height, pinned, missing_tx: None, found, agreed }
    }

    #[test]
    fn a_block_that_the_node_lacks_is_no_other_history_and_the_lowest_difference_is_named() {
        let other = |height: u64| (pin(height), BlockAnswer::Other(format!("B{height}")));
        let (same, absent) = (|height| (pin(height), BlockAnswer::Same), |height| (pin(height), BlockAnswer::Absent));
        for (answers, agreed, changed, lacking) in [
            (vec![], None, None, None),
            (vec![same(9)], Some(9), None, None),
            (vec![absent(9), absent(8)], None, None, Some(9)),
            (vec![absent(9), same(8)], Some(8), None, Some(9)),
            (vec![other(9), other(8), same(5)], Some(5), Some(change(8, Some(5))), None),
            (vec![absent(9), other(8), same(5)], Some(5), Some(change(8, Some(5))), Some(9)),
            (vec![other(9), other(1)], None, Some(change(1, None)), None),
        ] {
            let finding = HistoryFinding::of_pins(&answers);
            let expected = HistoryFinding { agreed, change: changed, absent: lacking, pruned: None };
            assert_eq!(finding, expected, "{answers:?}");
        }
    }

    #[test]
    fn a_rebase_is_made_below_the_difference_only_and_not_while_the_node_is_behind() {
        let none = HistoryFinding::default();
        let changed = HistoryFinding { agreed: Some(5), change: Some(change(8, Some(5))), absent: Some(20), ..none };
        let behind = HistoryFinding { agreed: Some(5), absent: Some(20), ..HistoryFinding::default() };
        let same = HistoryFinding { agreed: Some(20), ..HistoryFinding::default() };
        let pruned = HistoryFinding { pruned: Some(8), ..HistoryFinding::default() };
        let above_fork = || Err(RebaseRefusal::AboveFork { change: Box::new(change(8, Some(5))) });
        for (to, finding, expected) in [
            (5, &changed, Ok(true)),
            (7, &changed, Ok(true)),
            (0, &changed, Ok(true)),
            (8, &changed, above_fork()),
            (10, &changed, above_fork()),
            (11, &changed, Err(RebaseRefusal::AboveNode { to: 11, node_height: 10 })),
            (5, &behind, Err(RebaseRefusal::NodeBehind { node_height: 10, newest: 20 })),
            (5, &same, Ok(false)),
            (5, &pruned, Err(RebaseRefusal::Pruned { newest: 8 })),
            (11, &same, Err(RebaseRefusal::AboveNode { to: 11, node_height: 10 })),
        ] {
            assert_eq!(judge_rebase(to, 10, finding), expected, "{to} {finding:?}");
        }
    }

    #[test]
    fn a_change_lasts_until_the_node_has_the_known_blocks_and_one_of_the_boot_until_the_next() {
        let same = |height| HistoryCheck::Same { newest: Some(pin(height)), is_shown: true };
        // The node has pruned every known block.
        let not_shown = |height| HistoryCheck::Same { newest: Some(pin(height)), is_shown: false };
        let changed = || HistoryCheck::Changed(change(8, None));
        let mut state = HistoryState::at_boot(vec![pin(5)], None);
        for (check, is_news, known, is_changed) in [
            (same(6), false, 6, false),
            (same(4), false, 6, false),
            (HistoryCheck::Same { newest: None, is_shown: true }, false, 6, false),
            (HistoryCheck::Unproven, false, 6, false),
            (changed(), true, 6, true),
            (not_shown(9), false, 6, true),
            (changed(), false, 6, true),
            (HistoryCheck::Unproven, false, 6, true),
            (same(7), true, 7, false),
            (not_shown(8), false, 8, false),
        ] {
            assert_eq!(state.record(check.clone()), is_news, "{check:?}");
            let found = (state.known().map(|known| known.height), state.change().is_some());
            assert_eq!(found, (Some(known), is_changed), "{check:?}");
        }
        assert!(state.is_continued_by(9, "A8") && !state.is_continued_by(9, "B8") && !state.is_continued_by(10, "A8"));
        assert!(HistoryState::default().is_continued_by(9, "A8"), "nothing is known");
        (10..1_000).for_each(|height| assert!(!state.record(same(height))));
        assert_eq!(state.recent().count(), MAX_RECENT);
        state.forget_unpinned(vec![pin(5)]);
        assert_eq!(state.known(), Some(&pin(5)));
        let mut state = HistoryState::at_boot(vec![pin(5)], Some(change(5, None)));
        assert!(!state.record(same(9)) && !state.record(changed()) && state.change().is_some());
    }

    #[test]
    fn a_transaction_that_its_block_lacks_shows_another_history_unless_a_block_does() {
        let agreed = HistoryFinding { agreed: Some(5), ..HistoryFinding::default() };
        let missing = |height: u64| MissingTx { height, hash: "T".to_owned(), found: format!("B{height}") };
        let shown = agreed.with_missing_tx(missing(7)).change.expect("another history");
        let words = "the journal has transaction T in block 7, and block B7 of the node lacks it";
        assert!(shown.to_string().ends_with(words), "{shown}");
        let by_block = HistoryFinding { change: Some(change(8, None)), ..HistoryFinding::default() };
        let shown = by_block.with_missing_tx(missing(9)).change.expect("another history");
        assert!(shown.to_string().ends_with("block 8 of the journal is A8, and the node's is B8"), "{shown}");
    }
}
