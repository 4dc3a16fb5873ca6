//! How numbers, times and texts are held in columns. Integers are signed 64-bit in both databases.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use sqlx::{AnyConnection, Row};
use svc_wire::timestamp;

use super::error::IndexStoreError;

pub(super) fn to_column(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn from_column(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Converts nanoseconds since the epoch to a column value, which covers the years 1677 to 2262.
pub(super) fn time_to_column(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Shortens a text for an index. PostgreSQL accepts no long key and no NUL, and the chain bounds neither in a DID.
pub(super) fn index_key(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 512;
    if text.len() <= LONGEST && !text.contains('\0') {
        return text.into();
    }
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256 {digest}").into()
}

/// Returns the next id of a table for which the store assigns ids; `statement` selects the highest id.
pub(super) async fn next_id(connection: &mut AnyConnection, statement: &'static str) -> Result<u64, IndexStoreError> {
    let highest: i64 = sqlx::query(statement).fetch_one(connection).await?.try_get(0)?;
    Ok(from_column(highest) + 1)
}

/// Returns `count` numbered parameters of a statement, separated by commas, from number `first` on.
pub(super) fn placeholders(count: usize, first: usize) -> String {
    (first..first + count).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

/// Formats nanoseconds since the epoch as ISO-8601 UTC with milliseconds.
pub fn iso_millis(nanos: i128) -> String {
    timestamp::iso_millis(&timestamp::from_unix_nanos(nanos))
}
