//! The clock of the chain: height, header time and pace, as the node states them. Pure.

use std::{collections::VecDeque, time::Duration};

use prost_types::Timestamp;
use svc_wire::{comet_rpc::SyncInfo, timestamp};
use tokio::time::Instant;

use super::node_selection::ConfirmedHeight;

/// Height and header time of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockHead {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: Timestamp,
}

impl BlockHead {
    /// The head with a header time in RFC 3339; `None` when it is none.
    pub fn parse(height: u64, time: &str) -> Option<Self> {
        Some(Self { height, time: timestamp::parse_rfc3339(time)? })
    }

    /// The newest block of a node's status.
    pub fn of_status(sync_info: &SyncInfo) -> Option<Self> {
        Self::parse(sync_info.latest_block_height, &sync_info.latest_block_time)
    }
}

/// Height, time and pace of the chain. The supervision tree retains it.
///
/// The pace comes from header times: headers may arrive late and in bursts, and their times still tell the pace.
#[derive(Debug, Clone, Default)]
pub struct BlockClock {
    /// Newest height seen.
    pub height: u64,
    /// Whether the WebSocket is up.
    pub is_connected: bool,
    /// Time of the last message, RFC 3339.
    pub last_event_at: Option<String>,
    /// The newest heads, oldest first.
    heads: VecDeque<BlockHead>,
    /// Times at which they were heard.
    heard: VecDeque<Instant>,
    /// Newest height that two nodes have had, or the only node, and when that was seen first.
    confirmed: Option<(u64, Instant)>,
    /// Greatest height that two nodes have had, or the only node.
    shared_height: u64,
}

/// Blocks that the clock may be ahead of the chain, beyond its pace.
pub const MAX_LEAD: u64 = 20;
/// Blocks that the clock may be above the confirmed height for the search of a transaction.
pub const MAX_UNCONFIRMED: u64 = 1_000;
/// Blocks that the clock may be above a newest height of two nodes before it goes back to it.
const RESET_DISTANCE: u64 = 200;
/// Heads that the pace is taken from.
const PACE_HEADS: usize = 17;
/// Bounds of the time between blocks. The chain of a node that states other times is not faster or slower for it.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Fewest blocks between signature and timeout height, however slow the chain is.
const MIN_TIMEOUT_BLOCKS: u64 = 20;
/// Silence of the chain after which it counts as quiet, in usual times between blocks, and its lower bound.
const QUIET_INTERVALS: u32 = 5;
const MIN_QUIET: Duration = Duration::from_secs(5);

impl BlockClock {
    /// A clock that has seen one block.
    pub fn new(head: BlockHead, now: Instant) -> Self {
        let mut clock = Self::default();
        clock.confirm(ConfirmedHeight { height: head.height, is_newest: true }, now);
        clock.block_seen(head, now);
        clock
    }

    /// Records a block; false when it is not new.
    pub fn block_seen(&mut self, head: BlockHead, now: Instant) -> bool {
        if head.height <= self.height {
            return false;
        }
        self.height = head.height;
        self.heads.push_back(head);
        self.heard.push_back(now);
        if self.heads.len() > PACE_HEADS {
            self.heads.pop_front();
            self.heard.pop_front();
        }
        true
    }

    /// Usual time between two blocks: the median, which a single jump of the chain's clock does not move. `None` until two blocks
    /// were seen.
    pub fn interval(&self) -> Option<Duration> {
        let span = |earlier: &BlockHead, later: &BlockHead| {
            let nanos = timestamp::unix_nanos(&later.time) - timestamp::unix_nanos(&earlier.time);
            nanos / i128::from(later.height - earlier.height)
        };
        let mut spans: Vec<i128> = self.heads.iter().zip(self.heads.iter().skip(1)).map(|(a, b)| span(a, b)).collect();
        spans.sort_unstable();
        let median = *spans.get(spans.len() / 2)?;
        let interval = Duration::from_nanos(u64::try_from(median).unwrap_or(0));
        Some(interval.clamp(MIN_INTERVAL, MAX_INTERVAL))
    }

    /// Two nodes have this height, or the only one. A node that lags confirms its own height and not the newest one: the
    /// height that the chain can have reached is then still counted from the last newest one.
    pub fn confirm(&mut self, confirmed: ConfirmedHeight, now: Instant) {
        let ConfirmedHeight { height, is_newest } = confirmed;
        self.shared_height = self.shared_height.max(height);
        if !is_newest {
            return;
        }
        if height.saturating_add(RESET_DISTANCE) < self.height {
            // A single node had stated much greater heights.
            tracing::warn!(height, stated = self.height, "the clock of the chain goes back to the height of the nodes");
            self.heads.clear();
            self.heard.clear();
            (self.height, self.shared_height, self.confirmed) = (height, height, Some((height, now)));
        } else if self.confirmed.is_none_or(|(known, _)| height > known) {
            self.confirmed = Some((height, now));
        }
    }

    /// Greatest height that can be believed of one node alone: twice the usual pace of the chain since the last confirmation explains
    /// it. The heights that the node itself has stated since then do not raise it.
    pub fn plausible_height(&self, now: Instant) -> u64 {
        let Some((height, confirmed_at)) = self.confirmed else { return u64::MAX };
        let interval = self.interval().unwrap_or(MIN_INTERVAL).min(self.heard_interval());
        let blocks = 2.0 * now.saturating_duration_since(confirmed_at).as_secs_f64() / interval.as_secs_f64();
        height.saturating_add(blocks as u64).saturating_add(MAX_LEAD)
    }

    /// Mean time between the blocks as they were heard. The header times of a chain may be far from those of this machine.
    fn heard_interval(&self) -> Duration {
        let (Some(first), Some(last)) = (self.heads.front(), self.heads.back()) else { return MIN_INTERVAL };
        let (Some(from), Some(to)) = (self.heard.front(), self.heard.back()) else { return MIN_INTERVAL };
        let blocks = u32::try_from(last.height - first.height).unwrap_or(u32::MAX);
        let mean = to.saturating_duration_since(*from).checked_div(blocks).unwrap_or(MAX_INTERVAL);
        mean.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }

    /// A height that the chain has reached: the confirmed one, and not much below the clock while no second node answers.
    pub fn reached_height(&self) -> u64 {
        self.shared_height.min(self.height).max(self.height.saturating_sub(MAX_UNCONFIRMED))
    }

    /// Timeout height of a transaction that is signed now: twice the caller's wait limit away, so that a caller times out before the
    /// transaction does.
    pub fn timeout_height(&self, tx_timeout: Duration) -> u64 {
        let blocks = self.interval().map_or(0.0, |interval| 2.0 * tx_timeout.as_secs_f64() / interval.as_secs_f64());
        self.height + (blocks.ceil() as u64).max(MIN_TIMEOUT_BLOCKS)
    }

    /// Header time of the newest block: the state of the chain is that of this time.
    pub fn head_time(&self) -> Option<Timestamp> {
        self.heads.back().map(|head| head.time)
    }

    /// Time of the chain: the newest header time, and the time since that header was heard. `None` until a block was seen.
    pub fn time(&self, now: Instant) -> Option<Timestamp> {
        let since = self.silence(now)?;
        let nanos = timestamp::unix_nanos(&self.heads.back()?.time) + i128::try_from(since.as_nanos()).ok()?;
        Some(timestamp::from_unix_nanos(nanos))
    }

    /// Time since the newest block was heard. `None` until a block was seen.
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(*self.heard.back()?))
    }

    /// Whether no block was heard for much longer than usual.
    pub fn is_quiet(&self, now: Instant) -> bool {
        let limit = self.interval().map_or(MIN_QUIET, |interval| (interval * QUIET_INTERVALS).max(MIN_QUIET));
        self.silence(now).is_some_and(|silence| silence >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(height: u64, millis: i64) -> BlockHead {
        BlockHead { height, time: timestamp::from_unix_nanos(i128::from(millis) * 1_000_000) }
    }

    fn clock_of(heads: &[(u64, i64)]) -> BlockClock {
        let mut clock = BlockClock::default();
        for (height, millis) in heads {
            clock.block_seen(head(*height, *millis), Instant::now());
        }
        clock
    }

    #[test]
    fn the_timeout_height_follows_the_pace_of_the_headers() {
        let half_minute = Duration::from_secs(30);
        for (heads, timeout_height) in [
            (vec![(100, 0)], 120),
            (vec![(100, 0), (101, 1_000)], 161),
            // A gap counts per block, and an earlier block does not count.
            (vec![(100, 0), (101, 1_000), (103, 3_000), (102, 2_000)], 163),
            // A jump of the clock is one of several intervals.
            (vec![(1, 0), (2, 1_000), (3, 3_601_000), (4, 3_602_000)], 64),
            // Bounds: a chain without pace, and one that stands still between its blocks.
            (vec![(1, 0), (2, 1), (3, 2)], 603),
            (vec![(1, 0), (2, 3_600_000)], 22),
            (vec![(1, 1_000), (2, 0)], 602),
        ] {
            assert_eq!(clock_of(&heads).timeout_height(half_minute), timeout_height, "{heads:?}");
        }
    }

    #[test]
    fn a_burst_of_headers_does_not_change_the_pace() {
        let burst: Vec<(u64, i64)> =
            (1..=25).map(|height| (height, i64::try_from(height).expect("small") * 1_000)).collect();
        let clock = clock_of(&burst);
        assert_eq!(clock.interval(), Some(Duration::from_secs(1)), "all arrived at once");
        assert_eq!(clock.timeout_height(Duration::from_secs(30)), 25 + 60);
    }

    #[test]
    fn the_pace_or_a_second_node_explains_a_height() {
        let start = Instant::now();
        let mut clock = BlockClock::default();
        clock.block_seen(head(100, 0), start);
        clock.block_seen(head(101, 1_000), start + Duration::from_secs(1));
        let start = start + Duration::from_secs(1);
        let newest = |height| ConfirmedHeight { height, is_newest: true };
        clock.confirm(newest(101), start);
        assert_eq!((clock.plausible_height(start), clock.reached_height()), (121, 101));
        // A node cannot raise it by itself.
        clock.block_seen(head(121, 21_000), start + Duration::from_secs(20));
        assert_eq!((clock.plausible_height(start), clock.reached_height()), (121, 101));
        let later = start + Duration::from_secs(30);
        assert_eq!(clock.plausible_height(later), 181);
        // A second node that stands still does not hold it back, and confirms the height that it has.
        clock.confirm(newest(101), later);
        clock.confirm(ConfirmedHeight { height: 110, is_newest: false }, later);
        assert_eq!((clock.plausible_height(later), clock.reached_height()), (181, 110));
        clock.block_seen(head(1_800, 5_000_000), later);
        assert_eq!(clock.reached_height(), 800);
        // Two nodes agree far below.
        clock.confirm(newest(150), later);
        assert_eq!((clock.height, clock.plausible_height(later), clock.reached_height()), (150, 170, 150));
        assert!(clock.block_seen(head(151, 60_000), later));
    }

    #[test]
    fn the_time_of_the_chain_goes_on_between_blocks() {
        let start = Instant::now();
        let mut clock = BlockClock::default();
        assert_eq!((clock.time(start), clock.is_quiet(start)), (None, false));
        clock.block_seen(head(7, 50_000), start);
        clock.block_seen(head(8, 52_000), start);
        let later = start + Duration::from_millis(1_500);
        assert_eq!(clock.time(later), Some(head(0, 53_500).time));
        assert!(!clock.is_quiet(start + Duration::from_secs(9)));
        assert!(clock.is_quiet(start + Duration::from_secs(10)));
    }
}
