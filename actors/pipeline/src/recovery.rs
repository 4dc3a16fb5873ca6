//! Recovery before the first write: the transactions that an earlier process left open, compared with the chain.

use std::collections::HashMap;

use svc_kit::wall_clock;
use svc_net::upstream::NodeClient;
use svc_otel::metrics;

use crate::{
    chain::{account::AccountIdentity, params::ChainParams},
    confirmer::{SigningAccount, block_reader::BlockReader, core::PendingTx, look_up, read_node_facts},
    history::check_history,
    journal::{
        core::RecoverySummary,
        error::{JournalError, RecoveryError},
        record::JournalRecord,
        store::{JournalPlace, JournalStore},
    },
    known_history::{BlockPin, ChainChange, HistoryState},
    restoration::{Restoration, Restorer},
    write::{
        daily_fees::UtcDay,
        in_flight::{InFlightTable, InFlightTx},
        outcome::WriteOutcome,
        submission::SubmissionId,
    },
};

/// The journal of an account, opened and compared with the chain.
pub struct RecoveredJournal {
    pub(crate) store: JournalStore,
    pub(crate) table: InFlightTable,
    pub(crate) summary: RecoverySummary,
    /// Number of the first submission of this process.
    pub(crate) next_submission: u64,
    /// Whether every sequence of the account was compared with the journal.
    is_compared: bool,
    /// The comparison of the journal with the blocks of the node.
    pub(crate) history: HistoryState,
}

impl RecoveredJournal {
    /// Opens the journal and decides the open transactions that the node can decide now. A node that does not answer leaves them
    /// open, and the confirmer continues with them. A node with another history decides nothing: the journal and `known`, a block that the
    /// embedder knows, show one.
    pub async fn open(
        place: &JournalPlace,
        chain: &ChainParams,
        identity: &AccountIdentity,
        node: &NodeClient,
        known: Option<BlockPin>,
    ) -> Result<Self, RecoveryError> {
        let account = SigningAccount::new(identity, chain);
        let address = account.address.as_str();
        let store = JournalStore::open(place, &format!("{}/{address}", chain.chain_id)).await?;
        let history = check_history(&store, node, known).await?;
        let node = node.pinned();
        // The blocks of another history decide no transaction of this one.
        let (facts, restoration) = if history.change().is_some() {
            (None, Restoration::default())
        } else {
            let facts = read_node_facts(&node, address).await.ok();
            let restorer = Restorer { store: &store, node: &node, account: &account, denom: &chain.denom };
            let not_restored = || RecoveryError::NotRestored { location: store.location().to_owned() };
            let restoration = restorer.restore(facts.as_ref()).await?.ok_or_else(not_restored)?;
            (facts, restoration)
        };
        let mut submissions = HashMap::<String, SubmissionId>::new();
        let open = store
            .open_transactions(|write_id| {
                let next = SubmissionId(submissions.len() as u64 + 1);
                *submissions.entry(write_id.to_owned()).or_insert(next)
            })
            .await?;
        let daily_fees = store.daily_fees(UtcDay::of(&wall_clock::now())).await?;
        let floor = store.sequence_floor().await?;
        let mut recovered = Self {
            store,
            table: InFlightTable::with_sequence_floor(floor),
            summary: RecoverySummary { found: open.len(), ..RecoverySummary::default() },
            next_submission: submissions.len() as u64 + 1,
            is_compared: false,
            history,
        };
        recovered.table.set_daily_fees(daily_fees);
        recovered.summary.restored = restoration.restored;
        recovered.summary.unexplained = restoration.unexplained;
        recovered.is_compared = restoration.is_compared;
        let pending: Vec<PendingTx> = open.iter().map(PendingTx::from).collect();
        let answers = match &facts {
            Some(facts) => look_up(&node, &BlockReader::default(), &account, facts, &pending).await,
            None => Vec::new(),
        };
        // Without an answer a transaction stays open, and the confirmer follows it.
        let outcomes = answers.into_iter().map(Result::ok).chain(std::iter::repeat(None));
        for (tx, outcome) in open.into_iter().zip(outcomes) {
            metrics::record_tx_recovered("found");
            recovered.restore(tx, outcome);
        }
        if let (Some(facts), true) = (facts, floor > 0)
            && let Some(expected_sequence) = facts.sequence.map(|fact| fact.sequence).filter(|found| *found < floor)
            && recovered.is_newest_below(facts.height).await?
        {
            return Err(RecoveryError::ChainMismatch {
                location: recovered.store.location().to_owned(),
                used_sequence: floor - 1,
                height: facts.height,
                expected_sequence,
            });
        }
        Ok(recovered)
    }

    fn restore(&mut self, tx: InFlightTx, outcome: Option<WriteOutcome>) {
        let hash = tx.hash.clone();
        self.table.add(tx);
        if let Some(outcome) = outcome {
            self.summary.count_outcome(&outcome);
            metrics::record_tx_recovered(outcome.label());
            self.table.decide(&hash, outcome);
        }
    }

    /// Whether the block of the newest transaction in the journal is below a height.
    async fn is_newest_below(&self, height: u64) -> Result<bool, JournalError> {
        Ok(self.store.newest_used_height().await?.is_some_and(|newest| newest < height))
    }

    /// The other history that the node has: nothing is signed.
    pub fn chain_change(&self) -> Option<&ChainChange> {
        self.history.change()
    }

    /// Transactions that were open and their outcomes so far.
    pub fn summary(&self) -> &RecoverySummary {
        &self.summary
    }

    /// Transactions of a write, the oldest first.
    pub async fn transactions_of_write(&self, write_id: &str) -> Result<Vec<JournalRecord>, JournalError> {
        self.store.find_by_write(write_id).await
    }

    /// The newest transactions, newest first, at most `count`.
    pub async fn newest_records(&self, count: u32) -> Result<Vec<JournalRecord>, JournalError> {
        self.store.newest_records(count).await
    }

    /// Hash of a line of the embedder's audit, the newest that the journal knows.
    pub async fn audit_head(&self) -> Result<Option<String>, JournalError> {
        self.store.audit_head().await
    }

    /// Time since which the journal has every transaction of the account, RFC 3339; `None` for one that does not know.
    pub async fn complete_since(&self) -> Result<Option<String>, JournalError> {
        if self.summary.unexplained > 0 || !self.is_compared {
            return Ok(None);
        }
        self.store.complete_since().await
    }
}
