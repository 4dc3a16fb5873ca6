//! The state of a session between its requests.

// Log messages are deprecated in the newest protocol version, and all versions have them.
#![allow(deprecated)]

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::model::LoggingLevel;
use svc_operator::HeightSource;

/// The subscriptions, the log level and the last write of a session.
#[derive(Debug, Default)]
pub struct SessionState {
    subscribed_uris: Mutex<HashSet<String>>,
    min_log_level: Mutex<Option<LoggingLevel>>,
    last_write_height: AtomicU64,
    /// Height of the write for which a read has waited in vain, by reader.
    missed_heights: [AtomicU64; 3],
}

/// Longest wait for a write for which an earlier read of the session has waited in vain.
const REPEATED_WAIT: Duration = Duration::from_secs(1);

impl SessionState {
    /// Runs `change` on the URIs of the resources that the client subscribes to.
    pub fn with_subscribed_uris<R>(&self, change: impl FnOnce(&mut HashSet<String>) -> R) -> R {
        change(&mut self.subscribed_uris.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the lowest severity of log messages for the client.
    pub fn set_level(&self, level: LoggingLevel) {
        *self.min_log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// The lowest severity of log messages for the client; `None` when it has set none.
    pub fn min_log_level(&self) -> Option<LoggingLevel> {
        *self.min_log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Height of the session's last write; 0 without one.
    pub fn last_write_height(&self) -> u64 {
        self.last_write_height.load(Ordering::Relaxed)
    }

    /// Records a write.
    pub fn record_write(&self, height: u64) {
        self.last_write_height.fetch_max(height, Ordering::Relaxed);
    }

    /// Longest wait of a read for the write at this height.
    pub fn wait_limit(&self, reader: HeightSource, height: u64, full: Duration) -> Duration {
        let has_missed = self.missed_heights[reader as usize].load(Ordering::Relaxed) == height;
        if has_missed { full.min(REPEATED_WAIT) } else { full }
    }

    /// Records that a read has waited in vain for the write at this height. Later reads wait for a moment only, and say so each time.
    pub fn record_miss(&self, reader: HeightSource, height: u64) {
        self.missed_heights[reader as usize].store(height, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_write_and_waits_for_a_moment_after_a_wait_in_vain() {
        let (state, full) = (SessionState::default(), Duration::from_secs(15));
        state.record_write(7);
        assert_eq!(state.wait_limit(HeightSource::Indexer, 7, full), full);
        state.record_miss(HeightSource::Indexer, 7);
        assert_eq!(state.last_write_height(), 7);
        assert_eq!(state.wait_limit(HeightSource::Indexer, 7, full), REPEATED_WAIT);
        assert_eq!(state.wait_limit(HeightSource::Indexer, 7, Duration::from_millis(10)), Duration::from_millis(10));
        // Another reader, and another write.
        assert_eq!(state.wait_limit(HeightSource::Graph, 7, full), full);
        state.record_write(8);
        assert_eq!(state.wait_limit(HeightSource::Indexer, 8, full), full);
    }
}
