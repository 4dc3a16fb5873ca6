//! The rebase of a journal file: a person has decided that the chain goes on from an earlier block.

use std::collections::BTreeSet;

use serde::Serialize;
use svc_net::upstream::{NodeClient, NodeClientError};

use crate::{
    history::{ComparisonError, compare_history, compare_pins, find_missing_tx},
    journal::{
        error::JournalError,
        inspection::{read_pins, verify_journal},
        store::{JournalPlace, JournalStore},
    },
    known_history::{BlockPin, ChainChange, RebaseRefusal, judge_rebase},
};

/// A journal after a rebase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalRebase {
    /// The file.
    pub file: String,
    /// Chain and account.
    pub owner: String,
    /// The height from which the journal goes on.
    pub height: u64,
    /// Hash of the block at this height; `None` at height 0.
    pub hash: Option<String>,
    /// Records that were abandoned; a repetition abandons none.
    pub abandoned: u64,
    /// Whether something was changed. Nothing is where journal and node have the same history.
    pub is_changed: bool,
}

/// A rebase that failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RebaseError {
    /// The journal failed, or another process uses it.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The node does not answer.
    #[error(transparent)]
    Node(#[from] NodeClientError),
    /// The node runs another chain.
    #[error("{file} is the journal of {owner}, and the node runs {found:?}")]
    OtherChain {
        /// The file.
        file: String,
        /// Owner in the journal.
        owner: String,
        /// Chain of the node.
        found: String,
    },
    /// The rebase would be wrong.
    #[error(transparent)]
    Refused(#[from] RebaseRefusal),
}

impl From<ComparisonError> for RebaseError {
    fn from(error: ComparisonError) -> Self {
        match error {
            ComparisonError::Journal(error) => Self::Journal(error),
            ComparisonError::Node(error) => Self::Node(error),
            ComparisonError::NodesDiffer { origin, height, hash } => {
                RebaseRefusal::NodesDiffer { origin, height, hash }.into()
            }
        }
    }
}

/// Compares the pinned blocks of a journal file with the node, also while a server uses the journal. `None` where they show no other
/// history.
///
/// # Errors
/// When the file is no journal, the node does not answer, or the nodes have different blocks.
pub async fn find_chain_change(file: &str, node: &NodeClient) -> Result<Option<ChainChange>, RebaseError> {
    let node_height = node.status().await?.sync_info.latest_block_height;
    let known = read_pins(file).await?.into_iter().map(|pin| (pin.height, pin)).collect();
    Ok(compare_pins(node, node_height, known).await?.change)
}

/// Rebases the journal in a file to a height of the node's chain: the records of the history above it are abandoned, and the next process
/// signs again. All of it is one transaction, so that a rebase that was interrupted is repeated, and a repetition changes nothing.
///
/// # Errors
/// When another process uses the journal, the node does not answer or has another block at or below the height, the height is above
/// the node's, or the node is only behind.
pub async fn rebase_journal(file: &str, node: &NodeClient, to: u64) -> Result<JournalRebase, RebaseError> {
    plan_rebase(file, node, to, None).await?.carry_out().await
}

/// A rebase that is right, before anything is changed. It holds the journal: no other process uses it meanwhile.
pub struct PlannedRebase {
    store: JournalStore,
    file: String,
    owner: String,
    to: u64,
    pin: Option<BlockPin>,
    is_needed: bool,
}

/// Compares a journal with the node for a rebase to a height. `known` is a block that the embedder knows beside the journal.
///
/// # Errors
/// Those of [`rebase_journal`].
pub async fn plan_rebase(
    file: &str,
    node: &NodeClient,
    to: u64,
    known: Option<BlockPin>,
) -> Result<PlannedRebase, RebaseError> {
    let owner = verify_journal(file).await?.owner;
    let place = JournalPlace { file: Some(file.to_owned()), ..JournalPlace::default() };
    let store = JournalStore::open(&place, &owner).await?;
    let status = node.status().await?;
    let (found, node_height) = (status.node_info.network, status.sync_info.latest_block_height);
    if owner.split('/').next() != Some(found.as_str()) {
        return Err(RebaseError::OtherChain { file: file.to_owned(), owner, found });
    }
    let finding = compare_history(&store, node, known.into_iter().collect()).await?;
    let is_needed = judge_rebase(to, node_height, &finding)?;
    let pin = match to {
        0 => None,
        height => Some(BlockPin { height, hash: node.block(height).await?.block_id.hash }),
    };
    let lowest = finding.agreed.map_or(0, |agreed| agreed + 1);
    if is_needed && let Some(missing) = find_missing_tx(&store, node, lowest, to).await? {
        let change = Box::new(missing.into_change(finding.agreed));
        return Err(RebaseRefusal::AboveFork { change }.into());
    }
    Ok(PlannedRebase { store, file: file.to_owned(), owner, to, pin, is_needed })
}

impl PlannedRebase {
    /// Whether anything is to be done: journal and node have different histories.
    pub fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Hash of the block at the height; `None` at height 0.
    pub fn hash(&self) -> Option<&str> {
        self.pin.as_ref().map(|pin| pin.hash.as_str())
    }

    /// Hashes of the transactions that the rebase abandons, or an earlier one has abandoned.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn lost_transactions(&self) -> Result<BTreeSet<String>, RebaseError> {
        Ok(self.store.lost_transactions(self.to).await?)
    }

    /// Carries the rebase out, in one transaction.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn carry_out(self) -> Result<JournalRebase, RebaseError> {
        let Self { store, file, owner, to, pin, is_needed } = self;
        let abandoned = if is_needed { store.rebase(to, pin.as_ref()).await? } else { 0 };
        store.close().await;
        let hash = pin.map(|pin| pin.hash);
        Ok(JournalRebase { file, owner, height: to, hash, abandoned, is_changed: is_needed })
    }
}
