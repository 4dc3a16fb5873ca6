//! Delays between retries.

use std::time::Duration;

/// Exponential backoff with jitter: `initial · factor^attempt`, never above `max`, spread by ± `jitter`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay before the first retry.
    pub initial: Duration,
    /// Bound of the delay, before jitter.
    pub max: Duration,
    /// Growth per attempt.
    pub factor: f64,
    /// Random spread to both sides, as a share of the delay: 0.2 is ± 20 %.
    pub jitter: f64,
}

impl Backoff {
    /// Backoff of connections: 1 s to 30 s, ± 20 %.
    pub const CONNECTION: Self =
        Self { initial: Duration::from_secs(1), max: Duration::from_secs(30), factor: 2.0, jitter: 0.2 };

    /// Backoff of actor restarts: short at first, since most faults do not repeat.
    pub const RESTART: Self =
        Self { initial: Duration::from_millis(5), max: Duration::from_secs(5), factor: 4.0, jitter: 0.2 };

    /// Backoff of a start whose upstreams are not there yet: 500 ms to 5 s, without spread.
    pub const STARTUP: Self =
        Self { initial: Duration::from_millis(500), max: Duration::from_secs(5), factor: 2.0, jitter: 0.0 };

    /// Returns the delay before retry number `attempt` (0 is the first); `random` is uniform in 0..1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        let grown = self.initial.as_secs_f64() * self.factor.powi(exponent);
        let bounded = grown.min(self.max.as_secs_f64());
        Duration::from_secs_f64(bounded * (1.0 + self.jitter * (2.0 * random - 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_backoff_doubles_from_one_second_up_to_thirty() {
        let middle: Vec<f64> = (0..8).map(|attempt| Backoff::CONNECTION.delay(attempt, 0.5).as_secs_f64()).collect();
        assert_eq!(middle, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        assert_eq!(Backoff::CONNECTION.delay(0, 0.0), Duration::from_millis(800));
        assert_eq!(Backoff::CONNECTION.delay(0, 1.0), Duration::from_millis(1200));
        assert_eq!(Backoff::CONNECTION.delay(u32::MAX, 1.0), Duration::from_secs(36));
    }
}
