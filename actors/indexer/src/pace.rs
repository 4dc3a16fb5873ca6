//! The time between blocks that the indexer announces: a configured one, or that of the chain.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Newest blocks that the pace is taken from.
pub(crate) const PACE_BLOCKS: usize = 100;
/// The interval while fewer than two blocks are known.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(6);
/// Bounds of the chain's interval.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// The announced time between blocks. Clones share it.
#[derive(Debug, Clone)]
pub struct AnnouncedInterval {
    fixed: Option<Duration>,
    pace: Arc<Mutex<Pace>>,
}

#[derive(Debug)]
struct Pace {
    /// Times of the newest blocks, nanoseconds since the epoch.
    times: VecDeque<i128>,
    interval: Duration,
}

impl AnnouncedInterval {
    /// A configured interval, or the median of the newest blocks.
    pub fn new(fixed: Option<Duration>) -> Self {
        Self { fixed, pace: Arc::new(Mutex::new(Pace { times: VecDeque::new(), interval: UNKNOWN_INTERVAL })) }
    }

    /// The interval.
    pub fn get(&self) -> Duration {
        self.fixed.unwrap_or_else(|| self.with(|pace| pace.interval))
    }

    /// Records blocks in their order, by their times in nanoseconds since the epoch.
    pub fn record_blocks(&self, times: impl IntoIterator<Item = i128>) {
        self.with(|pace| {
            pace.times.extend(times);
            let surplus = pace.times.len().saturating_sub(PACE_BLOCKS);
            pace.times.drain(..surplus);
            pace.interval = median_interval(&pace.times).unwrap_or(UNKNOWN_INTERVAL);
        });
    }

    fn with<R>(&self, change: impl FnOnce(&mut Pace) -> R) -> R {
        change(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl From<Duration> for AnnouncedInterval {
    fn from(interval: Duration) -> Self {
        Self::new(Some(interval))
    }
}

/// The median of the times between blocks; `None` with fewer than two blocks.
fn median_interval(times: &VecDeque<i128>) -> Option<Duration> {
    let mut spans: Vec<i128> = times.iter().zip(times.iter().skip(1)).map(|(earlier, later)| later - earlier).collect();
    spans.sort_unstable();
    let median = *spans.get(spans.len() / 2)?;
    Some(Duration::from_nanos(u64::try_from(median).unwrap_or(0)).clamp(MIN_INTERVAL, MAX_INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(times: impl IntoIterator<Item = i128>) -> Vec<i128> {
        times.into_iter().map(|time| time * 1_000_000).collect()
    }

    #[test]
    fn the_interval_is_the_configured_one_or_the_median_of_the_newest_blocks() {
        let regular = |count: i128, interval: i128| (0..count).map(move |number| number * interval);
        for (fixed, times, expected) in [
            (None, millis([]), 6_000),
            (None, millis([5]), 6_000),
            (None, millis([0, 200]), 200),
            (Some(2_000), millis(regular(50, 200)), 2_000),
            // A halt is one of many intervals.
            (None, millis([0, 200, 400, 3_600_400, 3_600_600, 3_600_800]), 200),
            // Only the newest blocks count.
            (None, millis(regular(500, 6_000).chain((1..=100).map(|number| 2_994_000 + number * 200))), 200),
            // Bounds.
            (None, millis([0, 1, 2]), 100),
            (None, millis([0, 3_600_000]), 60_000),
            (None, millis([9, 3]), 100),
        ] {
            let interval = AnnouncedInterval::new(fixed.map(Duration::from_millis));
            interval.clone().record_blocks(times);
            assert_eq!(interval.get(), Duration::from_millis(expected), "{fixed:?}");
        }
    }
}
