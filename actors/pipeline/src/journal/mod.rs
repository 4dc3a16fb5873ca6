//! The journal: every signed transaction is on disk before it is sent, and its outcome after it is decided.
//!
//! The actor owns the database connection; the outbox of entries that are not on disk yet is retained by the tree. The signer, the
//! confirmer and write tasks add entries, in order; the actor writes them in groups, one database transaction each. When it dies,
//! the next incarnation continues with the rest of the outbox. The next process follows the transactions that it finds open.

mod actor;
mod columns;
pub(crate) mod core;
#[cfg(test)]
mod durability_tests;
mod entry_sql;
pub(crate) mod error;
pub(crate) mod health;
pub(crate) mod inspection;
mod integrity;
mod pins;
mod rebase;
pub(crate) mod record;
mod schema;
pub(crate) mod sequences;
pub(crate) mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use svc_kit::{CallError, Handle, ReplyPort, RetainedState, impl_actor_message, wall_clock};
use svc_wire::timestamp;
use tokio::time::Instant;

pub use actor::JournalWriter;

use self::{
    core::{JournalEntry, JournalOutbox, SignedTxEntry},
    error::{JournalError, JournalLoss},
    health::{JournalFailure, JournalHealth},
    record::JournalRecord,
    store::{JournalStore, RESTORED_AGE},
};
use crate::{
    known_history::{BlockPin, ChainChange, HistoryCheck, HistoryState},
    write::{
        in_flight::InFlightTx,
        message::EncodedMessage,
        outcome::{TxRefusal, WriteOutcome},
    },
};

/// Messages of the journal.
pub enum Msg {
    /// The outbox has entries.
    Flush,
    /// The pause after a failed write is over.
    Retry,
    /// Answer when an entry is on disk.
    AwaitWritten {
        /// Number of the entry.
        number: u64,
        /// The answer.
        reply: ReplyPort<Result<(), JournalError>>,
    },
}

impl_actor_message!(Msg { Flush, Retry, AwaitWritten });

/// Arguments of a journal.
pub struct Args {
    /// The database.
    pub store: JournalStore,
    /// Entries that are not on disk yet.
    pub outbox: RetainedState<JournalOutbox>,
    /// Whether the last write succeeded.
    pub health: RetainedState<JournalHealth>,
}

/// Longest wait of a read for the entries before it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the state of a transaction that could not be recorded.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait of a signed transaction for the disk.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The handle of the journal. Clones share it.
#[derive(Clone)]
pub struct JournalHandle {
    store: JournalStore,
    outbox: RetainedState<JournalOutbox>,
    health: RetainedState<JournalHealth>,
    history: RetainedState<HistoryState>,
    actor: Handle<Msg>,
}

impl JournalHandle {
    /// A journal over an open store whose history was compared, and the arguments of its actor.
    pub(crate) fn new(store: JournalStore, history: HistoryState, mailbox_limit: usize) -> (Self, Args) {
        let outbox = RetainedState::new(JournalOutbox::default());
        let health = RetainedState::new(JournalHealth::default());
        let args = Args { store: store.clone(), outbox: outbox.clone(), health: health.clone() };
        let (history, actor) = (RetainedState::new(history), Handle::new("journal", "journal", mailbox_limit));
        (Self { store, outbox, health, history, actor }, args)
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.actor
    }

    /// Records a transaction and waits until the record is on disk. To be called before every send of the transaction.
    pub(crate) async fn record_signed(&self, tx: InFlightTx) -> Result<(), JournalError> {
        self.record_within(tx, true, WRITE_TIMEOUT).await
    }

    /// Records a transaction that may have been sent before, and waits until the record is on disk. An earlier record stays as it is.
    pub(crate) async fn record_again(&self, tx: InFlightTx) -> Result<(), JournalError> {
        self.record_within(tx, false, WRITE_TIMEOUT).await
    }

    async fn record_within(&self, tx: InFlightTx, is_first: bool, wait_limit: Duration) -> Result<(), JournalError> {
        let hash = tx.hash.clone();
        let entry = JournalEntry::Signed(Box::new(SignedTxEntry { tx, signed_at: wall_clock::now_rfc3339() }));
        let number = self.outbox.with(|outbox| outbox.try_push(entry));
        let number = number.map_err(|full| JournalError::Unresponsive(full.to_string()))?;
        let deadline = Instant::now() + wait_limit;
        let written = self
            .actor
            .ask_through_restarts(deadline, |wait_limit| {
                self.actor.ask_within(wait_limit, |reply| Msg::AwaitWritten { number, reply })
            })
            .await
            .map_err(|error| JournalError::Unresponsive(error.to_string()))
            .and_then(|written| written);
        match written {
            Err(error) if is_first => Err(self.abandon(number, &hash, error).await),
            written => written,
        }
    }

    /// A transaction could not be recorded and is not sent. The next process must not find it open and send it: the error says
    /// whether that is certain.
    async fn abandon(&self, number: u64, hash: &str, error: JournalError) -> JournalError {
        // A commit that failed may be on disk all the same. A new connection shows the transaction just as the next process would.
        let is_waiting = self.outbox.with(|outbox| outbox.abandon(number, hash));
        if is_waiting && matches!(error, JournalError::Lost(_)) {
            return error;
        }
        match tokio::time::timeout(LOOK_TIMEOUT, self.store.find_by_hash(hash)).await {
            Ok(Ok(None)) if is_waiting => error,
            _ => match self.settle().await {
                Ok(()) => error,
                Err(_) => JournalError::Uncertain(error.to_string()),
            },
        }
    }

    /// Waits until every entry so far is on disk.
    pub(crate) async fn settle(&self) -> Result<(), JournalError> {
        let Some(last) = self.outbox.with(|outbox| outbox.next_number().checked_sub(1)) else { return Ok(()) };
        self.await_written(last, WRITE_TIMEOUT).await.map_err(|error| match error {
            CallError::Refused(error) => error,
            CallError::Unanswered(error) => JournalError::Unresponsive(error.to_string()),
        })
    }

    /// The reason why nothing can be recorded at present, so that nothing is signed.
    pub fn failure(&self) -> Option<JournalFailure> {
        let failure = self.health.with(|health| health.failure());
        failure.or_else(|| self.store.space_shortage())
    }

    /// Commits that the journal had acknowledged before this process and does not have any more.
    pub fn loss(&self) -> Option<JournalLoss> {
        self.store.loss()
    }

    async fn await_written(&self, number: u64, wait_limit: Duration) -> Result<(), CallError<JournalError>> {
        let written = self.actor.ask_within(wait_limit, |reply| Msg::AwaitWritten { number, reply }).await?;
        written.map_err(CallError::Refused)
    }

    /// Records that a transaction was never sent.
    pub(crate) fn record_unsent(&self, hash: &str) {
        if self.outbox.with(|outbox| outbox.is_full()) {
            // The disk is gone, and the transaction itself was not recorded either.
            return;
        }
        self.append(JournalEntry::Unsent { hash: hash.to_owned() });
    }

    /// Records that a transaction was refused.
    pub(crate) fn record_refused(&self, hash: &str, refusal: &TxRefusal) {
        self.append(JournalEntry::Refused { hash: hash.to_owned(), refusal: refusal.clone() });
    }

    /// Records the outcome of a transaction.
    pub(crate) fn record_decided(&self, tx: &InFlightTx, outcome: &WriteOutcome) {
        self.append(JournalEntry::decided(tx, outcome, wall_clock::now_rfc3339()));
    }

    /// The other history that the node has, so that nothing is signed: a person decides, by a rebase of the journal.
    pub fn chain_change(&self) -> Option<ChainChange> {
        self.history.with(|history| history.change().cloned())
    }

    /// Whether the node has another history than the journal.
    pub(crate) fn has_chain_changed(&self) -> bool {
        self.history.with(|history| history.change().is_some())
    }

    /// Whether a block with this parent follows the newest known one.
    pub(crate) fn is_continued_by(&self, height: u64, parent: &str) -> bool {
        self.history.with(|history| history.is_continued_by(height, parent))
    }

    /// The newest known block of the chain.
    pub(crate) fn known_block(&self) -> Option<BlockPin> {
        self.history.with(|history| history.known().cloned())
    }

    /// Records a comparison with the node; true when the chain has changed with it, or has its known history again.
    pub(crate) fn record_check(&self, check: HistoryCheck) -> bool {
        self.history.with(|history| history.record(check))
    }

    /// The database.
    pub(crate) fn store(&self) -> &JournalStore {
        &self.store
    }

    /// The nodes are in dispute: only the pinned blocks are known from now on.
    pub(crate) async fn forget_unpinned(&self) {
        let pins = self.pins().await;
        self.history.with(|history| history.forget_unpinned(pins));
    }

    /// The newest known blocks of the chain, the lowest first.
    pub(crate) fn recent_blocks(&self) -> Vec<BlockPin> {
        self.history.with(|history| history.recent().cloned().collect())
    }

    /// Pins the newest known block, by which a later process recognizes the chain; of a history that has ended, all that show where it ended.
    pub(crate) async fn pin_known(&self) {
        let blocks = self.recent_blocks();
        let written = match (self.chain_change(), blocks.last()) {
            (_, None) => return,
            (Some(change), _) => {
                let first = change.agreed.unwrap_or(change.height);
                let ended: Vec<BlockPin> = blocks.into_iter().filter(|block| block.height >= first).collect();
                self.store.pin_ended(&ended).await
            }
            (None, Some(newest)) => self.store.pin_block(newest).await,
        };
        if let Err(error) = written {
            tracing::warn!(%error, "the newest block cannot be pinned in the journal");
            // The journal tries again until it can be written.
            self.health.with(|health| health.record_failure(error.to_string()));
            self.actor.notify(Msg::Flush);
        }
    }

    /// The pinned blocks, the lowest first; none while the journal cannot be read.
    pub(crate) async fn pins(&self) -> Vec<BlockPin> {
        self.store.pins().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the pinned blocks cannot be read");
            Vec::new()
        })
    }

    /// Records that a caller was answered before the transaction was decided.
    pub fn record_timeout(&self, hash: &str) {
        self.append(JournalEntry::CallerTimedOut { hash: hash.to_owned() });
    }

    /// Records the answer of a write that has an idempotency key.
    pub fn record_answer(&self, hash: &str, answer: String) {
        self.append(JournalEntry::Answered { hash: hash.to_owned(), answer });
    }

    /// Records the hash of the newest line of the embedder's audit, together with the next entry: it costs no commit of its own.
    pub fn record_audit_head(&self, hash: &str) {
        let entry = JournalEntry::AuditHead { hash: hash.to_owned() };
        self.outbox.with(|outbox| outbox.replace_audit_head(entry));
    }

    /// Writes the entries that wait for another one.
    pub fn write_soon(&self) {
        self.actor.notify(Msg::Flush);
    }

    fn append(&self, entry: JournalEntry) {
        self.outbox.with(|outbox| outbox.push(entry));
        // A journal that is restarting writes the whole outbox once it is back.
        self.actor.notify(Msg::Flush);
    }

    /// Entries since the start of the process.
    pub fn entry_count(&self) -> u64 {
        self.outbox.with(|outbox| outbox.next_number())
    }

    /// `memory`, or the file.
    pub fn location(&self) -> &str {
        self.store.location()
    }

    /// Transactions of a write, the oldest first.
    pub async fn find_by_write(&self, write_id: &str) -> Result<Vec<JournalRecord>, JournalError> {
        self.store.find_by_write(write_id).await
    }

    /// The transaction under an idempotency key that has its outcome, or may still get it: the one in a block, otherwise the last one
    /// that is not certain never to have executed.
    pub async fn find_by_key(&self, principal: &str, key: &str) -> Result<Option<JournalRecord>, JournalError> {
        self.flush(FLUSH_TIMEOUT).await;
        self.store.find_by_key(principal, key).await
    }

    /// A successful transaction with this message that was restored from a block within the last day, with the block's height.
    pub(crate) async fn find_restored(&self, message: &EncodedMessage) -> Result<Option<(String, u64)>, JournalError> {
        let now = timestamp::unix_nanos(&wall_clock::now());
        let age = i128::try_from(RESTORED_AGE.as_nanos()).unwrap_or(i128::MAX);
        let since = timestamp::iso_millis(&timestamp::from_unix_nanos(now - age));
        self.store.find_restored(&message.digest(), &since).await
    }

    /// A transaction by its hash.
    pub async fn find_by_hash(&self, hash: &str) -> Result<Option<JournalRecord>, JournalError> {
        self.flush(FLUSH_TIMEOUT).await;
        self.store.find_by_hash(hash).await
    }

    /// The transaction that speaks for the write of a transaction which never executes: another one of the write that is in a block, or
    /// that may still execute.
    pub async fn find_successor(&self, record: &JournalRecord) -> Result<Option<JournalRecord>, JournalError> {
        let others = self.store.find_by_write(&record.write_id).await?;
        let find = |is_wanted: fn(&str) -> bool| others.iter().rfind(|other| is_wanted(&other.state)).cloned();
        Ok(find(|state| state == "included").or_else(|| find(|state| state.starts_with("open"))))
    }

    /// The newest transactions, newest first, at most `count`.
    pub async fn newest_records(&self, count: u32) -> Result<Vec<JournalRecord>, JournalError> {
        self.flush(FLUSH_TIMEOUT).await;
        self.store.newest_records(count).await
    }

    /// Waits until every entry so far is on disk, at most `wait_limit`.
    pub async fn flush(&self, wait_limit: Duration) {
        let last = self.outbox.with(|outbox| outbox.next_number().checked_sub(1));
        if let Some(number) = last {
            let _ = self.await_written(number, wait_limit).await;
        }
    }
}
