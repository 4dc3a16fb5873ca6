//! The node's word about an indexer's events, before they are stored: that the indexer is one of the same chain, and that the store knows
//! every transaction of the agent's account.

use prost_types::Timestamp;
use svc_agent_identity::chain_link::ChainError;
use svc_agent_store::{AgentStoreError, BlockEvents};
use svc_kit::wall_clock;
use svc_net::upstream::NodeClient;
use svc_wire::{
    event_stream::{IndexerEvent, StreamMessage},
    timestamp::{iso_millis, parse_rfc3339},
};

use super::{
    Args, WatcherArgs,
    core::CompleteBlock,
    history::{HistoryDoubt, prove_history},
};

/// A block that the indexer has stated, for the comparison with the node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatedBlock {
    height: u64,
    time: Timestamp,
    /// Whether the message was about this block alone. Other messages may have a time of an indexer that has no block yet.
    is_own: bool,
}

impl StatedBlock {
    /// The block of a message, if it states one. A time without milliseconds may be that of the indexer's clock.
    pub fn of(message: &StreamMessage) -> Option<Self> {
        let (height, text, is_own) = match message {
            StreamMessage::Subscribed { block, block_time } => (block.checked_sub(1)?, block_time, false),
            StreamMessage::Block(block) => (block.block, &block.block_time, true),
            StreamMessage::Ready { .. } | StreamMessage::Unknown => return None,
        };
        let time = parse_rfc3339(text).filter(|_| text.contains('.'))?;
        (height > 0).then_some(Self { height, time, is_own })
    }
}

/// Blocks that are not stored.
#[derive(Debug)]
pub enum StoreFailure {
    /// The store failed.
    Store(AgentStoreError),
    /// The node has not answered, or has not got so far.
    Unproven(String),
    /// The node has another block at the height.
    OtherBlock {
        /// The height.
        height: u64,
        /// Whether the indexer's message was about this block alone.
        is_own: bool,
    },
    /// The node does not have the block yet.
    NodeBehind,
    /// The node has another block at the cursor than the store.
    OtherHistory {
        /// The height.
        height: u64,
        /// Hash of the block of the store.
        known: String,
        /// Hash of the block of the node.
        found: String,
    },
    /// The agent ends.
    Refused,
}

impl From<HistoryDoubt> for StoreFailure {
    fn from(doubt: HistoryDoubt) -> Self {
        match doubt {
            HistoryDoubt::Store(error) => Self::Store(error),
            HistoryDoubt::NodeBehind => Self::NodeBehind,
            HistoryDoubt::Unanswered(reason) => Self::Unproven(reason),
            HistoryDoubt::Other { height, known, found } => Self::OtherHistory { height, known, found },
        }
    }
}

impl From<AgentStoreError> for StoreFailure {
    fn from(error: AgentStoreError) -> Self {
        Self::Store(error)
    }
}

/// Whether the events of a block are of that block.
pub(super) fn is_consistent(message: &StreamMessage) -> bool {
    match message {
        StreamMessage::Block(block) => block.events.iter().all(|event| event.block_height == block.block),
        _ => true,
    }
}

/// Compares a block of the indexer with the node's.
pub(super) async fn prove_chain(watcher: &WatcherArgs, stated: &StatedBlock) -> Result<(), StoreFailure> {
    let height = stated.height;
    let unproven = |reason: String| StoreFailure::Unproven(format!("block {height} of the node: {reason}"));
    let block = watcher.pipeline.node().block(height).await.map_err(|error| unproven(error.to_string()))?;
    let time = parse_rfc3339(&block.block.header.time).ok_or_else(|| unproven("its time is none".to_owned()))?;
    if iso_millis(&time) == iso_millis(&stated.time) {
        Ok(())
    } else {
        Err(StoreFailure::OtherBlock { height, is_own: stated.is_own })
    }
}

/// Ends the agent when the account has sent a transaction that neither store nor journal knows. The indexer's word alone ends nothing: the
/// node's block has to have the transaction.
pub(super) async fn prove_own_writes(watcher: &WatcherArgs, events: &[IndexerEvent]) -> Result<(), StoreFailure> {
    let own = &watcher.own_writes;
    for event in events.iter().filter(|event| own.concerns(event)) {
        let unproven = |error: &dyn std::fmt::Display| StoreFailure::Unproven(error.to_string());
        match own.check(&event.tx_hash).await {
            Ok(()) => continue,
            Err(ChainError::OlderStore(older)) => {
                let read = |node: NodeClient| async move { node.block(event.block_height).await };
                let node = watcher.pipeline.node();
                let block = node.read_with_failover(0, read).await.map_err(|error| unproven(&error))?;
                if own.is_in(&block.block.data, &event.tx_hash) {
                    watcher.chain.refuse(older.into());
                    return Err(StoreFailure::Refused);
                }
                let (tx_hash, height) = (&event.tx_hash, event.block_height);
                tracing::error!(
                    tx_hash,
                    height,
                    "the indexer states a transaction of the account that the node has not"
                );
            }
            Err(error) => return Err(unproven(&error)),
        }
    }
    Ok(())
}

/// Stores blocks once the node has proven the stated block and the account's own writes.
pub(super) async fn prove_and_store(
    args: &Args,
    stated: Option<&StatedBlock>,
    blocks: &[CompleteBlock],
) -> Result<(), StoreFailure> {
    let watcher = &args.watcher;
    if let Some(stated) = stated {
        prove_chain(watcher, stated).await?;
    }
    for block in blocks {
        prove_own_writes(watcher, &block.events).await?;
    }
    let Some(last) = blocks.last() else { return Ok(()) };
    let hash = prove_history(&watcher.store, watcher.pipeline.node(), last.height).await?;
    let mut rows: Vec<BlockEvents> = blocks.iter().map(|block| to_rows(args, block)).collect();
    if let Some(last) = rows.last_mut() {
        last.hash = hash;
    }
    let now = wall_clock::now().seconds;
    Ok(watcher.store.store_blocks(&rows, now, watcher.max_stored).await?)
}

fn to_rows(args: &Args, block: &CompleteBlock) -> BlockEvents {
    let maker = args.watcher.notifications;
    let is_delivered = args.watcher.courier.is_some();
    BlockEvents {
        height: block.height,
        hash: None,
        ids: block.events.iter().map(|event| maker.id(event)).collect(),
        notifications: block.events.iter().filter(|_| is_delivered).map(|event| maker.make(event)).collect(),
    }
}
