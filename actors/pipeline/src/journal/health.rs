//! Whether the journal can be written.

use serde::Serialize;
use svc_kit::wall_clock;

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
}

impl JournalHealth {
    /// The failure of the last write, until one succeeds.
    pub fn failure(&self) -> Option<&JournalFailure> {
        self.failure.as_ref()
    }

    /// The last write failed; true when that is news.
    pub fn record_failure(&mut self, reason: String) -> bool {
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
        self.failure.take().is_some()
    }
}
