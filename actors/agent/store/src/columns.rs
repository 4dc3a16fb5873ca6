//! Numbers as columns: both databases know signed ones only.

/// A number as a column; the largest one where it does not fit.
pub(crate) fn to_column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column as a number; 0 for one that is less.
pub(crate) fn from_column(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
