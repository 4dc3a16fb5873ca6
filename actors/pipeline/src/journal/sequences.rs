//! Comparison of the journal with the sequence of its account: a sequence that is used and has no record was used by another program,
//! or by a record that is gone.

use std::{collections::BTreeSet, ops::Range};

use sqlx::sqlite::SqliteRow;

use super::{
    columns::{read_optional, to_sql_integer},
    error::JournalError,
    store::JournalStore,
};

/// Sequences that the account has used, and of which the journal does not know which transaction used them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownSequences {
    range: Range<u64>,
    /// Those of the range whose transaction is known. A node may state any sequence, so that only these are kept.
    known: BTreeSet<u64>,
    /// Hashes of transactions that may have used one of them, and are followed anyway.
    open: BTreeSet<String>,
    /// No block below this height has used one of them.
    pub lowest_height: u64,
    /// Whether the journal has no record of its own, and was never compared.
    pub is_new_journal: bool,
}

impl UnknownSequences {
    /// Their number.
    pub fn count(&self) -> u64 {
        (self.range.end.saturating_sub(self.range.start)).saturating_sub(self.known.len() as u64)
    }

    /// Explains a sequence; false when it is known already.
    pub fn explain(&mut self, sequence: u64) -> bool {
        self.range.contains(&sequence) && self.known.insert(sequence)
    }

    /// Whether the journal follows a transaction.
    pub fn is_open(&self, hash: &str) -> bool {
        self.open.contains(hash)
    }
}

impl JournalStore {
    /// Compares the journal with the sequence that comes next for the account, in the state after the block `newest`.
    pub(crate) async fn unknown_sequences(&self, next: u64, newest: u64) -> Result<UnknownSequences, JournalError> {
        let pool = self.pool();
        let pair =
            |row: &SqliteRow| Ok::<_, sqlx::Error>((read_optional(row, "sequence")?, read_optional(row, "height")?));
        let sql = "SELECT compared_sequence AS sequence, compared_height AS height FROM head";
        let compared = pair(&sqlx::query(sql).fetch_one(pool).await?)?;
        // A node that stated too much must not end all later comparisons.
        let compared = compared.0.zip(compared.1).filter(|(sequence, height)| *sequence <= next && *height <= newest);
        // A restoration begins with the newest block: its records say nothing of the sequences below them.
        let sql = "SELECT MAX(sequence) AS sequence, MAX(block_height) AS height FROM transactions \
                   WHERE uses_sequence = 1 AND restored_at IS NULL AND block_height <= ?";
        let recorded = pair(&sqlx::query(sql).bind(to_sql_integer(newest)).fetch_one(pool).await?)?;
        let recorded = recorded.0.zip(recorded.1).map(|(sequence, height)| (sequence + 1, height));
        let (start, lowest_height) = compared.or(recorded).unwrap_or((0, 1));
        // The journal forgets its oldest records.
        let sql = "SELECT CASE WHEN MIN(number) > 1 THEN MIN(sequence) ELSE 0 END AS sequence FROM transactions";
        let kept = read_optional(&sqlx::query(sql).fetch_one(pool).await?, "sequence")?.unwrap_or(0);
        let range = start.max(kept).min(next)..next;
        let sql = "SELECT sequence FROM transactions WHERE sequence >= ? AND sequence < ? AND uses_sequence = 1";
        let bounds = [range.start, range.end].map(to_sql_integer);
        let rows = sqlx::query(sql).bind(bounds[0]).bind(bounds[1]).fetch_all(pool).await?;
        let known = rows.iter().map(|row| Ok(read_optional(row, "sequence")?.unwrap_or_default()));
        let known = known.collect::<Result<BTreeSet<u64>, sqlx::Error>>()?;
        let sql = "SELECT tx_hash FROM transactions WHERE state IN ('open', 'open_refused')";
        let open: Vec<String> = sqlx::query_scalar(sql).fetch_all(pool).await?;
        Ok(UnknownSequences {
            range,
            known,
            is_new_journal: compared.is_none() && recorded.is_none() && open.is_empty(),
            open: open.into_iter().collect(),
            lowest_height: lowest_height.max(1),
        })
    }

    /// Height of the state with which the journal was last compared; 0 for one that was not.
    pub(crate) async fn compared_height(&self) -> Result<u64, JournalError> {
        let sql = "SELECT compared_height AS height FROM head";
        Ok(read_optional(&sqlx::query(sql).fetch_one(self.pool()).await?, "height")?.unwrap_or(0))
    }

    /// The journal was compared with the account, down from the state after the block `height`, in which `next` came next. This ends a
    /// loss too.
    pub(crate) async fn end_comparison(&self, next: u64, height: u64) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE head SET lost_commits = NULL").execute(&mut *transaction).await?;
        sqlx::query("UPDATE head SET compared_sequence = ?, compared_height = ?")
            .bind(to_sql_integer(next))
            .bind(to_sql_integer(height))
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        self.record_head();
        Ok(())
    }
}
