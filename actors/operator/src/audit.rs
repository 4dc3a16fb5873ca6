//! The audit: who asked for which write, begun before the signature and completed after the outcome. Append-only, a JSON object
//! a line.
//!
//! There is no actor: a line is one `write` to a file opened for appending, it must be there before the signature, and what
//! waits in a mailbox dies with its actor. A line is in the system's hands when [`Audit::begin`] returns, so it survives the
//! process; the journal is what survives the machine.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use svc_kit::wall;

use crate::order::Order;

/// The audit cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct AuditError {
    /// Its file.
    pub place: String,
    /// What the system says.
    pub reason: String,
}

/// A write attempt. Its end is absent until it has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Id of the write.
    pub id: String,
    /// When it began, RFC 3339.
    pub begun_at: String,
    /// Session that asked.
    pub session: String,
    /// Its client program.
    pub client: String,
    /// Tool that was called.
    pub tool: String,
    /// Type URL.
    pub msg_type: String,
    /// Digest of the exact message.
    pub message_digest: String,
    /// What the policy said: `allow`, `ask`, `confirm`.
    pub verdict: String,
    /// Key of the caller.
    pub idempotency_key: Option<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AuditEnd>,
}

/// The end of a write attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEnd {
    /// When, RFC 3339.
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

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    Begun(AuditRecord),
    Completed {
        id: String,
        #[serde(flatten)]
        end: AuditEnd,
    },
}

/// Records that are told.
const KEPT: usize = 1_000;
/// How much of the file's end is read at boot: what is open stands near it.
const TAIL: u64 = 16 * 1024 * 1024;

/// The audit. Clones share it.
#[derive(Clone)]
pub struct Audit(Arc<Mutex<Inner>>);

struct Inner {
    place: Arc<str>,
    file: Option<File>,
    records: VecDeque<AuditRecord>,
    taken: u64,
}

impl Audit {
    /// Opens the file, or keeps the newest records in memory. Yields what an earlier process left open.
    pub fn open(file: Option<&str>) -> Result<(Self, Vec<AuditRecord>), AuditError> {
        let place: Arc<str> = file.unwrap_or("memory").into();
        let failed = |error: std::io::Error| AuditError {
            place: file.unwrap_or_default().to_owned(),
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
        let audit = Self(Arc::new(Mutex::new(Inner { place, file, records, taken: 0 })));
        audit.with(Inner::trim);
        Ok((audit, open))
    }

    fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A write begins; it must not be signed when this fails.
    pub fn begin(&self, order: &Order) -> Result<(), AuditError> {
        let record = AuditRecord {
            id: order.id.clone(),
            begun_at: wall::now_text(),
            session: order.asker.session.to_string(),
            client: order.asker.client.to_string(),
            tool: order.asker.tool.to_string(),
            msg_type: order.prepared.msg_type().to_owned(),
            message_digest: order.prepared.digest(),
            verdict: order.asker.verdict.to_string(),
            idempotency_key: order.key.clone(),
            end: None,
        };
        self.with(|inner| {
            inner.append(&Line::Begun(record.clone()))?;
            inner.records.push_back(record);
            inner.trim();
            Ok(())
        })
    }

    /// A write has ended. What is begun and not completed is completed at the next boot.
    pub fn complete(&self, id: &str, end: AuditEnd) {
        let written = self.with(|inner| {
            if let Some(record) = inner.records.iter_mut().rev().find(|record| record.id == id) {
                record.end = Some(end.clone());
            }
            inner.append(&Line::Completed { id: id.to_owned(), end })
        });
        if let Err(error) = written {
            tracing::error!(%error, id, "the end of a write cannot be put on record");
        }
    }

    /// The newest records, newest first.
    pub fn newest(&self) -> Vec<AuditRecord> {
        self.with(|inner| inner.records.iter().rev().cloned().collect())
    }

    /// Lines taken since boot.
    pub fn taken(&self) -> u64 {
        self.with(|inner| inner.taken)
    }

    /// `memory`, or the file.
    pub fn place(&self) -> Arc<str> {
        self.with(|inner| Arc::clone(&inner.place))
    }
}

impl Inner {
    fn append(&mut self, line: &Line) -> Result<(), AuditError> {
        self.taken += 1;
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).unwrap_or_default();
        text.push('\n');
        let failed = |error: std::io::Error| AuditError { place: self.place.to_string(), reason: error.to_string() };
        file.write_all(text.as_bytes()).map_err(failed)
    }

    fn trim(&mut self) {
        let surplus = self.records.len().saturating_sub(KEPT);
        self.records.drain(..surplus);
    }
}

/// Records in the end of the file, and whether its last line is whole.
fn read_tail(file: &mut File) -> std::io::Result<(VecDeque<AuditRecord>, bool)> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut reader = BufReader::new(file.take(TAIL));
    let (mut order, mut records) = (VecDeque::new(), BTreeMap::new());
    let (mut line, mut is_whole) = (Vec::new(), true);
    while reader.read_until(b'\n', &mut line)? > 0 {
        is_whole = line.last() == Some(&b'\n');
        // The first line may be cut, and the last of a process that died.
        match serde_json::from_slice(&line) {
            Ok(Line::Begun(record)) => {
                order.push_back(record.id.clone());
                records.insert(record.id.clone(), record);
            }
            Ok(Line::Completed { id, end }) => {
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
    use super::*;

    fn order(id: &str) -> Order {
        Order { id: id.to_owned(), ..(*Order::sample()).clone() }
    }

    fn end(outcome: &str) -> AuditEnd {
        AuditEnd {
            completed_at: wall::now_text(),
            outcome: outcome.to_owned(),
            error_code: None,
            tx_hash: Some("AB".to_owned()),
            block_height: Some(7),
            code: Some(0),
            codespace: None,
        }
    }

    #[test]
    fn what_is_begun_and_not_completed_is_found_open_also_behind_a_torn_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl");
        let path = path.to_str().expect("a path");
        let (audit, open) = Audit::open(Some(path)).expect("opens");
        assert!(open.is_empty());
        audit.begin(&order("a")).expect("written");
        audit.begin(&order("b")).expect("written");
        audit.complete("a", end("included"));
        drop(audit);
        let mut torn = OpenOptions::new().append(true).open(path).expect("there");
        torn.write_all(b"{\"record\":\"begun\",\"id\":\"c\"").expect("written");

        let (audit, open) = Audit::open(Some(path)).expect("opens");
        assert_eq!(open.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["b"]);
        audit.complete("b", end("not_sent"));
        assert_eq!(audit.newest()[0].end.as_ref().map(|end| end.outcome.as_str()), Some("not_sent"));
        let (audit, open) = Audit::open(Some(path)).expect("opens");
        assert!(open.is_empty());
        assert_eq!(audit.newest().len(), 2);
        let lines = std::fs::read_to_string(path).expect("readable");
        assert_eq!(lines.lines().count(), 5, "nothing is ever taken away");
    }

    #[test]
    fn without_a_file_the_newest_are_kept() {
        let (audit, _) = Audit::open(None).expect("opens");
        for index in 0..=KEPT {
            audit.begin(&order(&index.to_string())).expect("kept");
        }
        assert_eq!((audit.newest().len(), audit.newest()[0].id.as_str()), (KEPT, "1000"));
        assert!(Audit::open(Some("/nowhere/at/all")).is_err());
    }
}
