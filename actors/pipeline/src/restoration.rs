//! Records that the journal has lost, taken again from the blocks of the chain before anything is signed.
//!
//! A block has the message of a transaction, and neither its idempotency key nor its caller. For a day the journal therefore refuses
//! a message that equals a restored one: the caller may be repeating it.

use std::collections::BTreeSet;

use futures::StreamExt;
use svc_kit::wall_clock;
use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{timestamp, tx::decode_tx_body};

use crate::{
    confirmer::{
        SigningAccount,
        block_reader::{AccountTx, BlockSigner, read_account_txs},
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

/// Searches the blocks for the transactions of the account that the journal does not know, the newest first.
pub(crate) async fn restore(
    store: &JournalStore,
    node: &NodeClient,
    account: &SigningAccount,
    facts: &NodeFacts,
) -> Result<Restoration, JournalError> {
    let used_below = facts.sequence.map_or(0, |fact| fact.sequence);
    let mut wanted: BTreeSet<u64> = (store.sequence_floor().await?..used_below).collect();
    let (signer, oldest) = (account.block_signer(facts), oldest_time());
    let read = |height| read_restorable(node.clone(), height, signer.clone(), oldest);
    let mut blocks = futures::stream::iter((1..=facts.height).rev()).map(read).buffered(CONCURRENT_READS);
    let mut restored = 0;
    while !wanted.is_empty()
        && let Some(Ok(Some(found))) = blocks.next().await
    {
        let missing = found.into_iter().filter(|(tx, _)| wanted.remove(&tx.sequence));
        let entries: Vec<JournalEntry> = missing.map(|(tx, height)| entry_of(tx, height)).collect();
        if !entries.is_empty() {
            restored += entries.len();
            store.write(&entries).await?;
        }
    }
    Ok(Restoration { restored, unexplained: wanted.len() })
}

/// Transactions of the account in a block; `None` when the block is too old, or no node has it.
async fn read_restorable(
    node: NodeClient,
    height: u64,
    signer: BlockSigner,
    oldest: i128,
) -> Result<Option<Vec<(AccountTx, u64)>>, NodeClientError> {
    if height.is_multiple_of(AGE_INTERVAL) {
        let time = node.block(height).await?.block.header.time;
        if timestamp::parse_rfc3339(&time).is_none_or(|time| timestamp::unix_nanos(&time) < oldest) {
            return Ok(None);
        }
    }
    let found = read_account_txs(&node, height, &signer).await?;
    Ok(found.map(|found| found.into_iter().map(|tx| (tx, height)).collect()))
}

fn oldest_time() -> i128 {
    let age = i128::try_from(RESTORED_AGE.as_nanos()).unwrap_or(i128::MAX);
    timestamp::unix_nanos(&wall_clock::now()) - age
}

fn entry_of(tx: AccountTx, height: u64) -> JournalEntry {
    let AccountTx { sequence, hash, bytes, result } = tx;
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
