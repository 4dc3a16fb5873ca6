//! The rows of an import, several in one statement.

use sqlx::{AnyConnection, AssertSqlSafe};

use super::{
    super::outbox::{ROWS, placeholders},
    error::ImportError,
    lines::{RowCounts, RowValue},
    tables::{PortableTable, TABLES},
};

/// Bytes of a batch, about, above which it is written although it has few rows.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Collects rows of one table at a time, and counts those of each.
pub(super) struct RowWriter {
    batch: Option<RowBatch>,
    counts: RowCounts,
}

struct RowBatch {
    table: &'static PortableTable,
    rows: Vec<Vec<RowValue>>,
    bytes: usize,
    last_line: u64,
}

impl RowWriter {
    /// Begins without a row.
    pub fn new() -> Self {
        Self { batch: None, counts: TABLES.iter().map(|table| (table.name, 0)).collect() }
    }

    /// The rows of each table so far.
    pub fn counts(&self) -> &RowCounts {
        &self.counts
    }

    /// Takes a row, and writes the batch when it is full or of another table.
    pub async fn add(
        &mut self,
        connection: &mut AnyConnection,
        (table, row): (&'static PortableTable, Vec<RowValue>),
        line: u64,
    ) -> Result<(), ImportError> {
        let is_full = |batch: &RowBatch| batch.rows.len() == ROWS || batch.bytes > MAX_BATCH_BYTES;
        if self.batch.as_ref().is_some_and(|batch| is_full(batch) || batch.table.name != table.name) {
            self.flush(connection).await?;
        }
        *self.counts.entry(table.name).or_default() += 1;
        let batch = self.batch.get_or_insert_with(|| RowBatch { table, rows: Vec::new(), bytes: 0, last_line: line });
        batch.bytes += row.iter().map(RowValue::bytes).sum::<usize>();
        batch.last_line = line;
        batch.rows.push(row);
        Ok(())
    }

    /// Writes the rows that wait.
    pub async fn flush(&mut self, connection: &mut AnyConnection) -> Result<(), ImportError> {
        let Some(RowBatch { table, rows, last_line: line, .. }) = self.batch.take() else { return Ok(()) };
        let places = placeholders(rows.len(), table.columns.len());
        let sql = format!("INSERT INTO {} ({}) VALUES {places}", table.name, table.column_list());
        let mut insert = sqlx::query(AssertSqlSafe(sql));
        for value in rows.into_iter().flatten() {
            insert = match value {
                RowValue::Integer(number) => insert.bind(number),
                RowValue::Text(text) => insert.bind(text),
            };
        }
        let inserted = insert.execute(connection).await;
        inserted.map(drop).map_err(|error| ImportError::Rows { table: table.name, line, error })
    }
}
