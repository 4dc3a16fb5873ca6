//! Signs that the store is older than the transactions of the agent's account: a restored backup, or a second copy of the store.

use svc_agent_core::journal_key::{flow_session_of, resolution_version, session_of};
use svc_agent_store::AgentStore;
use svc_pipeline::{JournalHandle, JournalRecord, RecoveredJournal};
use svc_wire::{comet_rpc::BlockData, event_stream::IndexerEvent};

use super::ChainError;

/// Transactions of the agent's account that no store of its DID lacks.
const OWN_MESSAGES: [&str; 2] = ["MsgTriggerResolver", "MsgCreateOrUpdateParticipantSession"];
/// Records of the journal that are compared.
const MAX_RECORDS: u32 = 1_000;

/// A transaction of the agent's account that the store does not know.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store is older than the agent's account: {source_name} has the transaction {tx_hash}, which this store did not send. Use the \
     newest copy of the store, and run one agent with it"
)]
pub struct OlderStore {
    /// The place that has the transaction.
    pub source_name: String,
    /// Hash of the transaction, upper-case hex.
    pub tx_hash: String,
}

fn is_own_message(name: &str) -> bool {
    OWN_MESSAGES.contains(&name)
}

/// Whether the store must know a transaction of the journal: it was sent by an agent, was not refused by every node, and lies behind the
/// height at which the store was made.
fn must_know(record: &JournalRecord, made_at: u64) -> bool {
    let name = record.msg_type.rsplit('.').next().unwrap_or_default();
    record.state != "refused"
        && is_own_message(name)
        && record.block_height.is_none_or(|height| !record.is_from_block() || height > made_at)
}

/// Takes the transactions of the journal for those of a store that was recovered from a backup: its flows count the paid records at the node.
pub(super) async fn take_journal(store: &AgentStore, journal: &RecoveredJournal) -> Result<(), ChainError> {
    let records = journal.newest_records(MAX_RECORDS).await?;
    let hashes: Vec<&str> = records.iter().map(|record| record.tx_hash.as_str()).collect();
    Ok(store.note_transactions(&hashes).await?)
}

/// Refuses a journal with a transaction that the store does not know.
pub(super) async fn check_journal(
    store: &AgentStore,
    did: &str,
    journal: &RecoveredJournal,
    made_at: u64,
) -> Result<(), ChainError> {
    let progress = store.resolution_progress().await?;
    for record in journal.newest_records(MAX_RECORDS).await? {
        // The store notes a version before the journal has its transaction.
        let key = record.idempotency_key.as_deref().unwrap_or_default();
        // The store has a credential before its session is sent.
        let is_noted = match (session_of(did, key), flow_session_of(key)) {
            (Some(session), _) => store.credential(&format!("{did}#{session}")).await?.is_some(),
            (None, Some((session, round))) => {
                let flow = store.flow_of_session(session).await?;
                // The credential of an earlier round, and that of a flow that has ended, may be dropped.
                flow.is_some_and(|flow| {
                    let number = flow.round.number;
                    flow.has_signed_in(round) || round < number || (flow.state.is_terminal() && round == number)
                })
            }
            (None, None) => resolution_version(did, key).is_some_and(|version| version <= progress.submitted),
        };
        if must_know(&record, made_at) && !is_noted && !store.knows_transaction(&record.tx_hash).await? {
            let source_name = "the journal".to_owned();
            return Err(OlderStore { source_name, tx_hash: record.tx_hash }.into());
        }
    }
    Ok(())
}

/// Knows the transactions of the agent's account again in registry events.
#[derive(Clone)]
pub struct OwnWrites {
    pub(crate) account: String,
    pub(crate) made_at: u64,
    pub(crate) store: AgentStore,
    pub(crate) journal: JournalHandle,
}

impl OwnWrites {
    /// Whether an event states a transaction that the store must know.
    pub fn concerns(&self, event: &IndexerEvent) -> bool {
        event.payload.sender == self.account
            && event.block_height > self.made_at
            && is_own_message(&event.payload.message_type)
    }

    /// Whether a block has a transaction, and the transaction names the account.
    pub fn is_in(&self, block: &BlockData, tx_hash: &str) -> bool {
        let account = self.account.as_bytes();
        let names = |bytes: &[u8]| bytes.windows(account.len()).any(|window| window == account);
        block.decode_txs().iter().any(|bytes| svc_wire::tx::tx_hash(bytes) == tx_hash && names(bytes))
    }

    /// Refuses a transaction that neither the store nor the journal knows. One that the journal has from its block does not count.
    pub async fn check(&self, tx_hash: &str) -> Result<(), ChainError> {
        if self.store.knows_transaction(tx_hash).await? {
            return Ok(());
        }
        let record = self.journal.find_by_hash(tx_hash).await?;
        if record.is_some_and(|record| !record.is_from_block()) {
            return Ok(());
        }
        Err(OlderStore { source_name: "the registry".to_owned(), tx_hash: tx_hash.to_owned() }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_account_sent_before_the_store_was_made_is_no_sign() {
        let record = |msg_type: &str, is_from_block: bool, block_height| JournalRecord {
            tx_hash: "AB".to_owned(),
            write_id: if is_from_block { "AB".to_owned() } else { "write".to_owned() },
            msg_type: msg_type.to_owned(),
            block_height,
            ..JournalRecord::default()
        };
        for (msg_type, is_from_block, height, expected) in [
            ("/svc.pp.v1.MsgTriggerResolver", true, Some(11), true),
            ("/svc.pp.v1.MsgTriggerResolver", true, Some(10), false),
            ("/svc.pp.v1.MsgTriggerResolver", false, Some(10), true),
            ("/svc.pp.v1.MsgTriggerResolver", false, None, true),
            ("/svc.pp.v1.MsgCreateOrUpdateParticipantSession", true, Some(11), true),
            ("/cosmos.bank.v1beta1.MsgSend", true, Some(11), false),
        ] {
            assert_eq!(must_know(&record(msg_type, is_from_block, height), 10), expected, "{msg_type} {height:?}");
        }
        let refused = record("/svc.pp.v1.MsgTriggerResolver", false, None);
        assert!(!must_know(&JournalRecord { state: "refused".to_owned(), ..refused }, 10), "no block can have it");
    }
}
