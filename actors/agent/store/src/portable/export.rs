//! The export of an open store: one snapshot, in chunks that its reader takes.

use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use sqlx::{AnyConnection, AssertSqlSafe, Row, any::AnyRow};
use svc_kit::wall_clock;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};

use super::{
    super::{
        agent_store::{AgentStore, SCHEMA_VERSION, StoreSnapshot},
        error::AgentStoreError,
    },
    error::ExportError,
    file_mac::{FileMac, name_of_key},
    line_reader::MAX_LINE_BYTES,
    lines::{ExportHeader, RowCounts, RowValue, counts_line, row_line},
    tables::{ColumnKind, PortableTable, TABLES},
};

/// Bytes of a chunk, about; a longer line is a chunk of its own.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait for the reader.
const WAITING_CHUNKS: usize = 4;
/// Longest time for which the reader takes no chunk: the snapshot keeps old rows in the database as long as it is open.
const MAX_STALL: Duration = Duration::from_secs(60);

/// A running export. The drop of it ends the snapshot.
#[derive(Debug)]
pub struct StoreExport(mpsc::Receiver<Result<Bytes, ExportError>>);

impl StoreExport {
    /// Returns the next chunk of the file; `None` behind the last one. After an error the file is not complete, and there is no further
    /// chunk.
    pub async fn next_chunk(&mut self) -> Option<Result<Bytes, ExportError>> {
        self.0.recv().await
    }
}

impl AgentStore {
    /// Begins an export of the store as it is now. Fails while another one runs.
    pub fn export(&self) -> Result<StoreExport, ExportError> {
        let permit = self.export_slot().clone().try_acquire_owned().map_err(|_| ExportError::Busy)?;
        let (output, chunks) = mpsc::channel(WAITING_CHUNKS);
        tokio::spawn(run_export(self.clone(), output, permit));
        Ok(StoreExport(chunks))
    }
}

async fn run_export(
    store: AgentStore,
    output: mpsc::Sender<Result<Bytes, ExportError>>,
    _permit: OwnedSemaphorePermit,
) {
    let closing = store.closing().clone();
    let written = closing.run_until_cancelled(write_export(&store, &output)).await;
    match written.unwrap_or(Err(ExportError::Closed)) {
        Ok(rows) => tracing::info!(rows, "exported the store"),
        Err(error) => {
            tracing::warn!(%error, "the export of the store did not end");
            // A reader that has gone, or takes nothing, needs no reason.
            let _ = timeout(MAX_STALL, output.send(Err(error))).await;
        }
    }
}

/// Writes the whole file; returns the number of rows.
async fn write_export(
    store: &AgentStore,
    output: &mpsc::Sender<Result<Bytes, ExportError>>,
) -> Result<u64, ExportError> {
    let StoreSnapshot(mut connection) = store.begin_snapshot().await?;
    let key = &store.keys().current;
    let mut chunks = ChunkWriter { output, buffer: Vec::new(), mac: FileMac::new(key) };
    let did = read_did(&mut connection).await?.ok_or(ExportError::Empty)?;
    let header = ExportHeader::new(did, wall_clock::now_rfc3339(), SCHEMA_VERSION, name_of_key(key));
    chunks.write_line(&header.to_line()?).await?;
    let mut counts = RowCounts::new();
    for table in TABLES {
        counts.insert(table.name, write_table(&mut connection, table, &mut chunks).await?);
    }
    chunks.write_line(&counts_line(&counts)?).await?;
    chunks.finish().await?;
    Ok(counts.values().sum())
}

async fn read_did(connection: &mut AnyConnection) -> Result<Option<String>, ExportError> {
    let did = sqlx::query_scalar("SELECT did FROM identity").fetch_optional(connection).await;
    did.map_err(|error| AgentStoreError::from(error).into())
}

/// Writes the rows of a table as the database gives them: an order would make PostgreSQL sort a large table on its disk.
async fn write_table(
    connection: &mut AnyConnection,
    table: &'static PortableTable,
    chunks: &mut ChunkWriter<'_>,
) -> Result<u64, ExportError> {
    let sql = format!("SELECT {} FROM {}", table.column_list(), table.name);
    let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(connection);
    let mut count = 0;
    while let Some(row) = rows.try_next().await.map_err(AgentStoreError::from)? {
        let line = row_line(table, read_values(table, &row).map_err(AgentStoreError::from)?)?;
        if line.len() > MAX_LINE_BYTES {
            return Err(ExportError::LongRow { table: table.name, bytes: line.len(), limit: MAX_LINE_BYTES });
        }
        chunks.write_line(&line).await?;
        count += 1;
    }
    Ok(count)
}

fn read_values(table: &PortableTable, row: &AnyRow) -> Result<Vec<RowValue>, sqlx::Error> {
    let read = |place: usize| match table.columns[place].kind {
        ColumnKind::Integer => row.try_get(place).map(RowValue::Integer),
        ColumnKind::Text => row.try_get(place).map(RowValue::Text),
    };
    (0..table.columns.len()).map(read).collect()
}

/// Collects lines into chunks, and authenticates them.
struct ChunkWriter<'a> {
    output: &'a mpsc::Sender<Result<Bytes, ExportError>>,
    buffer: Vec<u8>,
    mac: FileMac,
}

impl ChunkWriter<'_> {
    async fn write_line(&mut self, line: &[u8]) -> Result<(), ExportError> {
        self.mac.add_line(line);
        self.buffer.extend_from_slice(line);
        if self.buffer.len() >= CHUNK_BYTES { self.send().await } else { Ok(()) }
    }

    /// Writes the last line.
    async fn finish(mut self) -> Result<(), ExportError> {
        self.buffer.extend_from_slice(&self.mac.last_line());
        self.send().await
    }

    async fn send(&mut self) -> Result<(), ExportError> {
        let chunk = Bytes::from(std::mem::take(&mut self.buffer));
        match timeout(MAX_STALL, self.output.send(Ok(chunk))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ExportError::Abandoned),
            Err(_) => Err(ExportError::Stalled(MAX_STALL.as_secs())),
        }
    }
}
