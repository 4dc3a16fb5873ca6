//! The audit log: the origin of every write, begun before the signature and completed after the outcome, and the calls that wrote
//! nothing. Append-only, one JSON object a line, each with the hash of the line before it.
//!
//! The audit log is no actor. A line must exist before the signature, and a message in a mailbox dies with its actor; a line is
//! therefore one `write` to a file opened for appending. The operating system has the line when [`AuditLog::begin`] returns, so that
//! it survives the process. The journal also survives a power failure, and keeps the hash of the newest line.

mod chain;
mod file;
mod record;

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use svc_kit::wall_clock;
use svc_pipeline::{JournalHandle, WriteIntent};
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

/// The audit. Clones share it.
#[derive(Clone)]
pub struct AuditLog(Arc<Mutex<AuditLogState>>);

struct AuditLogState {
    location: Arc<str>,
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
    pub fn open(file: Option<&str>, known_head: Option<&str>) -> Result<(Self, Vec<AuditRecord>), AuditError> {
        let location: Arc<str> = file.unwrap_or("memory").into();
        let mut read = ReadRecords::default();
        let (file, problem) = match file {
            None => (None, None),
            Some(path) => {
                let (file, chain) = AuditFile::open(path, known_head, |line| read.add(line))?;
                (Some(file), chain.problem(known_head))
            }
        };
        if let Some(problem) = &problem {
            tracing::error!(audit = &*location, problem, "the audit is not as it was written");
        }
        let records = read.into_records();
        let left_open: Vec<AuditRecord> = records.iter().filter(|record| record.end.is_none()).cloned().collect();
        let state = AuditLogState {
            location,
            file,
            journal: None,
            open: left_open.iter().map(|record| record.id.clone()).collect(),
            records,
            unwritten: VecDeque::new(),
            line_count: 0,
            unauthorized_count: 0,
            unauthorized_at: None,
            problem,
        };
        let audit = Self(Arc::new(Mutex::new(state)));
        audit.with(AuditLogState::trim);
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

    /// The reason why the file was not as it had been written at boot.
    pub fn problem(&self) -> Option<String> {
        self.with(|inner| inner.problem.clone())
    }
}

impl AuditLogState {
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
            Ok(AuditLine::Called(_) | AuditLine::Unauthorized { .. }) | Err(_) => {}
        }
    }

    fn into_records(self) -> VecDeque<AuditRecord> {
        self.records.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write, os::unix::fs::PermissionsExt};

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
            fee: None,
        }
    }

    #[test]
    fn an_open_record_is_found_also_behind_a_torn_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl");
        let path = path.to_str().expect("a path");
        let (audit, open) = AuditLog::open(Some(path), None).expect("opens");
        assert!(open.is_empty());
        audit.begin(&intent("a"), Value::Null).expect("written");
        audit.begin(&intent("b"), Value::Null).expect("written");
        audit.complete("a", end("included"));
        drop(audit);
        let mut torn = OpenOptions::new().append(true).open(path).expect("there");
        torn.write_all(b"{\"record\":\"begun\",\"id\":\"c\"").expect("written");

        let (audit, open) = AuditLog::open(Some(path), None).expect("opens");
        assert_eq!(open.iter().map(|record| record.id.as_str()).collect::<Vec<_>>(), ["b"]);
        audit.complete("b", end("not_sent"));
        assert_eq!(audit.newest_records()[0].end.as_ref().map(|end| end.outcome.as_str()), Some("not_sent"));
        drop(audit);
        let (audit, open) = AuditLog::open(Some(path), None).expect("opens");
        assert!(open.is_empty());
        assert_eq!(audit.newest_records().len(), 2);
        let lines = std::fs::read_to_string(path).expect("readable");
        assert_eq!(lines.lines().count(), 5, "nothing is ever taken away");
    }

    #[test]
    fn without_a_file_the_newest_records_stay() {
        let (audit, _) = AuditLog::open(None, None).expect("opens");
        for index in 0..=MAX_RECORDS_IN_MEMORY {
            audit.begin(&intent(&index.to_string()), Value::Null).expect("kept");
            audit.complete(&index.to_string(), end("included"));
        }
        assert_eq!(
            (audit.newest_records().len(), audit.newest_records()[0].id.as_str()),
            (MAX_RECORDS_IN_MEMORY, "1000")
        );
        assert!(AuditLog::open(Some("/nowhere/at/all"), None).is_err());
    }

    fn lines_of(path: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(path).expect("readable");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn a_file_is_for_one_process_and_for_its_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl").display().to_string();
        let (_audit, _) = AuditLog::open(Some(&path), None).expect("opens");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let error = AuditLog::open(Some(&path), None).err().expect("held").to_string();
        assert!(error.contains("is in use by process"), "{error}");
    }

    #[test]
    fn a_changed_or_shortened_file_is_noticed_and_a_rotated_one_goes_on() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl").display().to_string();
        let (audit, _) = AuditLog::open(Some(&path), None).expect("opens");
        for id in ["a", "b", "c"] {
            audit.begin(&intent(id), Value::Null).expect("written");
            audit.complete(id, end("included"));
            audit.complete(id, end("failed"));
        }
        drop(audit);
        let whole = verify_audit(&path).expect("read");
        assert_eq!((whole.lines, whole.broken_at), (6, None), "an end is written once");
        let problem = |known_head: Option<&str>| AuditLog::open(Some(&path), known_head).expect("opens").0.problem();
        assert_eq!(problem(Some(&whole.head)), None);
        let text = std::fs::read_to_string(&path).expect("read");
        std::fs::write(&path, text.lines().take(4).map(|line| format!("{line}\n")).collect::<String>())
            .expect("written");
        assert!(problem(Some(&whole.head)).is_some_and(|problem| problem.contains("the journal knows")));
        std::fs::write(&path, text.replacen("included", "failed", 1)).expect("written");
        assert_eq!(problem(None).as_deref(), Some("line 3 does not follow from the line before it"));

        std::fs::write(&path, &text).expect("written");
        let (audit, _) = AuditLog::open(Some(&path), None).expect("opens");
        std::fs::rename(&path, format!("{path}.1")).expect("moved");
        audit.begin(&intent("d"), Value::Null).expect("still in the old file");
        let old_head = verify_audit(&format!("{path}.1")).expect("read").head;
        audit.rotate();
        audit.complete("d", end("included"));
        let lines = lines_of(&path);
        assert_eq!((&lines[0]["record"], &lines[0]["previous"]), (&"rotated".into(), &old_head.into()));
        let records: Vec<&Value> = lines.iter().map(|line| &line["record"]).collect();
        assert_eq!(records, ["rotated", "begun", "completed"], "a write that has not ended goes on in the new file");
        audit.rotate();
        assert_eq!(lines_of(&path).len(), 3, "a file that was not moved away goes on");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_a_token_make_a_line_a_minute() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("audit.jsonl").display().to_string();
        let (audit, _) = AuditLog::open(Some(&path), None).expect("opens");
        for _ in 0..1_000 {
            audit.count_unauthorized();
        }
        tokio::time::advance(UNAUTHORIZED_INTERVAL).await;
        audit.count_unauthorized();
        let counts: Vec<Value> = lines_of(&path).into_iter().map(|line| line["count"].clone()).collect();
        assert_eq!(counts, [1, 1_000]);
    }
}
