//! The audit log: the origin of every write, begun before the signature and completed after the outcome, and the calls that wrote
//! nothing. Append-only, one JSON object a line, each with the hash of the line before it.
//!
//! The audit log is no actor. A line must exist before the signature, and a message in a mailbox dies with its actor; a line is
//! therefore one `write` to a file opened for appending. The operating system has the line when [`AuditLog::begin`] returns, so that
//! it survives the process. The journal also survives a power failure, and keeps the hash of the newest line.

mod chain;
mod file;
mod record;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use svc_kit::wall_clock;
use svc_pipeline::{JournalHandle, WriteIntent};
use svc_store::MinFreeSpace;
use tokio::time::Instant;

pub use self::{
    chain::AuditChain,
    file::{AuditError, verify_audit},
    record::{AuditCall, AuditCompletion, AuditRecord},
};
use self::{file::AuditFile, record::AuditLine};

/// Records in memory without a file.
const MAX_RECORDS_IN_MEMORY: usize = 1_000;
/// Longest message, and longest arguments, that a line has, as JSON in bytes.
const MAX_CONTENT_BYTES: usize = 16 * 1024;
const TOO_LONG: &str = "too long for a record";
/// Time between two lines about requests without a valid token, so that no such client can fill the disk.
const UNAUTHORIZED_INTERVAL: Duration = Duration::from_secs(60);

/// The place of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditPlace {
    /// Its file; `None` keeps the newest records in memory.
    pub file: Option<String>,
    /// Free bytes on the disk of the file below which no write begins.
    pub min_free_space: MinFreeSpace,
}

/// The audit. Clones share it.
#[derive(Clone)]
pub struct AuditLog(Arc<Mutex<AuditLogState>>);

struct AuditLogState {
    location: Arc<str>,
    min_free_space: MinFreeSpace,
    file: Option<AuditFile>,
    /// Keeps the hash of the newest line.
    journal: Option<JournalHandle>,
    records: VecDeque<AuditRecord>,
    /// Ids of the writes that have begun and not ended.
    open: HashSet<String>,
    /// Ends of writes that could not be written yet; the next line comes after them.
    unwritten: VecDeque<AuditLine>,
    line_count: u64,
    unauthorized_count: u64,
    unauthorized_at: Option<Instant>,
    problem: Option<String>,
}

impl AuditLog {
    /// Opens the file and follows its chain, or keeps the newest records in memory. `known_head` is the hash of a line that the journal
    /// has. Returns the records that an earlier process left open.
    pub fn open(place: &AuditPlace, known_head: Option<&str>) -> Result<(Self, Vec<AuditRecord>), AuditError> {
        let location: Arc<str> = place.file.as_deref().unwrap_or("memory").into();
        let mut read = ReadRecords::default();
        let (file, found_problem) = match &place.file {
            None => (None, None),
            Some(path) => {
                let (file, chain) = AuditFile::open(path, known_head, |line| read.add(line))?;
                (Some(file), chain.problem())
            }
        };
        let recorded_problem = read.problem.take();
        let records = read.into_records();
        let left_open: Vec<AuditRecord> = records.iter().filter(|record| record.end.is_none()).cloned().collect();
        let state = AuditLogState {
            location,
            min_free_space: place.min_free_space,
            file,
            journal: None,
            open: left_open.iter().map(|record| record.id.clone()).collect(),
            records,
            unwritten: VecDeque::new(),
            line_count: 0,
            unauthorized_count: 0,
            unauthorized_at: None,
            problem: recorded_problem.clone(),
        };
        let audit = Self(Arc::new(Mutex::new(state)));
        audit.with(|inner| {
            inner.trim();
            if let Some(problem) = found_problem.filter(|found| recorded_problem.as_ref() != Some(found)) {
                inner.record_problem(problem);
            }
        });
        Ok((audit, left_open))
    }

    fn with<R>(&self, work: impl FnOnce(&mut AuditLogState) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the hash of each newest line in the journal too.
    pub fn keep_head_in(&self, journal: JournalHandle) {
        self.with(|inner| inner.journal = Some(journal));
    }

    /// A write begins; it must not be signed when this fails. `message` is the message as JSON.
    pub fn begin(&self, order: &WriteIntent, message: Value) -> Result<(), AuditError> {
        let is_short = message.to_string().len() <= MAX_CONTENT_BYTES;
        let record = AuditRecord {
            id: order.id.clone(),
            begun_at: wall_clock::now_rfc3339(),
            principal: order.origin.principal.to_string(),
            session: order.origin.session.to_string(),
            client: order.origin.client.to_string(),
            tool: order.origin.tool.to_string(),
            msg_type: order.encoded.msg_type().to_owned(),
            message_digest: order.encoded.digest(),
            verdict: order.origin.verdict.to_string(),
            message: if is_short { message } else { TOO_LONG.into() },
            confirmed_by: order.origin.confirmed_by.as_deref().map(str::to_owned),
            idempotency_key: order.idempotency_key.clone(),
            end: None,
        };
        self.with(|inner| {
            inner.check_space()?;
            inner.append(&AuditLine::Begun(Box::new(record.clone())))?;
            inner.open.insert(record.id.clone());
            inner.records.push_back(record);
            inner.trim();
            Ok(())
        })
    }

    /// A write of an earlier process goes on. Its begin may have been lost with the power, or be in a file that was moved away.
    pub fn continue_write(&self, order: &WriteIntent, message: Value) {
        if !self.with(|inner| inner.open.contains(&order.id))
            && let Err(error) = self.begin(order, message)
        {
            tracing::error!(%error, id = order.id, "a write of an earlier process cannot be put on record");
        }
    }

    /// Whether a write has begun and not ended.
    pub fn is_open(&self, id: &str) -> bool {
        self.with(|inner| inner.open.contains(id))
    }

    /// A write has ended; a second end of it is none. The next boot completes a record that has a begin and no end.
    pub fn complete(&self, id: &str, end: AuditCompletion) {
        let written = self.with(|inner| {
            if !inner.open.remove(id) {
                return Ok(());
            }
            if let Some(record) = inner.records.iter_mut().rev().find(|record| record.id == id) {
                record.end = Some(end.clone());
            }
            inner.unwritten.push_back(AuditLine::Completed { id: id.to_owned(), end });
            inner.write_completions()
        });
        if let Err(error) = written {
            tracing::error!(%error, id, "the end of a write cannot be put on record");
        }
    }

    /// A call ended that wrote nothing to the chain.
    pub fn record_call(&self, mut call: AuditCall) {
        if call.arguments.to_string().len() > MAX_CONTENT_BYTES {
            call.arguments = TOO_LONG.into();
        }
        if let Err(error) = self.with(|inner| inner.append(&AuditLine::Called(Box::new(call)))) {
            tracing::error!(%error, "a call cannot be put on record");
        }
    }

    /// A request came without a valid token.
    pub fn count_unauthorized(&self) {
        self.with(|inner| {
            inner.unauthorized_count += 1;
            inner.record_unauthorized();
        });
    }

    /// Continues in the file that is at the path now, after the one before was moved away.
    pub fn rotate(&self) {
        match self.with(AuditLogState::rotate) {
            Ok(()) => tracing::info!(audit = &*self.location(), "the audit goes on in the file at its path"),
            Err(error) => tracing::error!(%error, "the audit cannot go on in the file at its path"),
        }
    }

    /// Writes down all that still waits, before the process ends.
    pub fn close(&self) {
        let written = self.with(|inner| {
            inner.unauthorized_at = None;
            inner.record_unauthorized();
            inner.write_completions()
        });
        if let Err(error) = written {
            tracing::error!(%error, "the end of a write cannot be put on record");
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

    /// The reason why the file is not as it was written; a file that was begun by a rotation has none.
    pub fn problem(&self) -> Option<String> {
        self.with(|inner| inner.problem.clone())
    }
}

impl AuditLogState {
    /// The rest of the disk is for the ends of writes that have begun.
    fn check_space(&self) -> Result<(), AuditError> {
        match self.file.as_ref().and_then(|_| self.min_free_space.shortage(Path::new(&*self.location))) {
            None => Ok(()),
            Some(free) => Err(AuditError {
                location: self.location.to_string(),
                reason: format!("{free} bytes are free on its disk, less than {}", self.min_free_space),
            }),
        }
    }

    /// The file is not as it was written: a line says so for good.
    fn record_problem(&mut self, problem: String) {
        tracing::error!(audit = &*self.location, problem, "the audit is not as it was written");
        self.problem = Some(problem.clone());
        if let Err(error) = self.append(&AuditLine::Problem { at: wall_clock::now_rfc3339(), problem }) {
            tracing::error!(%error, "the problem of the audit cannot be put on record");
        }
    }

    /// Writes the ends of writes that wait, in order.
    fn write_completions(&mut self) -> Result<(), AuditError> {
        while let Some(line) = self.unwritten.pop_front() {
            if let Err(error) = self.append_line(&line) {
                self.unwritten.push_front(line);
                return Err(error);
            }
        }
        Ok(())
    }

    fn append(&mut self, line: &AuditLine) -> Result<(), AuditError> {
        self.write_completions()?;
        self.append_line(line)
    }

    fn append_line(&mut self, line: &AuditLine) -> Result<(), AuditError> {
        self.line_count += 1;
        let Some(file) = &mut self.file else { return Ok(()) };
        file.append(&serde_json::to_value(line).unwrap_or_default())?;
        if let Some(journal) = &self.journal {
            journal.record_audit_head(file.head());
        }
        if !matches!(line, AuditLine::Unauthorized { .. }) {
            self.record_unauthorized();
        }
        Ok(())
    }

    /// The new file begins with the writes that have not ended, so that the next boot completes them there.
    fn rotate(&mut self) -> Result<(), AuditError> {
        self.write_completions()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        if !file.reopen()? {
            return Ok(());
        }
        let open: Vec<AuditRecord> =
            self.records.iter().filter(|record| self.open.contains(&record.id)).cloned().collect();
        for record in open {
            self.append(&AuditLine::Begun(Box::new(record)))?;
        }
        if let (Some(file), Some(journal)) = (&self.file, &self.journal) {
            journal.record_audit_head(file.head());
            journal.write_soon();
        }
        Ok(())
    }

    /// Writes at most one line a minute.
    fn record_unauthorized(&mut self) {
        let is_due = self.unauthorized_at.is_none_or(|last| last.elapsed() >= UNAUTHORIZED_INTERVAL);
        if self.unauthorized_count == 0 || !is_due {
            return;
        }
        self.unauthorized_at = Some(Instant::now());
        let line = AuditLine::Unauthorized { at: wall_clock::now_rfc3339(), count: self.unauthorized_count };
        match self.append(&line) {
            Ok(()) => self.unauthorized_count = 0,
            Err(error) => tracing::error!(%error, "requests without a token cannot be put on record"),
        }
    }

    /// The newest records stay, and those of writes that have not ended.
    fn trim(&mut self) {
        let surplus = self.records.len().saturating_sub(MAX_RECORDS_IN_MEMORY);
        if surplus > 0 {
            let (mut position, open) = (0, &self.open);
            self.records.retain(|record| {
                position += 1;
                position > surplus || open.contains(&record.id)
            });
        }
    }
}

/// Records of a file: the newest, and all that are open.
#[derive(Default)]
struct ReadRecords {
    records: BTreeMap<u64, AuditRecord>,
    positions: BTreeMap<String, u64>,
    next: u64,
    /// The newest problem that a boot has found.
    problem: Option<String>,
}

impl ReadRecords {
    fn add(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(AuditLine::Begun(record)) => {
                self.positions.insert(record.id.clone(), self.next);
                self.records.insert(self.next, *record);
                self.next += 1;
            }
            Ok(AuditLine::Completed { id, end }) => {
                // An old record that has ended is of no use.
                if let Some(position) = self.positions.remove(&id) {
                    if position + (MAX_RECORDS_IN_MEMORY as u64) < self.next {
                        self.records.remove(&position);
                    } else if let Some(record) = self.records.get_mut(&position) {
                        record.end = Some(end);
                    }
                }
                if self.records.len() > 2 * MAX_RECORDS_IN_MEMORY {
                    let oldest = self.next.saturating_sub(MAX_RECORDS_IN_MEMORY as u64);
                    self.records.retain(|position, record| *position >= oldest || record.end.is_none());
                }
            }
            Ok(AuditLine::Problem { problem, .. }) => self.problem = Some(problem),
            Ok(AuditLine::Called(_) | AuditLine::Unauthorized { .. }) | Err(_) => {}
        }
    }

    fn into_records(self) -> VecDeque<AuditRecord> {
        self.records.into_values().collect()
    }
}
