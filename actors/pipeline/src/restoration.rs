//! Records that the journal has lost, taken again from the blocks of the chain before anything is signed.
//!
//! A block has the message of a transaction, and neither its idempotency key nor its caller. For a day the journal therefore refuses
//! a message that equals a restored one: the caller may be repeating it.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use svc_kit::wall_clock;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{timestamp, tx::decode_tx_body};

use crate::{
    confirmer::{
        SigningAccount,
        block_reader::{AccountTx, BlockSigner, read_account_txs, read_agreed_result},
        core::NodeFacts,
    },
    journal::{
        core::{JournalEntry, RestoredEntry, TxResultEntry},
        error::JournalError,
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

/// The result of a restoration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Restoration {
    /// Transactions of the account that blocks contain and the journal did not.
    pub restored: usize,
    /// Sequences that the account has used and of which no block of the last day that a node has shows the transaction.
    pub unexplained: usize,
}

/// Searches the blocks for the transactions of the account that the journal does not know, the newest first. `None` when a node did not
/// answer for a block.
pub(crate) async fn restore(
    store: &JournalStore,
    node: &NodeClient,
    account: &SigningAccount,
    facts: &NodeFacts,
) -> Result<Option<Restoration>, JournalError> {
    let Some(state) = facts.sequence else { return Ok(None) };
    let mut wanted: BTreeSet<u64> = (store.sequence_floor().await?..state.sequence).collect();
    let (signer, oldest) = (account.block_signer(facts), oldest_time());
    let read = |height| read_restorable(node.clone(), height, signer.clone(), oldest);
    // The block of the state was executed, and its results are there.
    let heights = (1..=state.height.min(facts.height)).rev();
    let mut blocks = futures::stream::iter(heights).map(read).buffered(CONCURRENT_READS);
    let mut restored = 0;
    while !wanted.is_empty() {
        let found = match blocks.next().await {
            Some(Ok(BlockRead::Found(found))) => found,
            // Without these blocks the rest stays unexplained.
            Some(Ok(BlockRead::TooOld)) | None => break,
            Some(Err(error)) => {
                tracing::error!(%error, "a block of the lost records cannot be read");
                return Ok(None);
            }
        };
        let mut entries = Vec::new();
        for (tx, height) in found.into_iter().filter(|(tx, _)| wanted.remove(&tx.sequence)) {
            entries.push(entry_of(node, tx, height).await);
        }
        if !entries.is_empty() {
            restored += entries.len();
            store.write(&entries).await?;
        }
    }
    Ok(Some(Restoration { restored, unexplained: wanted.len() }))
}

/// A block that was read for the transactions of the account.
enum BlockRead {
    /// The transactions, with their height.
    Found(Vec<(AccountTx, u64)>),
    /// It is older than the search goes, or no node has it any more.
    TooOld,
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
            Err(NodeClientError::Rpc { .. }) => None,
            Err(error) => return Err(error),
        };
        if time.is_none_or(|time| timestamp::unix_nanos(&time) < oldest) {
            return Ok(BlockRead::TooOld);
        }
    }
    let found = read_account_txs(node, height, signer).await?;
    let at_height = |found: Vec<AccountTx>| found.into_iter().map(|tx| (tx, height)).collect();
    Ok(found.map_or(BlockRead::TooOld, |found| BlockRead::Found(at_height(found))))
}

fn oldest_time() -> i128 {
    let age = i128::try_from(RESTORED_AGE.as_nanos()).unwrap_or(i128::MAX);
    timestamp::unix_nanos(&wall_clock::now()) - age
}

/// The entry of a transaction. One node's word that it has failed does not free its message.
async fn entry_of(node: &NodeClient, tx: AccountTx, height: u64) -> JournalEntry {
    let AccountTx { sequence, hash, bytes, mut result } = tx;
    if result.code != 0 && !matches!(read_agreed_result(node, height, &hash).await, Ok(Some(_))) {
        result.code = 0;
    }
    let body = decode_tx_body(&bytes).unwrap_or_default();
    let timeout_height = body.timeout_height;
    let message = body.messages.into_iter().next().unwrap_or_default();
    let message = EncodedMessage {
        message: prost_types::Any { type_url: message.type_url, value: message.value },
        needs_grant: false,
    };
    tracing::warn!(
        tx_hash = hash,
        sequence,
        height,
        msg_type = message.msg_type(),
        "a lost record is taken from its block"
    );
    JournalEntry::Restored(Box::new(RestoredEntry {
        hash,
        sequence,
        timeout_height,
        message,
        result: TxResultEntry::new(height, &result, true),
        restored_at: wall_clock::now_rfc3339(),
    }))
}
