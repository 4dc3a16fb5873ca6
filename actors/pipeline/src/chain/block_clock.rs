//! The chain's height and pace, as the node's WebSocket reports them. Pure.

use std::time::Duration;

use serde::Serialize;

/// Newest height and pace of the chain. The supervision tree retains it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BlockClock {
    /// Newest height seen.
    pub height: u64,
    /// Smoothed time between blocks in milliseconds; 0 until two were seen.
    pub interval_ms: f64,
    /// Whether the WebSocket is up.
    pub is_connected: bool,
    /// Time of the last message, RFC 3339.
    pub last_event_at: Option<String>,
}

/// Fewest blocks between signature and timeout height, however slow the chain is.
const MIN_TIMEOUT_BLOCKS: u64 = 20;

impl BlockClock {
    /// Records a block, `since_last` after the block before it.
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

    /// Timeout height of a transaction that is signed now: twice the caller's wait limit away, so that a caller times out before the
    /// transaction does.
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
        let (mut clock, second) = (BlockClock::default(), Duration::from_secs(1));
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
