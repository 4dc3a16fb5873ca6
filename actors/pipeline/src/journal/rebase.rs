//! The rebase of a journal: the records of a history that has ended are marked as abandoned, and the journal goes on from the newest block
//! that both histories have.
//!
//! An abandoned record keeps its key, so that the key never sends again. Its hash gets the number of the rebase as a suffix: the same bytes
//! may be signed in the present history, or stand in one of its blocks, and are a record of their own there.

use std::collections::BTreeSet;

use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};
use svc_kit::wall_clock;

use super::{
    columns::{read_optional, read_unsigned, to_sql_integer},
    error::JournalError,
    integrity::{add_to_sum, update_checksums},
    record::{ABANDONED, HASH_SEPARATOR, JournalRecord},
    store::{JournalStore, read_record},
};
use crate::known_history::BlockPin;

/// Follows the separator in the order of bytes.
const AFTER_SEPARATOR: char = '0';
/// Records of used sequences that are compared with the blocks of the node.
const MAX_COMPARED: i64 = 64;

/// The facts of a record that decide whether it belongs to the history above a height.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordFacts {
    hash: String,
    state: String,
    sequence: u64,
    /// 0 for a transaction without one.
    timeout_height: u64,
    block_height: Option<u64>,
    uses_sequence: bool,
    /// Whether the chain has stated a reason of a refusal.
    has_code: bool,
}

impl RecordFacts {
    /// Whether the fate of the transaction was, or may be, decided by a block above `height`. All sequences below `floor` are used by blocks
    /// up to `height`. Pure.
    fn is_above(&self, height: u64, floor: u64) -> bool {
        if self.state.starts_with(ABANDONED) {
            return false;
        }
        if self.uses_sequence {
            return self.block_height.is_none_or(|block| block > height);
        }
        let was_never_sent = self.state == "refused" && !self.has_code;
        let has_timed_out = self.timeout_height > 0 && self.timeout_height <= height;
        !was_never_sent && !has_timed_out && self.sequence >= floor
    }
}

impl JournalStore {
    /// Abandons the records that belong to the history above `height`, and makes `pin` the newest pinned block; without a pin the journal
    /// begins with a chain that was started once more. One transaction does all of it. Yields the number of abandoned records; a repetition
    /// abandons none.
    pub(crate) async fn rebase(&self, height: u64, pin: Option<&BlockPin>) -> Result<u64, JournalError> {
        let mut transaction = self.begin().await?;
        let abandoned = abandoned_hashes(&mut transaction, height).await?;
        let sql = "INSERT INTO rebases (height, hash, rebased_at, abandoned) VALUES (?, ?, ?, ?)";
        let rebase = sqlx::query(sql)
            .bind(to_sql_integer(height))
            .bind(pin.map(|pin| pin.hash.as_str()))
            .bind(wall_clock::now_rfc3339())
            .bind(to_sql_integer(abandoned.len() as u64))
            .execute(&mut *transaction)
            .await?;
        let suffix = format!("{HASH_SEPARATOR}{}", rebase.last_insert_rowid());
        // The answer names a block that is gone.
        let sql = "UPDATE transactions SET tx_hash = tx_hash || ?, state = 'abandoned_' || state, uses_sequence = 0, bytes = NULL, \
                   message = NULL, answer = NULL WHERE tx_hash = ?";
        let mut renamed = Vec::new();
        for hash in &abandoned {
            sqlx::query(sql).bind(&suffix).bind(hash).execute(&mut *transaction).await?;
            renamed.push(format!("{hash}{suffix}"));
        }
        let hashes: BTreeSet<&str> = renamed.iter().map(String::as_str).collect();
        let change = update_checksums(&mut transaction, &hashes).await?;
        add_to_sum(&mut transaction, change).await?;
        let above = to_sql_integer(height);
        sqlx::query("DELETE FROM pins WHERE height >= ?").bind(above).execute(&mut *transaction).await?;
        if let Some(pin) = pin {
            let sql = "INSERT INTO pins (height, hash) VALUES (?, ?)";
            sqlx::query(sql).bind(to_sql_integer(pin.height)).bind(&pin.hash).execute(&mut *transaction).await?;
        }
        let sql = "UPDATE head SET compared_sequence = NULL, compared_height = NULL WHERE compared_height > ?";
        sqlx::query(sql).bind(above).execute(&mut *transaction).await?;
        transaction.commit().await?;
        self.record_head();
        Ok(abandoned.len() as u64)
    }

    /// Own hashes of the transactions that a rebase to a height abandons, and of those that an earlier one has abandoned.
    pub(crate) async fn lost_transactions(&self, height: u64) -> Result<BTreeSet<String>, JournalError> {
        let mut connection = self.pool().acquire().await?;
        let mut lost: BTreeSet<String> = abandoned_hashes(&mut connection, height).await?.into_iter().collect();
        let sql = "SELECT tx_hash FROM transactions WHERE state LIKE 'abandoned%'";
        let before: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut *connection).await?;
        lost.extend(before.iter().filter_map(|hash| Some(hash.split_once(HASH_SEPARATOR)?.0.to_owned())));
        Ok(lost)
    }

    /// Transactions that have used a sequence in a block from `lowest` up to `highest`, the newest first, at most a few.
    pub(crate) async fn used_in_blocks(&self, lowest: u64, highest: u64) -> Result<Vec<JournalRecord>, JournalError> {
        let sql = "SELECT * FROM transactions WHERE uses_sequence = 1 AND block_height >= ?1 AND block_height <= ?2 \
                   ORDER BY block_height DESC, number DESC LIMIT ?3";
        let rows = sqlx::query(sql).bind(to_sql_integer(lowest)).bind(to_sql_integer(highest)).bind(MAX_COMPARED);
        let rows = rows.fetch_all(self.pool()).await?;
        Ok(rows.iter().map(read_record).collect::<Result<_, _>>()?)
    }

    /// The newest abandoned transaction of a hash.
    pub(super) async fn find_abandoned(&self, hash: &str) -> Result<Option<JournalRecord>, JournalError> {
        let sql = "SELECT * FROM transactions WHERE tx_hash > ?1 AND tx_hash < ?2 ORDER BY number DESC LIMIT 1";
        let bounds = [HASH_SEPARATOR, AFTER_SEPARATOR].map(|end| format!("{hash}{end}"));
        let row = sqlx::query(sql).bind(&bounds[0]).bind(&bounds[1]).fetch_optional(self.pool()).await?;
        Ok(row.as_ref().map(read_record).transpose()?)
    }
}

/// The hashes of the records that belong to the history above a height.
async fn abandoned_hashes(connection: &mut SqliteConnection, height: u64) -> Result<Vec<String>, sqlx::Error> {
    let sql = "SELECT tx_hash, state, sequence, timeout_height, block_height, uses_sequence, code IS NOT NULL AS has_code \
               FROM transactions ORDER BY number";
    let rows = sqlx::query(sql).fetch_all(connection).await?;
    let facts = rows.iter().map(read_facts).collect::<Result<Vec<_>, _>>()?;
    let is_used_below = |facts: &&RecordFacts| facts.uses_sequence && !facts.is_above(height, 0);
    let floor = facts.iter().filter(is_used_below).map(|facts| facts.sequence + 1).max().unwrap_or(0);
    Ok(facts.into_iter().filter(|facts| facts.is_above(height, floor)).map(|facts| facts.hash).collect())
}

fn read_facts(row: &SqliteRow) -> Result<RecordFacts, sqlx::Error> {
    Ok(RecordFacts {
        hash: row.try_get("tx_hash")?,
        state: row.try_get("state")?,
        sequence: read_unsigned(row, "sequence")?,
        timeout_height: read_unsigned(row, "timeout_height")?,
        block_height: read_optional(row, "block_height")?,
        uses_sequence: row.try_get("uses_sequence")?,
        has_code: row.try_get("has_code")?,
    })
}

#[cfg(test)]
mod tests {
    use svc_wire::chain_error::ChainError;

    use super::*;
    use crate::{
        journal::{
            core::JournalEntry,
            inspection::verify_journal,
            tests::{decided, open, signed},
        },
        write::{intent::DEFAULT_PRINCIPAL, outcome::TxRefusal, submission::SubmissionId},
    };

    /// Facts of a transaction with sequence 7 and timeout height 130.
    fn facts(state: &str, block_height: Option<u64>, uses_sequence: bool) -> RecordFacts {
        RecordFacts {
            hash: "A".to_owned(),
            state: state.to_owned(),
            sequence: 7,
            timeout_height: 130,
            block_height,
            uses_sequence,
            has_code: block_height.is_some(),
        }
    }

    #[test]
    fn a_record_belongs_to_the_history_above_a_height_unless_blocks_up_to_it_decide_it() {
        let with_code = |facts: RecordFacts| RecordFacts { has_code: true, ..facts };
        let timed_out = |facts: RecordFacts| RecordFacts { timeout_height: 100, ..facts };
        let without_timeout = |facts: RecordFacts| RecordFacts { timeout_height: 0, ..facts };
        for (found, floor, expected) in [
            (facts("included", Some(100), true), 0, false),
            (facts("included", Some(101), true), 0, true),
            (facts("included", Some(101), true), 9, true),
            (facts("failed", Some(100), true), 0, false),
            (facts("failed", Some(101), true), 0, true),
            // Its bytes may come back.
            (facts("failed", Some(100), false), 7, true),
            (facts("failed", Some(100), false), 8, false),
            (facts("open", None, false), 7, true),
            (facts("open", None, false), 8, false),
            (timed_out(facts("open", None, false)), 7, false),
            (without_timeout(facts("open", None, false)), 7, true),
            (with_code(facts("open_refused", None, false)), 7, true),
            (facts("expired", None, false), 7, true),
            (timed_out(facts("expired", None, false)), 7, false),
            (facts("displaced", None, false), 7, true),
            (facts("displaced", None, false), 8, false),
            (with_code(facts("refused", None, false)), 7, true),
            // It was never sent.
            (facts("refused", None, false), 7, false),
            (facts("abandoned_included", Some(101), false), 0, false),
        ] {
            assert_eq!(found.is_above(100, floor), expected, "{found:?} {floor}");
        }
    }

    #[tokio::test]
    async fn an_abandoned_record_keeps_its_key_and_what_it_was_and_its_bytes_may_be_signed_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("journal.db").display().to_string();
        let store = open(Some(&file), "o").await.expect("opens");
        let refusal = TxRefusal {
            error: ChainError { codespace: "sdk".to_owned(), code: 13, raw_log: "fee".to_owned() },
            block_height: None,
        };
        let written = [
            signed("A", 5, Some("kept")),
            decided("A", "included", Some(10)),
            signed("B", 6, Some("gone")),
            decided("B", "included", Some(12)),
            JournalEntry::Answered { hash: "B".to_owned(), answer: "{}".to_owned() },
            signed("C", 7, Some("open")),
            signed("D", 8, Some("never sent")),
            JournalEntry::Unsent { hash: "D".to_owned() },
            signed("E", 8, Some("refused")),
            JournalEntry::Refused { hash: "E".to_owned(), refusal },
        ];
        store.write(&written).await.expect("written");
        for height in [9, 10, 12] {
            store.pin_block(&BlockPin { height, hash: format!("A{height}") }).await.expect("pinned");
        }
        store.end_comparison(7, 12).await.expect("noted");
        let pin = BlockPin { height: 10, hash: "A10".to_owned() };
        assert_eq!(store.rebase(10, Some(&pin)).await.expect("rebased"), 3);
        assert_eq!(store.rebase(10, Some(&pin)).await.expect("rebased again"), 0);

        assert_eq!(store.pins().await.expect("read").last(), Some(&pin));
        assert_eq!((store.sequence_floor().await.expect("read"), store.compared_height().await.expect("read")), (6, 0));
        assert!(store.open_transactions(|_| SubmissionId(1)).await.expect("read").is_empty());
        let of_key = async |key: &str| store.find_by_key(DEFAULT_PRINCIPAL, key).await.expect("read");
        for (key, expected) in [
            ("kept", Some(("A", "included", None, Some(10)))),
            ("gone", Some(("B", "abandoned", Some("included"), Some(12)))),
            ("open", Some(("C", "abandoned", Some("open"), None))),
            ("never sent", None),
            ("refused", Some(("E", "abandoned", Some("open_refused"), None))),
        ] {
            let found = of_key(key).await;
            let seen = found.as_ref().map(|record| {
                (record.tx_hash.as_str(), record.state.as_str(), record.state_before.as_deref(), record.block_height)
            });
            assert_eq!(seen, expected, "{key}");
            assert_eq!(found.and_then(|record| record.answer), None, "the receipt names a block that is gone");
        }

        // The same bytes are signed once more, for another key.
        store.write(&[signed("B", 6, Some("again"))]).await.expect("written");
        let states = async || {
            let state = async |key: &str| of_key(key).await.map(|record| record.state);
            (state("gone").await, state("again").await)
        };
        let words = |first: &str, second: &str| (Some(first.to_owned()), Some(second.to_owned()));
        assert_eq!(states().await, words("abandoned", "open"));
        store.write(&[decided("B", "included", Some(11))]).await.expect("written");
        assert_eq!(states().await, words("abandoned", "included"));
        let by_hash = store.find_by_hash("B").await.expect("read").expect("a record");
        assert_eq!((by_hash.state.as_str(), by_hash.block_height), ("included", Some(11)));
        // A second rebase abandons them too.
        assert_eq!(store.rebase(10, Some(&pin)).await.expect("rebased"), 1);
        assert_eq!(states().await, words("abandoned", "abandoned"));
        assert_eq!(store.rebase(0, None).await.expect("rebased"), 1);
        assert_eq!(store.pins().await.expect("read"), []);
        store.close().await;
        assert_eq!(verify_journal(&file).await.expect("whole").transactions, 6);
        open(Some(&file), "o").await.expect("opens again");
    }
}
