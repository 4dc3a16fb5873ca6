//! Checksums of the rows, and their sum: a row that was changed, or that is missing, is noticed at the next boot.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use sqlx::{Row as _, SqliteConnection, sqlite::SqliteRow};

use super::{error::JournalError, schema::FIRST_WITH_PRINCIPALS};

/// Rows with their content as SQL literals, which tell an absent value from an empty one.
macro_rules! rows_sql {
    ($suffix:literal) => {
        rows_sql!("|| CASE principal WHEN 'default' THEN '' ELSE quote(principal) END ", $suffix)
    };
    ($principal:literal, $suffix:literal) => {
        concat!(
            "SELECT number, checksum, quote(number) || quote(tx_hash) || quote(write_id) || quote(state) || quote(sequence) ",
            "|| quote(signed_height) || quote(timeout_height) || quote(bytes) || quote(msg_type) || quote(message) ",
            "|| quote(needs_grant) || quote(tool) || quote(session) || quote(client) || quote(verdict) ",
            "|| quote(idempotency_key) || quote(message_digest) || quote(is_fee_granted) || quote(traceparent) ",
            "|| quote(signed_at) || quote(decided_at) || quote(is_late) || quote(block_height) || quote(code) ",
            "|| quote(codespace) || quote(raw_log) || quote(gas_used) || quote(gas_wanted) || quote(uses_sequence) ",
            "|| quote(answer) || quote(fee) || quote(restored_at) ",
            $principal,
            "AS content FROM transactions ",
            $suffix
        )
    };
}

/// A row with its checksum as it is stored and as its content has it.
struct CheckedRow {
    number: i64,
    stored: Option<i64>,
    computed: i64,
}

impl CheckedRow {
    fn read(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let digest = Sha256::digest(row.try_get::<String, _>("content")?);
        let computed = digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        Ok(Self { number: row.try_get("number")?, stored: row.try_get("checksum")?, computed })
    }
}

/// Sets the checksums of the rows that a transaction has written. Yields the change of their sum.
pub(super) async fn update_checksums(
    connection: &mut SqliteConnection,
    hashes: &BTreeSet<&str>,
) -> Result<i64, sqlx::Error> {
    let mut change = 0_i64;
    for hash in hashes {
        let row = sqlx::query(rows_sql!("WHERE tx_hash = ?")).bind(*hash).fetch_optional(&mut *connection).await?;
        if let Some(row) = row {
            change = change.wrapping_add(update_checksum(connection, &CheckedRow::read(&row)?).await?);
        }
    }
    Ok(change)
}

async fn update_checksum(connection: &mut SqliteConnection, row: &CheckedRow) -> Result<i64, sqlx::Error> {
    let sql = "UPDATE transactions SET checksum = ? WHERE number = ?";
    sqlx::query(sql).bind(row.computed).bind(row.number).execute(connection).await?;
    Ok(row.computed.wrapping_sub(row.stored.unwrap_or(0)))
}

/// Sum of checksums, as the change of the sum when their rows are removed.
pub(super) fn removed_sum(rows: &[SqliteRow]) -> Result<i64, sqlx::Error> {
    rows.iter()
        .try_fold(0_i64, |sum, row| Ok(sum.wrapping_sub(row.try_get::<Option<i64>, _>("checksum")?.unwrap_or(0))))
}

/// Adds the change of a transaction to the sum.
pub(super) async fn add_to_sum(connection: &mut SqliteConnection, change: i64) -> Result<(), sqlx::Error> {
    // SQLite turns an integer that overflows into a fraction, so that the sum is computed here.
    let sum: i64 = sqlx::query_scalar("SELECT checksum_sum FROM head").fetch_one(&mut *connection).await?;
    let sql = "UPDATE head SET checksum_sum = ?";
    sqlx::query(sql).bind(sum.wrapping_add(change)).execute(connection).await.map(drop)
}

/// Sets the checksums of all rows of a journal that had none.
pub(super) async fn add_checksums(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut change = 0_i64;
    let mut last = -1_i64;
    loop {
        let rows = sqlx::query(rows_sql!("WHERE number > ? ORDER BY number LIMIT 500"))
            .bind(last)
            .fetch_all(&mut *connection)
            .await?;
        let Some(newest) = rows.last() else { break };
        last = newest.try_get("number")?;
        for row in &rows {
            change = change.wrapping_add(update_checksum(connection, &CheckedRow::read(row)?).await?);
        }
    }
    add_to_sum(connection, change).await
}

/// Compares pages, rows and the sum of their checksums, of tables of a version. Yields the number of rows.
pub(super) async fn verify(connection: &mut SqliteConnection, place: &str, version: i64) -> Result<u64, JournalError> {
    let damaged = |damage: String| JournalError::Damaged { location: place.to_owned(), damage };
    let unreadable = |error: sqlx::Error| damaged(error.to_string());
    let pages: String =
        sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *connection).await.map_err(unreadable)?;
    if pages != "ok" {
        return Err(damaged(pages));
    }
    let sql = if version < FIRST_WITH_PRINCIPALS {
        rows_sql!("", "WHERE number > ? ORDER BY number LIMIT 500")
    } else {
        rows_sql!("WHERE number > ? ORDER BY number LIMIT 500")
    };
    let (mut sum, mut count, mut last) = (0_i64, 0_u64, -1_i64);
    loop {
        let rows = sqlx::query(sql).bind(last).fetch_all(&mut *connection).await.map_err(unreadable)?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let row = CheckedRow::read(row).map_err(unreadable)?;
            if row.stored != Some(row.computed) {
                return Err(damaged(format!("row {} is not as it was written", row.number)));
            }
            (sum, count, last) = (sum.wrapping_add(row.computed), count + 1, row.number);
        }
    }
    let expected: i64 =
        sqlx::query_scalar("SELECT checksum_sum FROM head").fetch_one(connection).await.map_err(unreadable)?;
    if sum == expected { Ok(count) } else { Err(damaged("rows are missing or were added".to_owned())) }
}
