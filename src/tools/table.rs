//! Reading of the embedded tables.

use serde::de::DeserializeOwned;

/// A table cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("table of {surface}: {reason}")]
pub struct TableError {
    /// Surface of the table.
    pub surface: &'static str,
    /// The problem.
    pub reason: String,
}

/// Parses the table of a surface. Fails when the text is not a list of such rows.
pub(crate) fn read_table<T: DeserializeOwned>(surface: &'static str, text: &str) -> Result<Vec<T>, TableError> {
    serde_json::from_str(text).map_err(|error| TableError { surface, reason: error.to_string() })
}
