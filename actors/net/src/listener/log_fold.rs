use std::time::Duration;

use tokio::time::Instant;

/// Folds a stream of equal events into few log lines: the first one at once, then one a period with the number of events since.
#[derive(Debug, Default)]
pub struct LogFold {
    last_line: Option<Instant>,
    since: u64,
}

/// Time between two lines of one kind.
const PERIOD: Duration = Duration::from_secs(60);

impl LogFold {
    /// Counts an event. Returns the number of events since the last line when another line is due.
    pub fn record(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        if self.last_line.is_some_and(|last| now < last + PERIOD) {
            return None;
        }
        self.last_line = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_is_logged_and_the_others_are_counted() {
        let begun = Instant::now();
        let mut fold = LogFold::default();
        assert_eq!(fold.record(begun), Some(1));
        assert!((1..60).all(|second| fold.record(begun + Duration::from_secs(second)).is_none()));
        assert_eq!(fold.record(begun + Duration::from_secs(60)), Some(60));
        assert_eq!(fold.record(begun + Duration::from_secs(119)), None);
    }
}
