//! The import of a file into an empty store: verified as a whole first, and then written in one transaction.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Seek, SeekFrom},
    path::Path,
};

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{
    super::{
        agent_store::{AgentStore, SCHEMA_VERSION, StoreSettings},
        head_file::{HeadFile, PublishedHead},
        sealing::{StoreKey, StoreKeys},
    },
    error::ImportError,
    file_mac::{FileMac, MAC_LINE_START, find_key},
    line_reader::LineReader,
    lines::{BodyLine, ExportHeader, parse_body_line},
    row_writer::RowWriter,
    tables::TABLES,
};
use crate::columns::{from_column, to_column};

/// An import that has happened.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReport {
    /// DID.
    pub did: String,
    /// Public URL for which the DID was made.
    pub base_url: String,
    /// Time of the export, RFC 3339.
    pub exported_at: String,
    /// Versions of the document.
    pub versions: u64,
    /// The newest version.
    pub version_id: String,
    /// Rows of each table.
    pub rows: BTreeMap<&'static str, u64>,
}

/// Writes an export into an empty store, and its newest version into the head file.
///
/// # Errors
/// Every [`ImportError`]. Nothing was written then, except where the error says so.
pub async fn import_store(settings: StoreSettings, head: &Path, mut file: File) -> Result<ImportReport, ImportError> {
    // No database is made for a file that is refused.
    let verified = VerifiedFile::read(&mut file, &settings.keys)?;
    let (head, published) = HeadFile::open(head)?;
    let store = AgentStore::open(settings).await?;
    let imported = write_store(&store, file, &verified, published).await;
    store.close().await;
    let report = imported?;
    let newest =
        PublishedHead { did: report.did.clone(), number: report.versions, version_id: report.version_id.clone() };
    head.record(&newest).map_err(ImportError::Head)?;
    Ok(report)
}

/// A file whose code is that of its bytes.
pub(super) struct VerifiedFile {
    header: ExportHeader,
    last_line: Vec<u8>,
}

impl VerifiedFile {
    /// Reads a whole file, and decodes no more of it than its header.
    pub(super) fn read(file: &mut File, keys: &StoreKeys) -> Result<Self, ImportError> {
        file.seek(SeekFrom::Start(0)).map_err(ImportError::File)?;
        let mut lines = LineReader::new(file);
        let line = lines.next_line()?.ok_or(ImportError::NoHeader)?;
        let header = ExportHeader::parse(line, SCHEMA_VERSION)?;
        let mut mac = FileMac::new(key_of(keys, &header)?);
        mac.add_line(line);
        loop {
            let line = lines.require_line()?;
            if line.starts_with(MAC_LINE_START) {
                break;
            }
            mac.add_line(line);
        }
        let last_line = mac.last_line();
        if !mac.matches(lines.line()) {
            return Err(ImportError::Changed { line: lines.number() });
        }
        let line = lines.number();
        match lines.next_line() {
            Ok(None) => Ok(Self { header, last_line }),
            Ok(Some(_)) | Err(_) => Err(ImportError::ExtraLines { line }),
        }
    }
}

fn key_of<'a>(keys: &'a StoreKeys, header: &ExportHeader) -> Result<&'a StoreKey, ImportError> {
    find_key(keys, &header.store_key).ok_or(ImportError::OtherKey)
}

/// Writes the rows in one transaction, which is committed if they are those of the verified file and an agent can start with them.
pub(super) async fn write_store(
    store: &AgentStore,
    file: File,
    verified: &VerifiedFile,
    published: Option<PublishedHead>,
) -> Result<ImportReport, ImportError> {
    let mut transaction = store.begin().await?;
    empty_tables(&mut transaction).await?;
    let rows = copy_rows(&mut transaction, file, store.keys(), verified).await?;
    let report = check_agent(&mut transaction, store.keys(), &verified.header, rows).await?;
    if let Some(published) = published {
        check_head(&mut transaction, &report, &published).await?;
    }
    transaction.commit().await.map_err(ImportError::Commit)?;
    Ok(report)
}

/// Removes the rows that the migrations have inserted. Fails when the store has others.
async fn empty_tables(connection: &mut AnyConnection) -> Result<(), ImportError> {
    let did: Option<String> = sqlx::query_scalar("SELECT did FROM identity").fetch_optional(&mut *connection).await?;
    if let Some(did) = did {
        return Err(ImportError::NotEmpty { did });
    }
    for table in TABLES {
        if table.is_seeded {
            let sql = AssertSqlSafe(format!("DELETE FROM {}", table.name));
            sqlx::query(sql).execute(&mut *connection).await?;
            continue;
        }
        let sql = AssertSqlSafe(format!("SELECT 1 FROM {} LIMIT 1", table.name));
        if sqlx::query(sql).fetch_optional(&mut *connection).await?.is_some() {
            return Err(ImportError::NotEmptyTable { table: table.name });
        }
    }
    Ok(())
}

/// Reads the file for the second time, and writes its rows. Fails when it is not the file that was verified.
async fn copy_rows(
    connection: &mut AnyConnection,
    mut file: File,
    keys: &StoreKeys,
    verified: &VerifiedFile,
) -> Result<BTreeMap<&'static str, u64>, ImportError> {
    file.seek(SeekFrom::Start(0)).map_err(ImportError::File)?;
    let mut lines = LineReader::new(file);
    let mut mac = FileMac::new(key_of(keys, &verified.header)?);
    mac.add_line(lines.require_line()?);
    let (mut writer, mut stated) = (RowWriter::new(), None);
    while !lines.require_line()?.starts_with(MAC_LINE_START) {
        let (line, number) = (lines.line(), lines.number());
        mac.add_line(line);
        let invalid = |reason: String| ImportError::InvalidLine { line: number, reason };
        match parse_body_line(line).map_err(invalid)? {
            _ if stated.is_some() => return Err(invalid("it is behind the numbers of rows".to_owned())),
            BodyLine::Row(table, row) => writer.add(connection, (table, row), number).await?,
            BodyLine::Counts(counts) => stated = Some(counts),
        }
    }
    writer.flush(connection).await?;
    // The last line that was verified, and the last line of the bytes that were written now.
    if !mac.matches(&verified.last_line) || !mac.matches(lines.line()) {
        return Err(ImportError::Changed { line: lines.number() });
    }
    let stated = stated.ok_or(ImportError::Incomplete { line: lines.number() })?;
    let other = writer.counts().iter().find(|(table, found)| stated.get(*table) != Some(*found));
    match other {
        None => Ok(stated),
        Some((table, found)) => {
            let stated = stated.get(table).copied().unwrap_or(0);
            Err(ImportError::OtherCount { table, found: *found, stated })
        }
    }
}

/// Refuses rows that the boot of an agent would refuse: another DID, private keys that do not open, a missing version.
async fn check_agent(
    connection: &mut AnyConnection,
    keys: &StoreKeys,
    header: &ExportHeader,
    rows: BTreeMap<&'static str, u64>,
) -> Result<ImportReport, ImportError> {
    let unusable = |reason: &str| ImportError::Unusable(reason.to_owned());
    let singletons = TABLES.iter().filter(|table| table.is_seeded).map(|table| table.name).chain(["identity"]);
    for table in singletons {
        if rows.get(table) != Some(&1) {
            return Err(unusable(&format!("{table} has not one row")));
        }
    }
    let identity = sqlx::query("SELECT did, base_url FROM identity WHERE one = 1").fetch_optional(&mut *connection);
    let identity = identity.await?.ok_or_else(|| unusable("it has no DID"))?;
    let (did, base_url): (String, String) = (identity.try_get(0)?, identity.try_get(1)?);
    if did != header.did {
        return Err(unusable("its header names another DID than its rows"));
    }
    let sealed_rows = sqlx::query("SELECT name, version, sealed FROM private_key").fetch_all(&mut *connection).await?;
    for row in &sealed_rows {
        let (name, version, sealed): (String, i64, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        keys.open(&did, &name, from_column(version), &sealed)?;
    }
    let sql = "SELECT number, version_id FROM document_version ORDER BY number DESC LIMIT 1";
    let newest = sqlx::query(sql).fetch_optional(&mut *connection).await?;
    let newest = newest.ok_or_else(|| unusable("the DID has no document"))?;
    let (versions, version_id): (i64, String) = (newest.try_get(0)?, newest.try_get(1)?);
    let oldest: i64 = sqlx::query_scalar("SELECT MIN(number) FROM document_version").fetch_one(connection).await?;
    let versions = from_column(versions);
    if oldest != 1 || rows.get("document_version") != Some(&versions) {
        return Err(unusable("a version of the document is missing"));
    }
    Ok(ImportReport { did, base_url, exported_at: header.exported_at.clone(), versions, version_id, rows })
}

/// Refuses an export that lacks the version which was published last.
async fn check_head(
    connection: &mut AnyConnection,
    report: &ImportReport,
    published: &PublishedHead,
) -> Result<(), ImportError> {
    let sql = "SELECT version_id FROM document_version WHERE number = $1";
    let at_number = sqlx::query_scalar(sql).bind(to_column(published.number)).fetch_optional(connection);
    let at_number: Option<String> = at_number.await?;
    if published.did == report.did && at_number.as_ref() == Some(&published.version_id) {
        return Ok(());
    }
    let exported = report.version_id.clone();
    Err(ImportError::OlderExport { exported, published: format!("{} of {}", published.version_id, published.did) })
}
