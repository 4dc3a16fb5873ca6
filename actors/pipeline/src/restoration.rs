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
use tokio::time::Instant;

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

/// The result of a restoration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Restoration {
    /// Transactions of the account that blocks contain and the journal did not.
    pub restored: u64,
    /// Sequences that the account has used and of which no block of the last day that a node has shows the transaction.
    pub unexplained: u64,
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
    /// when this must be done and a node did not answer.
    pub async fn restore(&self, facts: Option<&NodeFacts>) -> Result<Option<Restoration>, JournalError> {
        let is_lossy = self.store.loss().is_some();
        if !is_lossy && !self.store.is_on_disk() {
            return Ok(Some(Restoration::default()));
        }
        let Some((facts, state)) = facts.and_then(|facts| Some((facts, facts.sequence?))) else {
            return Ok((!is_lossy).then(Restoration::default));
        };
        let mut unknown = self.store.unknown_sequences(state.sequence).await?;
        if unknown.count() == 0 && !is_lossy {
            return Ok(Some(Restoration::default()));
        }
        tracing::warn!(
            journal = self.store.location(),
            unknown = unknown.count(),
            is_lossy,
            "the account has used sequences that the journal does not know; their transactions are looked for in blocks"
        );
        let is_required = is_lossy || !unknown.is_new_journal;
        let deadline = (!is_required).then(|| Instant::now() + NEW_JOURNAL_SEARCH);
        let (restored, end) = self.search(facts, state, &mut unknown, deadline).await?;
        let end = match end {
            Ok(end) => end,
            Err(error) if is_required => {
                tracing::error!(%error, "a block with records that the journal does not have cannot be read");
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(%error, "a block before the new journal cannot be read");
                SearchEnd::OutOfTime
            }
        };
        let unexplained = unknown.count();
        // A state whose blocks were all read and do not explain it is no true one, so that it is not kept.
        let is_believed = unexplained == 0 || matches!(end, SearchEnd::TooOld | SearchEnd::OutOfTime);
        self.store.end_restoration(is_believed.then_some((state.sequence, state.height))).await?;
        tracing::warn!(
            journal = self.store.location(),
            restored,
            unexplained,
            ?end,
            "transactions that the journal did not know were taken from blocks; for a day a write with the same message is refused"
        );
        Ok(Some(Restoration { restored, unexplained }))
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
        let newest = state.height.min(facts.height);
        let mut blocks =
            futures::stream::iter((unknown.lowest_height..=newest).rev()).map(read).buffered(CONCURRENT_READS);
        let (mut restored, mut has_read) = (0, false);
        while unknown.count() > 0 {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok((restored, Ok(SearchEnd::OutOfTime)));
            }
            let found = match blocks.next().await {
                Some(Ok(BlockRead::Found(found))) => found,
                Some(Ok(BlockRead::TooOld)) => return Ok((restored, Ok(SearchEnd::TooOld))),
                Some(Ok(BlockRead::Missing)) if has_read => return Ok((restored, Ok(SearchEnd::Missing))),
                Some(Ok(BlockRead::Missing)) => {
                    let reason = format!("no node has block {newest}, of which one has stated the account");
                    let error = self.node.endpoints().current().protocol_error(reason, &[]);
                    return Ok((restored, Err(error.into())));
                }
                Some(Err(error)) => return Ok((restored, Err(error))),
                None => break,
            };
            has_read = true;
            let mut entries = Vec::new();
            for (tx, height) in found.into_iter().filter(|(tx, _)| unknown.explain(tx.sequence)) {
                entries.push(self.entry_of(tx, height).await);
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
        let time = match node.block(height).await {
            Ok(block) => timestamp::parse_rfc3339(&block.block.header.time),
            Err(NodeClientError::Rpc { .. }) => return Ok(BlockRead::Missing),
            Err(error) => return Err(error),
        };
        if time.is_some_and(|time| timestamp::unix_nanos(&time) < oldest) {
            return Ok(BlockRead::TooOld);
        }
    }
    let found = read_account_txs(node, height, signer).await?;
    let at_height = |found: Vec<AccountTx>| found.into_iter().map(|tx| (tx, height)).collect();
    Ok(found.map_or(BlockRead::Missing, |found| BlockRead::Found(at_height(found))))
}

fn oldest_time() -> i128 {
    let age = i128::try_from(RESTORED_AGE.as_nanos()).unwrap_or(i128::MAX);
    timestamp::unix_nanos(&wall_clock::now()) - age
}
