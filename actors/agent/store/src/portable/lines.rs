//! The lines of an export: header, rows, counts. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::ImportError,
    tables::{ColumnKind, PortableTable, TABLES, TableColumn},
};

/// The format that the header names.
const FORMAT: &str = "svc-agent-export";
/// Version of the format.
const VERSION: u32 = 1;
/// Start of the line with the counts, which no other line has.
const COUNTS_START: &[u8] = b"{\"rows\":";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExportHeader {
    format: String,
    version: u32,
    /// DID of the store.
    pub did: String,
    /// Time of the snapshot, RFC 3339.
    pub exported_at: String,
    /// Number of the last migration of its tables.
    pub schema: i64,
    /// Name of the store key that authenticates the file.
    pub store_key: String,
}

/// The members of a header that every version of the format has.
#[derive(Deserialize)]
struct HeaderStart {
    format: String,
    version: u32,
}

/// The line of a row.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine<'a> {
    #[serde(borrow)]
    table: std::borrow::Cow<'a, str>,
    row: Vec<Value>,
}

/// The line before the last: the number of rows of each table.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountsLine {
    rows: BTreeMap<String, u64>,
}

/// The rows of each table.
pub(super) type RowCounts = BTreeMap<&'static str, u64>;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowValue {
    /// Of a column of whole numbers.
    Integer(Option<i64>),
    /// Of a column of texts.
    Text(Option<String>),
}

impl RowValue {
    /// The memory of a value, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Text(None) => 8,
            Self::Text(Some(text)) => text.len(),
        }
    }
}

impl From<RowValue> for Value {
    fn from(value: RowValue) -> Self {
        match value {
            RowValue::Integer(number) => number.map_or(Self::Null, Self::from),
            RowValue::Text(text) => text.map_or(Self::Null, Self::from),
        }
    }
}

/// A line behind the header.
pub(super) enum BodyLine {
    /// A row of a table.
    Row(&'static PortableTable, Vec<RowValue>),
    /// The counts, behind the rows.
    Counts(RowCounts),
}

impl ExportHeader {
    /// Makes the header of this version.
    pub fn new(did: String, exported_at: String, schema: i64, store_key: String) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, did, exported_at, schema, store_key }
    }

    /// Parses the first line of a file. `schema` is the last migration of this release.
    pub fn parse(line: &[u8], schema: i64) -> Result<Self, ImportError> {
        let start: Option<HeaderStart> = serde_json::from_slice(line).ok();
        let start = start.filter(|start| start.format == FORMAT).ok_or(ImportError::NoHeader)?;
        if start.version != VERSION {
            return Err(ImportError::OtherFormat { found: start.version, allowed: VERSION });
        }
        let header: Self = serde_json::from_slice(line).map_err(|_| ImportError::NoHeader)?;
        if header.schema != schema {
            return Err(ImportError::OtherSchema { found: header.schema, allowed: schema });
        }
        Ok(header)
    }

    /// Returns the line, with its end.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        encode_line(self)
    }
}

/// Returns the line of a row, with its end.
pub(super) fn row_line(table: &PortableTable, row: Vec<RowValue>) -> Result<Vec<u8>, serde_json::Error> {
    encode_line(&RowLine { table: table.name.into(), row: row.into_iter().map(Value::from).collect() })
}

/// Returns the line of the counts, with its end.
pub(super) fn counts_line(counts: &RowCounts) -> Result<Vec<u8>, serde_json::Error> {
    let rows = counts.iter().map(|(table, count)| ((*table).to_owned(), *count)).collect();
    encode_line(&CountsLine { rows })
}

fn encode_line(line: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Parses a line behind the header, or returns the violated rule.
pub(super) fn parse_body_line(line: &[u8]) -> Result<BodyLine, String> {
    if line.starts_with(COUNTS_START) {
        let counts: CountsLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        return Ok(BodyLine::Counts(known_counts(&counts)?));
    }
    let RowLine { table: name, row } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let table = PortableTable::find(&name).ok_or_else(|| unknown_table(&name))?;
    if row.len() != table.columns.len() {
        return Err(format!("a row of {name} has {} values; allowed are {}", row.len(), table.columns.len()));
    }
    let parse = |(column, value): (&TableColumn, Value)| {
        parse_value(column, value).map_err(|rule| format!("{name}.{}: {rule}", column.name))
    };
    let values: Result<Vec<RowValue>, String> = table.columns.iter().zip(row).map(parse).collect();
    Ok(BodyLine::Row(table, values?))
}

fn parse_value(column: &TableColumn, value: Value) -> Result<RowValue, &'static str> {
    match (column.kind, value) {
        (ColumnKind::Integer, Value::Null) if column.is_nullable => Ok(RowValue::Integer(None)),
        (ColumnKind::Text, Value::Null) if column.is_nullable => Ok(RowValue::Text(None)),
        (_, Value::Null) => Err("null is not allowed"),
        (ColumnKind::Integer, value) => {
            value.as_i64().map(|number| RowValue::Integer(Some(number))).ok_or("allowed is a whole number of 64 bits")
        }
        (ColumnKind::Text, Value::String(text)) => Ok(RowValue::Text(Some(text))),
        (ColumnKind::Text, _) => Err("allowed is a text"),
    }
}

fn known_counts(counts: &CountsLine) -> Result<RowCounts, String> {
    let known = |(name, count): (&String, &u64)| {
        PortableTable::find(name).map(|table| (table.name, *count)).ok_or_else(|| unknown_table(name))
    };
    let known: RowCounts = counts.rows.iter().map(known).collect::<Result<_, _>>()?;
    match TABLES.iter().find(|table| !known.contains_key(table.name)) {
        None => Ok(known),
        Some(table) => Err(format!("the number of rows of {} is missing", table.name)),
    }
}

fn unknown_table(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    format!("{shown:?} is no table of an export; allowed are {}", tables.join(", "))
}
