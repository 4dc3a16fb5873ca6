//! Whether the journal can be written.

use std::time::Duration;

use serde::Serialize;
use svc_kit::wall_clock;
use tokio::time::Instant;

/// The reason why nothing is signed at present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalFailure {
    /// Time of its first occurrence, RFC 3339.
    pub since: String,
    /// Words of the database or of the operating system.
    pub reason: String,
}

/// The last write of the journal, and the space on its disk. The tree retains it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalHealth {
    failure: Option<JournalFailure>,
    /// Begin of the write that is under way.
    write_begun: Option<Instant>,
}

/// Duration of a write after which the disk counts as hanging.
const HANGING: Duration = Duration::from_secs(3);

impl JournalHealth {
    /// The failure of the last write, until one succeeds; also of one that does not end.
    pub fn failure(&self) -> Option<JournalFailure> {
        let hanging = || {
            let waited = self.write_begun.map(|begun| begun.elapsed()).filter(|waited| *waited >= HANGING)?;
            let reason = format!("the disk has not answered for {} seconds", waited.as_secs());
            Some(JournalFailure { since: wall_clock::now_rfc3339(), reason })
        };
        self.failure.clone().or_else(hanging)
    }

    /// A write begins.
    pub fn begin_write(&mut self) {
        self.write_begun = Some(Instant::now());
    }

    /// The last write failed; true when that is news.
    pub fn record_failure(&mut self, reason: String) -> bool {
        self.write_begun = None;
        match &mut self.failure {
            Some(known) if known.reason == reason => false,
            Some(known) => {
                known.reason = reason;
                true
            }
            None => {
                self.failure = Some(JournalFailure { since: wall_clock::now_rfc3339(), reason });
                true
            }
        }
    }

    /// The last write succeeded; true when the one before had failed.
    pub fn record_success(&mut self) -> bool {
        self.write_begun = None;
        self.failure.take().is_some()
    }
}
