//! When an upstream is left alone for a moment.

use std::time::Duration;

use tokio::time::Instant;

/// Opens after consecutive failures to connect, lets one request through after a pause, closes on success.
#[derive(Debug)]
pub struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
}

/// Consecutive failures after which the next requests are not even tried.
const THRESHOLD: u32 = 8;
/// How long they are not tried: short, since a restarted server should be found again at once.
const PAUSE: Duration = Duration::from_millis(500);

impl Breaker {
    /// A closed breaker.
    pub const fn new() -> Self {
        Self { failures: 0, open_until: None }
    }

    /// Whether a request may go out now. After the pause one may, as a probe.
    pub fn admits(&mut self, now: Instant) -> bool {
        match self.open_until {
            Some(until) if now < until => false,
            Some(_) => {
                self.open_until = Some(now + PAUSE);
                true
            }
            None => true,
        }
    }

    /// A request got an answer.
    pub fn succeeded(&mut self) {
        *self = Self::new();
    }

    /// A request got no connection or no answer.
    pub fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= THRESHOLD {
            self.open_until = Some(now + PAUSE);
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_the_threshold_probes_once_and_closes_on_success() {
        let (mut breaker, now) = (Breaker::new(), Instant::now());
        for _ in 0..THRESHOLD {
            assert!(breaker.admits(now));
            breaker.failed(now);
        }
        assert!(!breaker.admits(now));
        assert!(breaker.admits(now + PAUSE), "one probe after the pause");
        assert!(!breaker.admits(now + PAUSE), "and only one");
        breaker.succeeded();
        assert!(breaker.admits(now));
    }
}
