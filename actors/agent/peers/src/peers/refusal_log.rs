//! One line in the log for each kind of refusal, however often it happens.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use svc_otel::metrics;

/// Time between two lines about one kind.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Kind {
    logged_at: Instant,
    since: u64,
}

/// Refusals by kind.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<HashMap<&'static str, Kind>>);

impl RefusalLog {
    /// Counts a refusal. `reason` is fixed text, or an error of ours: nothing of the peer gets into the log.
    pub fn note(&self, kind: &'static str, reason: &dyn Display) {
        metrics::record_peer_refusal(kind);
        if let Some(more) = self.count(kind, Instant::now()) {
            tracing::warn!(kind, more, %reason, "messages of peers are refused");
        }
    }

    /// The number of refusals since the last line, when it is time for another.
    fn count(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kinds.get_mut(kind) {
            Some(known) if now.saturating_duration_since(known.logged_at) < PAUSE => {
                known.since += 1;
                None
            }
            Some(known) => {
                known.logged_at = now;
                Some(std::mem::take(&mut known.since))
            }
            None => {
                kinds.insert(kind, Kind { logged_at: now, since: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_says_how_many_there_were() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        assert_eq!(log.count("to", start), Some(0));
        assert_eq!((log.count("to", start), log.count("to", start)), (None, None));
        assert_eq!(log.count("from", start), Some(0));
        assert_eq!(log.count("to", start + PAUSE), Some(2));
    }
}
