//! The database of the journal: an SQLite file, or a database in memory.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{Row as _, Sqlite, SqliteConnection, SqlitePool, sqlite::SqliteRow};
use svc_kit::wall_clock;
use svc_store::{MinFreeSpace, StoreError, StoreHead, StoreLock, StoreTransaction, StoreWriter};

use super::{
    columns::{read_optional, read_unsigned},
    core::JournalEntry,
    entry_sql::write_entry,
    error::{JournalError, JournalLoss},
    health::JournalFailure,
    integrity::{add_to_sum, removed_sum, update_checksums},
    record::{JournalRecord, split_abandoned},
    schema,
};
use crate::write::{
    daily_fees::{DailyFees, UtcDay},
    fee::FeeLimits,
    in_flight::InFlightTx,
    intent::{WriteIntent, WriteOrigin},
    message::EncodedMessage,
    submission::SubmissionId,
};

/// Transactions that stay in the database, on disk and in memory.
const MAX_RECORDS_ON_DISK: i64 = 100_000;
const MAX_RECORDS_IN_MEMORY: i64 = 5_000;
/// Age of the oldest block from which a lost record is restored, and the time for which a message that equals it is refused.
pub(crate) const RESTORED_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Transactions between two prunings.
pub(super) const PRUNE_EVERY: u64 = 1_000;

/// The place of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalPlace {
    /// Its file; `None` keeps it in memory.
    pub file: Option<String>,
    /// Free bytes on the disk of the file below which nothing is signed.
    pub min_free_space: MinFreeSpace,
}

/// The database. Clones share it.
#[derive(Clone)]
pub struct JournalStore {
    writer: StoreWriter<Sqlite>,
    /// Held as long as the journal is open; `None` in memory.
    lock: Option<Arc<StoreLock>>,
    identity: Arc<str>,
    location: Arc<str>,
    max_records: i64,
    min_free_space: MinFreeSpace,
    loss: Option<JournalLoss>,
    /// Whether some records were restored from blocks.
    has_restored: Arc<AtomicBool>,
    /// Keeps a database in memory.
    _anchor: Arc<Mutex<Option<SqliteConnection>>>,
}

impl JournalStore {
    /// Opens the journal in a file, or creates one in memory. `owner` names chain and account; a journal has one owner.
    pub async fn open(place: &JournalPlace, owner: &str) -> Result<Self, JournalError> {
        let file = place.file.as_deref();
        let database = schema::open(file, owner).await?;
        let store = Self {
            location: file.unwrap_or("memory").into(),
            max_records: if file.is_some() { MAX_RECORDS_ON_DISK } else { MAX_RECORDS_IN_MEMORY },
            min_free_space: place.min_free_space,
            loss: database.loss,
            identity: database.identity.into(),
            lock: database.lock.map(Arc::new),
            _anchor: Arc::new(Mutex::new(database.anchor)),
            has_restored: Arc::new(AtomicBool::new(database.has_restored)),
            writer: database.writer,
        };
        store.record_head();
        Ok(store)
    }

    /// Its connection, for reads.
    pub(super) fn pool(&self) -> &SqlitePool {
        self.writer.pool()
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<StoreTransaction<Sqlite>, StoreError> {
        self.writer.begin().await
    }

    #[cfg(test)]
    pub(super) fn with_max_records(self, max_records: i64) -> Self {
        Self { max_records, ..self }
    }

    /// Closes the database and releases its lock.
    pub(crate) async fn close(self) {
        self.writer.pool().close().await;
    }

    /// Commits that the journal had acknowledged and does not have any more.
    pub fn loss(&self) -> Option<JournalLoss> {
        self.loss
    }

    /// The failure that the disk of the journal has less than the least free space.
    pub fn space_shortage(&self) -> Option<JournalFailure> {
        let free = self.is_on_disk().then(|| self.min_free_space.shortage(Path::new(&*self.location)))??;
        Some(JournalFailure {
            since: wall_clock::now_rfc3339(),
            reason: format!(
                "{free} bytes are free on the disk of {}, less than {}",
                self.location, self.min_free_space
            ),
        })
    }

    /// Height of the newest block with a transaction of the account.
    pub async fn newest_used_height(&self) -> Result<Option<u64>, JournalError> {
        let sql = "SELECT MAX(block_height) AS newest FROM transactions WHERE uses_sequence = 1";
        let row = sqlx::query(sql).fetch_one(self.writer.pool()).await?;
        Ok(read_optional(&row, "newest")?)
    }

    /// Keeps the newest commit in the lock file as well, where the next boot compares it.
    pub(super) fn record_head(&self) {
        let Some(lock) = &self.lock else { return };
        let head = StoreHead { identity: self.identity.to_string(), commit: self.writer.last_commit() };
        if let Err(error) = lock.record(&head) {
            tracing::warn!(%error, lock = %lock.path().display(), "the newest commit of the journal cannot be noted");
        }
    }

    /// Whether the journal outlives the process.
    pub fn is_on_disk(&self) -> bool {
        self.lock.is_some()
    }

    /// `memory`, or the file.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Writes entries in one database transaction. A repetition changes nothing. After an error none of them is on disk, or all are.
    pub async fn write(&self, entries: &[JournalEntry]) -> Result<(), JournalError> {
        let mut transaction = self.writer.begin().await?;
        let mut must_prune = false;
        for entry in entries {
            must_prune |= write_entry(&mut transaction, entry).await?;
        }
        if entries.iter().any(|entry| matches!(entry, JournalEntry::Restored(_))) {
            self.has_restored.store(true, Ordering::Release);
        }
        let hashes: BTreeSet<&str> = entries.iter().map(JournalEntry::hash).collect();
        let mut change = update_checksums(&mut transaction, &hashes).await?;
        if must_prune {
            let sql = "DELETE FROM transactions WHERE state NOT LIKE 'open%' AND \
                       number <= (SELECT MAX(number) FROM transactions) - ? RETURNING checksum";
            let removed = sqlx::query(sql).bind(self.max_records).fetch_all(&mut *transaction).await?;
            change = change.wrapping_add(removed_sum(&removed)?);
        }
        add_to_sum(&mut transaction, change).await?;
        // Unlike a loss that is found before anything is written, this one does not say whether the entries are on disk.
        transaction.commit().await.map_err(|error| JournalError::Database(error.to_string()))?;
        self.record_head();
        Ok(())
    }

    /// Transactions that are not decided, in the order of their sequences. Each write gets a submission id of this process.
    pub async fn open_transactions(
        &self,
        mut submission_of: impl FnMut(&str) -> SubmissionId,
    ) -> Result<Vec<InFlightTx>, JournalError> {
        let sql = "SELECT * FROM transactions WHERE state IN ('open', 'open_refused') ORDER BY sequence, number";
        let rows = sqlx::query(sql).fetch_all(self.writer.pool()).await?;
        let entry = |row: &SqliteRow| -> Result<InFlightTx, sqlx::Error> {
            let message = prost_types::Any { type_url: row.try_get("msg_type")?, value: row.try_get("message")? };
            let text = |column: &str| row.try_get::<String, _>(column).map(Arc::<str>::from);
            let write_id: String = row.try_get("write_id")?;
            Ok(InFlightTx {
                submission_id: submission_of(&write_id),
                hash: row.try_get("tx_hash")?,
                bytes: row.try_get::<Option<Vec<u8>>, _>("bytes")?.unwrap_or_default(),
                sequence: read_unsigned(row, "sequence")?,
                timeout_height: read_unsigned(row, "timeout_height")?,
                signed_height: read_unsigned(row, "signed_height")?,
                intent: Arc::new(WriteIntent {
                    id: write_id,
                    encoded: EncodedMessage { message, needs_grant: row.try_get("needs_grant")? },
                    origin: WriteOrigin {
                        principal: text("principal")?,
                        session: text("session")?,
                        client: text("client")?,
                        tool: text("tool")?,
                        verdict: text("verdict")?,
                        confirmed_by: None,
                    },
                    idempotency_key: row.try_get("idempotency_key")?,
                    traceparent: row.try_get("traceparent")?,
                    fee_limits: FeeLimits::default(),
                }),
                has_granter: row.try_get("is_fee_granted")?,
                fee: read_unsigned(row, "fee")?.into(),
                signed_day: signed_day(row)?,
                is_journaled: true,
                refusal: Some(read_record(row)?).filter(|one| one.state == "open_refused").map(|one| one.refusal()),
                outcome: None,
                missing_blocks: Vec::new(),
            })
        };
        Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// Every sequence below this one is used: one more than the highest that a block contains.
    pub async fn sequence_floor(&self) -> Result<u64, JournalError> {
        let sql = "SELECT MAX(sequence) AS highest FROM transactions WHERE uses_sequence = 1";
        let row = sqlx::query(sql).fetch_one(self.writer.pool()).await?;
        Ok(read_optional(&row, "highest")?.map_or(0, |highest| highest + 1))
    }

    /// Fees of the transactions that were signed on a day or later, without those that never pay.
    pub async fn daily_fees(&self, day: UtcDay) -> Result<DailyFees, JournalError> {
        let sql = "SELECT principal, SUM(fee) AS spent FROM transactions WHERE signed_at >= ? \
                   AND (state IN ('open', 'open_refused') OR uses_sequence = 1) GROUP BY principal";
        let since = svc_wire::timestamp::iso_millis(&day.start());
        let rows = sqlx::query(sql).bind(since).fetch_all(self.writer.pool()).await?;
        let spent = |row: &SqliteRow| -> Result<_, sqlx::Error> {
            Ok((row.try_get::<String, _>("principal")?.into(), read_unsigned(row, "spent")?.into()))
        };
        Ok(DailyFees::new(day, rows.iter().map(spent).collect::<Result<_, _>>()?))
    }

    /// Time since which the journal has every transaction with its write, RFC 3339: since it was created, since the oldest that it has
    /// kept, or since records were taken from blocks, which name no write.
    pub async fn complete_since(&self) -> Result<Option<String>, JournalError> {
        if !self.is_on_disk() || self.loss.is_some() {
            return Ok(None);
        }
        let sql = "SELECT MAX(CASE WHEN (SELECT MIN(number) FROM transactions) > 1 THEN (SELECT MIN(signed_at) FROM transactions) \
                   ELSE created_at END, COALESCE((SELECT MAX(restored_at) FROM transactions), '')) FROM head";
        Ok(sqlx::query_scalar(sql).fetch_one(self.writer.pool()).await?)
    }

    /// Hash of a line of the embedder's audit, the newest that the journal knows.
    pub async fn audit_head(&self) -> Result<Option<String>, JournalError> {
        Ok(sqlx::query_scalar("SELECT audit_head FROM head").fetch_one(self.writer.pool()).await?)
    }

    /// Transactions of a write, the oldest first.
    pub async fn find_by_write(&self, write_id: &str) -> Result<Vec<JournalRecord>, JournalError> {
        self.query_records("SELECT * FROM transactions WHERE write_id = ? ORDER BY number", write_id).await
    }

    /// A transaction by its hash; an abandoned one only where the present history has none.
    pub async fn find_by_hash(&self, hash: &str) -> Result<Option<JournalRecord>, JournalError> {
        let present = self.query_records("SELECT * FROM transactions WHERE tx_hash = ?", hash).await?.pop();
        if present.is_some() { Ok(present) } else { self.find_abandoned(hash).await }
    }

    /// The transaction under an idempotency key of a principal that has its outcome, or may still get it: the one in a block, otherwise the last one
    /// that is not certain never to have executed.
    pub async fn find_by_key(&self, principal: &str, key: &str) -> Result<Option<JournalRecord>, JournalError> {
        let sql = "SELECT * FROM transactions WHERE idempotency_key = ? AND principal = ? AND state <> 'refused' ORDER BY \
                   CASE WHEN state = 'included' THEN 0 WHEN state = 'open' THEN 1 WHEN state = 'open_refused' THEN 2 \
                   WHEN state LIKE 'abandoned%' THEN 3 ELSE 4 END, number DESC LIMIT 1";
        let row = sqlx::query(sql).bind(key).bind(principal).fetch_optional(self.writer.pool()).await?;
        Ok(row.as_ref().map(read_record).transpose()?)
    }

    /// A successful transaction with this message that was restored after `since` (RFC 3339) from a block, with the block's height.
    pub async fn find_restored(&self, digest: &str, since: &str) -> Result<Option<(String, u64)>, JournalError> {
        if !self.has_restored.load(Ordering::Acquire) {
            return Ok(None);
        }
        let sql = "SELECT tx_hash, block_height FROM transactions \
                   WHERE message_digest = ? AND restored_at > ? AND state = 'included' ORDER BY number DESC LIMIT 1";
        let row = sqlx::query(sql).bind(digest).bind(since).fetch_optional(self.writer.pool()).await?;
        let read = |row: SqliteRow| -> Result<_, sqlx::Error> {
            Ok((row.try_get("tx_hash")?, read_unsigned(&row, "block_height")?))
        };
        Ok(row.map(read).transpose()?)
    }

    /// The newest transactions, newest first.
    pub async fn newest_records(&self, count: u32) -> Result<Vec<JournalRecord>, JournalError> {
        self.query_records("SELECT * FROM transactions ORDER BY number DESC LIMIT ?", count).await
    }

    async fn query_records<'q, T>(&self, sql: &'static str, argument: T) -> Result<Vec<JournalRecord>, JournalError>
    where
        T: sqlx::Encode<'q, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + 'q + Send,
    {
        let rows = sqlx::query(sql).bind(argument).fetch_all(self.writer.pool()).await?;
        Ok(rows.iter().map(read_record).collect::<Result<_, _>>()?)
    }
}

fn signed_day(row: &SqliteRow) -> Result<UtcDay, sqlx::Error> {
    let signed_at: String = row.try_get("signed_at")?;
    Ok(svc_wire::timestamp::parse_rfc3339(&signed_at).map(|time| UtcDay::of(&time)).unwrap_or_default())
}

pub(super) fn read_record(row: &SqliteRow) -> Result<JournalRecord, sqlx::Error> {
    let (tx_hash, state, state_before) = split_abandoned(row.try_get("tx_hash")?, row.try_get("state")?);
    Ok(JournalRecord {
        tx_hash,
        write_id: row.try_get("write_id")?,
        state,
        state_before,
        sequence: read_unsigned(row, "sequence")?,
        timeout_height: read_unsigned(row, "timeout_height")?,
        msg_type: row.try_get("msg_type")?,
        tool: row.try_get("tool")?,
        principal: row.try_get("principal")?,
        session: row.try_get("session")?,
        client: row.try_get("client")?,
        idempotency_key: row.try_get("idempotency_key")?,
        message_digest: row.try_get("message_digest")?,
        is_fee_granted: row.try_get("is_fee_granted")?,
        traceparent: row.try_get("traceparent")?,
        signed_at: row.try_get("signed_at")?,
        decided_at: row.try_get("decided_at")?,
        is_late: row.try_get("is_late")?,
        block_height: read_optional(row, "block_height")?,
        code: row.try_get("code")?,
        codespace: row.try_get("codespace")?,
        raw_log: row.try_get("raw_log")?,
        gas_used: read_optional(row, "gas_used")?,
        gas_wanted: read_optional(row, "gas_wanted")?,
        answer: row.try_get("answer")?,
    })
}
