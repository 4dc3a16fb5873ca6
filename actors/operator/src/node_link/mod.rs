//! The node's WebSocket: one standing subscription for the operator's transactions, and the new-block clock.
//!
//! A node allows five subscriptions per connection, so there is one for all transactions in flight: on `tx.acc_seq`, which the
//! ante handler emits also for transactions that fail in execution. After every reconnect the confirmer looks all pending
//! hashes up, so an inclusion that passed unseen is found.

mod actor;

use std::time::Duration;

pub use actor::{Args, NodeLink};
use serde::Serialize;

/// What the chain's blocks tell of time. Retained by the tree.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Clock {
    /// Newest height seen.
    pub height: u64,
    /// Smoothed time between blocks in milliseconds; 0 until two were seen.
    pub interval_ms: f64,
    /// Whether the WebSocket is up.
    pub is_connected: bool,
    /// When the last message came, RFC 3339.
    pub last_event_at: Option<String>,
}

/// Blocks a transaction is given at least, however slow they come.
const MIN_TIMEOUT_BLOCKS: u64 = 20;

impl Clock {
    /// Notes a block that came `since_last` after the one before.
    pub fn block_seen(&mut self, height: u64, since_last: Option<Duration>) {
        if height <= self.height {
            return;
        }
        let blocks = (height - self.height) as f64;
        if let Some(since_last) = since_last.filter(|_| self.height > 0) {
            let interval = since_last.as_secs_f64() * 1000.0 / blocks;
            self.interval_ms = if self.interval_ms == 0.0 { interval } else { self.interval_ms * 0.8 + interval * 0.2 };
        }
        self.height = height;
    }

    /// A height that is twice the caller's patience away, so that a caller times out before his transaction does.
    pub fn timeout_height(&self, tx_timeout: Duration) -> u64 {
        let blocks =
            if self.interval_ms > 0.0 { 2.0 * tx_timeout.as_secs_f64() * 1000.0 / self.interval_ms } else { 0.0 };
        self.height + (blocks.ceil() as u64).max(MIN_TIMEOUT_BLOCKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_height_follows_the_pace_of_the_chain() {
        let (mut clock, second) = (Clock::default(), Duration::from_secs(1));
        clock.block_seen(100, None);
        assert_eq!(clock.timeout_height(30 * second), 120);
        clock.block_seen(101, Some(second));
        assert_eq!(clock.timeout_height(30 * second), 161);
        clock.block_seen(103, Some(2 * second));
        assert!((clock.interval_ms - 1000.0).abs() < 1e-6, "a jump counts per block");
        clock.block_seen(102, Some(second));
        assert_eq!(clock.height, 103);
    }
}
