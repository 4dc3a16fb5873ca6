//! The audit log: the origin of every write, begun before the signature and completed after the outcome. Append-only, one JSON
//! object a line.
//!
//! The audit log is no actor. A line must exist before the signature, and a message in a mailbox dies with its actor; a line is
//! therefore one `write` to a file opened for appending. The operating system has the line when [`AuditLog::begin`] returns, so that
//! it survives the process. The journal also survives a power failure.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_kit::wall_clock;

use svc_pipeline::{SubmittedTx, WriteIntent};

use super::receipt::WriteAnswer;

/// The audit log cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {reason}")]
pub struct AuditError {
    /// File of the audit log.
    pub location: String,
    /// Error of the operating system.
    pub reason: String,
}

/// A write attempt. Its end is absent while the write is active.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the write.
    pub id: String,
    /// Time of the beginning, RFC 3339.
    pub begun_at: String,
    /// Session that called.
    pub session: String,
    /// Its client program.
    pub client: String,
    /// Tool that was called.
    pub tool: String,
    /// Type URL.
    pub msg_type: String,
    /// Digest of the exact message.
    pub message_digest: String,
    /// Decision of the policy: `allow`, `ask`, `confirm`.
    pub verdict: String,
    /// Idempotency key of the caller.
    pub idempotency_key: Option<String>,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AuditCompletion>,
}

/// The end of a write attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditCompletion {
    /// Time of the end, RFC 3339.
    pub completed_at: String,
    /// `included`, `failed`, `expired`, `displaced`; `not_sent`: nothing of it was ever handed to a node; `unknown`: it was left
    /// open by a process without a journal on disk.
    pub outcome: String,
    /// Code of the error that was answered.
    pub error_code: Option<String>,
    /// Its last transaction.
    pub tx_hash: Option<String>,
    /// Height of its block.
    pub block_height: Option<u64>,
    /// Result code.
    pub code: Option<u32>,
    /// Codespace of the code.
    pub codespace: Option<String>,
}

impl AuditCompletion {
    /// The end of a write with this answer, whose last transaction has the outcome `outcome`.
    pub(crate) fn of_answer(answer: &WriteAnswer, outcome: &str, last_tx: Option<&SubmittedTx>) -> Self {
        let (receipt, error) = (answer.as_ref().ok(), answer.as_ref().err());
        let of_error = |name: &str| error.and_then(|error| error.details.get(name));
        let number = |name: &str| of_error(name).and_then(Value::as_u64);
        Self {
            completed_at: wall_clock::now_rfc3339(),
            outcome: outcome.to_owned(),
            error_code: error.map(|error| error.code.to_string()),
            tx_hash: last_tx.map(|tx| tx.hash.clone()),
            block_height: receipt.map(|receipt| receipt.block_height).or_else(|| number("block_height")),
            code: receipt
                .map(|receipt| receipt.code)
                .or_else(|| number("code").and_then(|code| u32::try_from(code).ok())),
            codespace: of_error("codespace").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum AuditLine {
    Begun(AuditRecord),
    Completed {
        id: String,
        #[serde(flatten)]
        end: AuditCompletion,
    },
}

/// Records in memory without a file.
const MAX_RECORDS_IN_MEMORY: usize = 1_000;
/// Bytes at the file's end that are read at boot: open records are near it.
const TAIL_BYTES: u64 = 16 * 1024 * 1024;

/// The audit. Clones share it.
#[derive(Clone)]
pub struct AuditLog(Arc<Mutex<AuditLogState>>);

struct AuditLogState {
    location: Arc<str>,
    file: Option<File>,
    records: VecDeque<AuditRecord>,
    line_count: u64,
}

impl AuditLog {
    /// Opens the file, or keeps the newest records in memory. Returns the records that an earlier process left open.
    pub fn open(file: Option<&str>) -> Result<(Self, Vec<AuditRecord>), AuditError> {
        let place: Arc<str> = file.unwrap_or("memory").into();
        let failed = |error: std::io::Error| AuditError {
            location: file.unwrap_or_default().to_owned(),
            reason: error.to_string(),
        };
        let mut records = VecDeque::new();
        let file = match file {
            None => None,
            Some(path) => {
                let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
                let (read, is_whole) = read_tail(&mut file).map_err(failed)?;
                records = read;
                if !is_whole {
                    // The process before died within a line; the next one starts its own.
                    file.write_all(b"\n").map_err(failed)?;
                }
                Some(file)
            }
        };
        let open = records.iter().filter(|record| record.end.is_none()).cloned().collect();
        let audit = Self(Arc::new(Mutex::new(AuditLogState { location: place, file, records, line_count: 0 })));
        audit.with(AuditLogState::trim);
        Ok((audit, open))
    }

    fn with<R>(&self, work: impl FnOnce(&mut AuditLogState) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A write begins; it must not be signed when this fails.
    pub fn begin(&self, order: &WriteIntent) -> Result<(), AuditError> {
        let record = AuditRecord {
            id: order.id.clone(),
            begun_at: wall_clock::now_rfc3339(),
            session: order.origin.session.to_string(),
            client: order.origin.client.to_string(),
            tool: order.origin.tool.to_string(),
            msg_type: order.encoded.msg_type().to_owned(),
            message_digest: order.encoded.digest(),
            verdict: order.origin.verdict.to_string(),
            idempotency_key: order.idempotency_key.clone(),
            end: None,
        };
        self.with(|inner| {
            inner.append(&AuditLine::Begun(record.clone()))?;
            inner.records.push_back(record);
            inner.trim();
            Ok(())
        })
    }

    /// A write has ended. The next boot completes a record that has a begin and no end.
    pub fn complete(&self, id: &str, end: AuditCompletion) {
        let written = self.with(|inner| {
            if let Some(record) = inner.records.iter_mut().rev().find(|record| record.id == id) {
                record.end = Some(end.clone());
            }
            inner.append(&AuditLine::Completed { id: id.to_owned(), end })
        });
        if let Err(error) = written {
            tracing::error!(%error, id, "the end of a write cannot be put on record");
        }
    }

    /// The newest records, newest first.
    pub fn newest_records(&self) -> Vec<AuditRecord> {
        self.with(|inner| inner.records.iter().rev().cloned().collect())
    }

    /// Lines taken since boot.
    pub fn line_count(&self) -> u64 {
        self.with(|inner| inner.line_count)
    }

    /// `memory`, or the file.
    pub fn location(&self) -> Arc<str> {
        self.with(|inner| Arc::clone(&inner.location))
    }
}

impl AuditLogState {
    fn append(&mut self, line: &AuditLine) -> Result<(), AuditError> {
        self.line_count += 1;
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        let failed =
            |error: std::io::Error| AuditError { location: self.location.to_string(), reason: error.to_string() };
        file.write_all(text.as_bytes()).map_err(failed)
    }

    fn trim(&mut self) {
        let surplus = self.records.len().saturating_sub(MAX_RECORDS_IN_MEMORY);
        self.records.drain(..surplus);
    }
}

/// Records in the end of the file, and whether its last line is whole.
fn read_tail(file: &mut File) -> std::io::Result<(VecDeque<AuditRecord>, bool)> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut reader = BufReader::new(file.take(TAIL_BYTES));
    let (mut order, mut records) = (VecDeque::new(), BTreeMap::new());
    let (mut line, mut is_whole) = (Vec::new(), true);
    while reader.read_until(b'\n', &mut line)? > 0 {
        is_whole = line.last() == Some(&b'\n');
        // The first line may be cut, and the last of a process that died.
        match serde_json::from_slice(&line) {
            Ok(AuditLine::Begun(record)) => {
                order.push_back(record.id.clone());
                records.insert(record.id.clone(), record);
            }
            Ok(AuditLine::Completed { id, end }) => {
                if let Some(record) = records.get_mut(&id) {
                    record.end = Some(end);
                }
            }
            Err(_) => {}
        }
        line.clear();
    }
    Ok((order.into_iter().filter_map(|id| records.remove(&id)).collect(), is_whole))
}

#[cfg(test)]
mod tests {
    use svc_pipeline::{EncodedMessage, WriteOrigin};

    use super::*;

    fn intent(id: &str) -> WriteIntent {
        let message = prost_types::Any { type_url: "/svc.ec.v1.MsgCreateEcosystem".to_owned(), value: Vec::new() };
        let encoded = EncodedMessage { message, needs_grant: true };
        let new = WriteIntent::new(encoded, WriteOrigin::embedder("test"), None, &tracing::Span::none());
        WriteIntent { id: id.to_owned(), ..new }
    }

    fn end(outcome: &str) -> AuditCompletion {
        AuditCompletion {
            completed_at: wall_clock::now_rfc3339(),
            outcome: outcome.to_owned(),
            error_code: None,
            tx_hash: Some("AB".to_owned()),
            block_height: Some(7),
            code: Some(0),
            codespace: None,
        }
    }

    #[test]
    fn an_open_record_is_found_also_behind_a_torn_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl");
        let path = path.to_str().expect("a path");
        let (audit, open) = AuditLog::open(Some(path)).expect("opens");
        assert!(open.is_empty());
        audit.begin(&intent("a")).expect("written");
        audit.begin(&intent("b")).expect("written");
        audit.complete("a", end("included"));
        drop(audit);
        let mut torn = OpenOptions::new().append(true).open(path).expect("there");
        torn.write_all(b"{\"record\":\"begun\",\"id\":\"c\"").expect("written");

        let (audit, open) = AuditLog::open(Some(path)).expect("opens");
        assert_eq!(open.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["b"]);
        audit.complete("b", end("not_sent"));
        assert_eq!(audit.newest_records()[0].end.as_ref().map(|end| end.outcome.as_str()), Some("not_sent"));
        let (audit, open) = AuditLog::open(Some(path)).expect("opens");
        assert!(open.is_empty());
        assert_eq!(audit.newest_records().len(), 2);
        let lines = std::fs::read_to_string(path).expect("readable");
        assert_eq!(lines.lines().count(), 5, "nothing is ever taken away");
    }

    #[test]
    fn without_a_file_the_newest_records_stay() {
        let (audit, _) = AuditLog::open(None).expect("opens");
        for index in 0..=MAX_RECORDS_IN_MEMORY {
            audit.begin(&intent(&index.to_string())).expect("kept");
        }
        assert_eq!(
            (audit.newest_records().len(), audit.newest_records()[0].id.as_str()),
            (MAX_RECORDS_IN_MEMORY, "1000")
        );
        assert!(AuditLog::open(Some("/nowhere/at/all")).is_err());
    }
}
