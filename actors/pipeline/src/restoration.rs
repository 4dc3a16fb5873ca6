//! Transactions of the account that the journal does not know, taken from the blocks of the chain before anything is signed.
//!
//! A block has the message of a transaction, and neither its idempotency key nor its caller. For a day the journal therefore refuses
//! a message that equals a restored one: the caller may be repeating it.

use std::time::Duration;

use futures::StreamExt;
use svc_kit::wall_clock;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    timestamp,
    tx::{decode_fee, decode_tx_body},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    confirmer::{
        SigningAccount,
        account_txs::{AccountTx, BlockSigner, read_account_txs},
        block_reader::read_agreed_result,
        core::{NodeFacts, SequenceFact},
    },
    journal::{
        core::{JournalEntry, RestoredEntry, TxResultEntry},
        error::JournalError,
        sequences::UnknownSequences,
        store::{JournalStore, RESTORED_AGE},
    },
    write::message::EncodedMessage,
};

/// Blocks that are read at once.
const CONCURRENT_READS: usize = 8;
/// Attempts to read a block, and the pause between two.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Blocks between two looks at the age.
const AGE_INTERVAL: u64 = 200;
/// Longest search for the transactions before a journal that is new. It is usually that of a new installation.
const NEW_JOURNAL_SEARCH: Duration = Duration::from_secs(30);
/// Longest search after a comparison. After a loss that is on record the search takes as long as it must.
const COMPARISON_SEARCH: Duration = Duration::from_secs(300);

/// The result of a restoration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Restoration {
    /// Transactions of the account that blocks contain and the journal did not.
    pub restored: u64,
    /// Sequences that the account has used and of which no block of the last day that a node has shows the transaction.
    pub unexplained: u64,
    /// Whether the journal was compared with the account.
    pub is_compared: bool,
}

impl Restoration {
    /// Nothing was unknown.
    const COMPARED: Self = Self { restored: 0, unexplained: 0, is_compared: true };
}

/// The end of a search through blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchEnd {
    /// Every sequence has its transaction, or every block was read in which one could be.
    Complete,
    /// The blocks before are older than the search goes.
    TooOld,
    /// No node has the block before.
    Missing,
    /// The time of the search is over.
    OutOfTime,
    /// The nodes did not answer for a block.
    Unanswered,
}

/// Searches blocks for transactions of an account.
pub(crate) struct Restorer<'a> {
    pub store: &'a JournalStore,
    pub node: &'a NodeClient,
    pub account: &'a SigningAccount,
    /// Fee denom of the chain.
    pub denom: &'a str,
}

impl Restorer<'_> {
    /// Compares the journal with the account, and takes the transactions that it does not know from blocks, the newest first. `None`
    /// when this must be done and the nodes do not answer.
    pub async fn restore(&self, facts: Option<&NodeFacts>) -> Result<Option<Restoration>, JournalError> {
        let is_lossy = self.store.loss().is_some();
        if !is_lossy && !self.store.is_on_disk() {
            return Ok(Some(Restoration::COMPARED));
        }
        let state = facts.and_then(|facts| facts.sequence);
        let state = match state {
            Some(state) if !self.is_behind(&state).await? => Some(state),
            _ => None,
        };
        let Some((facts, state)) = facts.zip(state) else {
            tracing::warn!(
                journal = self.store.location(),
                "no node states the account as of now: the journal is not compared"
            );
            // The next boot compares from the same height on.
            return Ok((!is_lossy).then(Restoration::default));
        };
        let mut unknown = self.store.unknown_sequences(state.sequence, state.height).await?;
        let deadline = (!is_lossy)
            .then(|| Instant::now() + if unknown.is_new_journal { NEW_JOURNAL_SEARCH } else { COMPARISON_SEARCH });
        let begun_with = unknown.count();
        let (restored, end) = self.search(facts, state, &mut unknown, deadline).await?;
        let end = match end {
            Ok(end) => end,
            Err(error) if is_lossy => {
                tracing::error!(%error, "a block with records that the journal has lost cannot be read");
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(%error, "a block with transactions that the journal does not know cannot be read");
                SearchEnd::Unanswered
            }
        };
        // The next boot searches on; the search before a new journal is not worth a second one.
        let is_over =
            is_lossy || unknown.is_new_journal || !matches!(end, SearchEnd::Unanswered | SearchEnd::OutOfTime);
        if is_over && let Err(error) = self.store.end_comparison(state.sequence, state.height).await {
            // Without a loss a journal that cannot be written does not keep the server from starting.
            if is_lossy {
                return Err(error);
            }
            tracing::warn!(%error, "the comparison of the journal with the account cannot be noted");
        }
        let unexplained = unknown.count();
        if is_lossy || restored + unexplained > 0 {
            tracing::warn!(
                journal = self.store.location(),
                is_lossy,
                unknown = begun_with,
                restored,
                unexplained,
                ?end,
                "the account has used sequences that the journal did not know; their transactions were looked for in blocks, and for a \
                 day a write with the same message is refused"
            );
        }
        Ok(Some(Restoration { restored, unexplained, is_compared: true }))
    }

    /// Whether the node has not caught up with the chain, or with the journal: its account then says nothing of the newest sequences.
    async fn is_behind(&self, state: &SequenceFact) -> Result<bool, JournalError> {
        let is_syncing = self.node.status().await.map_or(true, |status| status.sync_info.catching_up);
        // The newest pin may be a block that the node has stored and not executed yet.
        let pinned = self.store.newest_pinned_height().await?.saturating_sub(1);
        Ok(is_syncing || state.height < pinned.max(self.store.compared_height().await?))
    }

    /// Reads blocks, the newest first, until every sequence has its transaction. Yields the number of transactions.
    async fn search(
        &self,
        facts: &NodeFacts,
        state: SequenceFact,
        unknown: &mut UnknownSequences,
        deadline: Option<Instant>,
    ) -> Result<(u64, Result<SearchEnd, NodeClientError>), JournalError> {
        let (signer, oldest) = (self.account.block_signer(facts), oldest_time());
        let read = |height| read_restorable(self.node.clone(), height, signer.clone(), oldest);
        // The block of the state was executed, and its results are there.
        let heights = (unknown.lowest_height..=state.height).rev();
        let mut blocks = futures::stream::iter(heights).map(read).buffered(CONCURRENT_READS);
        let (mut restored, mut has_read) = (0, false);
        while unknown.count() > 0 {
            let next = match deadline {
                None => blocks.next().await,
                Some(deadline) => match timeout_at(deadline, blocks.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok((restored, Ok(SearchEnd::OutOfTime))),
                },
            };
            let found = match next {
                Some(Ok(BlockRead::Found(found))) => found,
                Some(Ok(BlockRead::TooOld)) => return Ok((restored, Ok(SearchEnd::TooOld))),
                // A node that keeps no results lacks the newest block too.
                Some(Ok(BlockRead::Missing)) if has_read || deadline.is_some() => {
                    return Ok((restored, Ok(SearchEnd::Missing)));
                }
                Some(Ok(BlockRead::Missing)) => {
                    let reason = format!("no node has block {}, of which one has stated the account", state.height);
                    let error = self.node.endpoints().current().protocol_error(reason, &[]);
                    return Ok((restored, Err(error.into())));
                }
                Some(Err(error)) => return Ok((restored, Err(error))),
                None => break,
            };
            has_read = true;
            let mut entries = Vec::new();
            for (tx, height) in found {
                if unknown.explain(tx.sequence) && !unknown.is_open(&tx.hash) {
                    entries.push(self.entry_of(tx, height).await);
                }
            }
            if !entries.is_empty() {
                restored += entries.len() as u64;
                self.store.write(&entries).await?;
            }
        }
        Ok((restored, Ok(SearchEnd::Complete)))
    }

    /// The entry of a transaction. One node's word that it has failed does not free its message.
    async fn entry_of(&self, tx: AccountTx, height: u64) -> JournalEntry {
        let AccountTx { sequence, hash, bytes, mut result } = tx;
        if result.code != 0 && !matches!(read_agreed_result(self.node, height, &hash).await, Ok(Some(_))) {
            result.code = 0;
        }
        let body = decode_tx_body(&bytes).unwrap_or_default();
        let timeout_height = body.timeout_height;
        let message = body.messages.into_iter().next().unwrap_or_default();
        let message = EncodedMessage {
            message: prost_types::Any { type_url: message.type_url, value: message.value },
            needs_grant: false,
        };
        let msg_type = message.msg_type();
        tracing::info!(tx_hash = hash, sequence, height, msg_type, "a record is taken from its block");
        JournalEntry::Restored(Box::new(RestoredEntry {
            hash,
            sequence,
            timeout_height,
            message,
            result: TxResultEntry::new(height, &result, true),
            fee: decode_fee(&bytes, self.denom),
            restored_at: wall_clock::now_rfc3339(),
        }))
    }
}

/// A block that was read for the transactions of the account.
enum BlockRead {
    /// The transactions, with their height.
    Found(Vec<(AccountTx, u64)>),
    /// It is older than the search goes.
    TooOld,
    /// No node has it, or its results.
    Missing,
}

/// Reads a block, a few times where a node does not answer.
async fn read_restorable(
    node: NodeClient,
    height: u64,
    signer: BlockSigner,
    oldest: i128,
) -> Result<BlockRead, NodeClientError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match read_once(&node, height, &signer, oldest).await {
            Err(_) if attempts < MAX_ATTEMPTS => tokio::time::sleep(RETRY_PAUSE).await,
            read => return read,
        }
    }
}

async fn read_once(
    node: &NodeClient,
    height: u64,
    signer: &BlockSigner,
    oldest: i128,
) -> Result<BlockRead, NodeClientError> {
    if height.is_multiple_of(AGE_INTERVAL) {
        let time = match node.read_at_any(|node| async move { node.block(height).await }).await {
            Ok(block) => timestamp::parse_rfc3339(&block.block.header.time),
            Err(error) if error.is_pruned() => return Ok(BlockRead::Missing),
            Err(error) => return Err(error),
        };
        if time.is_some_and(|time| timestamp::unix_nanos(&time) < oldest) {
            return Ok(BlockRead::TooOld);
        }
    }
    if let Some(found) = read_account_txs(node, height, signer).await? {
        return Ok(BlockRead::Found(found.into_iter().map(|tx| (tx, height)).collect()));
    }
    // Only nodes that have pruned the block, or keep no results, lack it for good.
    match node.read_at_any(|node| async move { node.block_results(height).await }).await {
        Err(error) if error.is_pruned() || error.has_no_results() => Ok(BlockRead::Missing),
        Err(error) => Err(error),
        Ok(_) => Err(node.unsent_error("a block was there only at the second question")),
    }
}

fn oldest_time() -> i128 {
    let age = i128::try_from(RESTORED_AGE.as_nanos()).unwrap_or(i128::MAX);
    timestamp::unix_nanos(&wall_clock::now()) - age
}
