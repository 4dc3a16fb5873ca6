//! A circuit breaker: a pause of the requests to a failing upstream.

use std::time::Duration;

use tokio::time::Instant;

/// Opens after consecutive failures to connect, lets one request through after a pause, closes on success.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    failures: u32,
    open_until: Option<Instant>,
}

/// Consecutive failures that open the breaker.
const FAILURE_THRESHOLD: u32 = 8;
/// Pause of an open breaker: short, so that requests reach a restarted server soon.
const OPEN_DURATION: Duration = Duration::from_millis(500);

impl CircuitBreaker {
    /// Makes a closed breaker.
    pub(super) const fn new() -> Self {
        Self { failures: 0, open_until: None }
    }

    /// Whether a request may go out now. After the pause one request may, as a probe.
    pub(super) fn try_admit(&mut self, now: Instant) -> bool {
        match self.open_until {
            Some(until) if now < until => false,
            Some(_) => {
                self.open_until = Some(now + OPEN_DURATION);
                true
            }
            None => true,
        }
    }

    /// Records an answer, and closes the breaker. Whether the request before had none.
    pub(super) fn record_success(&mut self) -> bool {
        std::mem::take(self).failures > 0
    }

    /// Records a request without a connection or without an answer.
    pub(super) fn record_failure(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURE_THRESHOLD {
            self.open_until = Some(now + OPEN_DURATION);
        }
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_breaker_opens_at_the_threshold_admits_one_probe_and_closes_on_success() {
        let (mut breaker, now) = (CircuitBreaker::new(), Instant::now());
        for _ in 0..FAILURE_THRESHOLD {
            assert!(breaker.try_admit(now));
            breaker.record_failure(now);
        }
        assert!(!breaker.try_admit(now));
        assert!(breaker.try_admit(now + OPEN_DURATION), "one probe after the pause");
        assert!(!breaker.try_admit(now + OPEN_DURATION), "and only one");
        assert!(breaker.record_success());
        assert!(breaker.try_admit(now) && !breaker.record_success());
    }
}
