//! Comparison of the journal with the sequence of its account: a sequence that is used and has no record was used by another program,
//! or by a record that is gone.

use std::{collections::BTreeSet, ops::Range};

use super::{
    error::JournalError,
    store::{JournalStore, read_optional, to_sql_integer},
};

/// Sequences that the account has used and of which the journal has no record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnknownSequences {
    range: Range<u64>,
    /// Those of the range that have a record. A node may state any sequence, so that only these are kept.
    known: BTreeSet<u64>,
    /// No block below this height has used one of them.
    pub lowest_height: u64,
    /// Whether the journal has no record at all, and was never compared.
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
}

impl JournalStore {
    /// Compares the journal with the sequence that comes next for the account.
    pub(crate) async fn unknown_sequences(&self, next: u64) -> Result<UnknownSequences, JournalError> {
        let pool = self.pool();
        // A restoration begins with the newest block: its records say nothing of the sequences below them.
        let sql = "SELECT MAX(sequence) AS sequence, MAX(block_height) AS height FROM transactions \
                   WHERE uses_sequence = 1 AND restored_at IS NULL";
        let recorded = sqlx::query(sql).fetch_one(pool).await?;
        let compared = sqlx::query("SELECT compared_sequence AS sequence, compared_height AS height FROM head")
            .fetch_one(pool)
            .await?;
        let newest_used = read_optional(&recorded, "sequence")?;
        let compared_sequence = read_optional(&compared, "sequence")?;
        let start = newest_used.map_or(0, |newest| newest + 1).max(compared_sequence.unwrap_or(0)).min(next);
        let heights = [read_optional(&recorded, "height")?, read_optional(&compared, "height")?];
        let sql = "SELECT sequence FROM transactions WHERE sequence >= ? AND sequence < ? \
                   AND (state IN ('open', 'open_refused') OR uses_sequence = 1)";
        let rows = sqlx::query(sql).bind(to_sql_integer(start)).bind(to_sql_integer(next)).fetch_all(pool).await?;
        let known: BTreeSet<u64> = rows
            .iter()
            .map(|row| read_optional(row, "sequence"))
            .collect::<Result<Option<_>, _>>()?
            .unwrap_or_default();
        Ok(UnknownSequences {
            range: start..next,
            is_new_journal: newest_used.is_none() && compared_sequence.is_none() && known.is_empty(),
            known,
            lowest_height: heights.into_iter().flatten().max().unwrap_or(1).max(1),
        })
    }

    /// The journal was compared with the account: all sequences below `next` that blocks up to `height` explain have records. This
    /// ends a loss too.
    pub(crate) async fn end_restoration(&self, compared: Option<(u64, u64)>) -> Result<(), JournalError> {
        let mut transaction = self.begin().await?;
        sqlx::query("UPDATE head SET lost_commits = NULL").execute(&mut *transaction).await?;
        if let Some((next, height)) = compared {
            sqlx::query("UPDATE head SET compared_sequence = ?, compared_height = ?")
                .bind(to_sql_integer(next))
                .bind(to_sql_integer(height))
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        self.record_head();
        Ok(())
    }
}
