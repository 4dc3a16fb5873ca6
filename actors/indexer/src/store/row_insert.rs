//! Rows of one table that go into few statements: each statement is a way to the database and back.

use sqlx::{AnyConnection, AssertSqlSafe};

use super::error::IndexStoreError;

/// A value of a column.
pub(super) enum ColumnValue {
    Number(i64),
    OptionalNumber(Option<i64>),
    Text(String),
    OptionalText(Option<String>),
}

impl From<i64> for ColumnValue {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<Option<i64>> for ColumnValue {
    fn from(value: Option<i64>) -> Self {
        Self::OptionalNumber(value)
    }
}

impl From<&str> for ColumnValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for ColumnValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Option<String>> for ColumnValue {
    fn from(value: Option<String>) -> Self {
        Self::OptionalText(value)
    }
}

/// Rows of a statement. Few different numbers, since each is a prepared statement of its own.
const ROW_COUNTS: [usize; 6] = [32, 16, 8, 4, 2, 1];

/// Rows that are collected and then inserted together.
pub(super) struct RowInsert<const WIDTH: usize> {
    /// Table with its columns, in the order of the values.
    into: &'static str,
    /// The end of the statement.
    ending: &'static str,
    rows: Vec<[ColumnValue; WIDTH]>,
}

impl<const WIDTH: usize> RowInsert<WIDTH> {
    pub fn new(into: &'static str) -> Self {
        Self { into, ending: "", rows: Vec::new() }
    }

    /// Ends each statement with a text, for example with the consequence of a conflict.
    pub fn with_ending(into: &'static str, ending: &'static str) -> Self {
        Self { into, ending, rows: Vec::new() }
    }

    pub fn push(&mut self, row: [ColumnValue; WIDTH]) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Inserts all rows, in their order.
    pub async fn execute(&mut self, connection: &mut AnyConnection) -> Result<(), IndexStoreError> {
        let mut rows = std::mem::take(&mut self.rows).into_iter();
        while let Some(count) = ROW_COUNTS.into_iter().find(|count| *count <= rows.len()) {
            let row = |row: usize| {
                let places: Vec<String> = (1..=WIDTH).map(|column| format!("${}", row * WIDTH + column)).collect();
                format!("({})", places.join(", "))
            };
            let values: Vec<String> = (0..count).map(row).collect();
            let statement = format!("INSERT INTO {} VALUES {} {}", self.into, values.join(", "), self.ending);
            let mut insert = sqlx::query(AssertSqlSafe(statement));
            for value in rows.by_ref().take(count).flatten() {
                insert = match value {
                    ColumnValue::Number(number) => insert.bind(number),
                    ColumnValue::OptionalNumber(number) => insert.bind(number),
                    ColumnValue::Text(text) => insert.bind(text),
                    ColumnValue::OptionalText(text) => insert.bind(text),
                };
            }
            insert.execute(&mut *connection).await?;
        }
        Ok(())
    }
}
