//! The state of a session between its requests.

// Log messages are deprecated in the newest protocol version, and all versions have them.
#![allow(deprecated)]

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rmcp::model::LoggingLevel;

/// The subscriptions, the log level and the last write of a session.
#[derive(Debug, Default)]
pub struct SessionState {
    subscribed_uris: Mutex<HashSet<String>>,
    min_log_level: Mutex<Option<LoggingLevel>>,
    last_write_height: AtomicU64,
}

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

    /// Forgets the last write if it is at this height.
    pub fn forget_write(&self, height: u64) {
        let _ = self.last_write_height.compare_exchange(height, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
