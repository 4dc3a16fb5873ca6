//! The time of the next pass. Strangers can cause events without end: they bring a pass forward, and neither multiply nor delay passes.

use std::time::Duration;

use svc_kit::backoff::Backoff;
use tokio::time::Instant;

/// Time between two passes without an event.
pub(super) const PASS_PAUSE: Duration = Duration::from_secs(600);
/// Time from an event to its pass: one block often has several events.
pub(super) const AFTER_EVENT: Duration = Duration::from_secs(1);
/// Time from the end of a pass to one that the read of a setup asks for: frequent reads of it cause few reads of the node.
const AFTER_SETUP: Duration = Duration::from_secs(3);
/// Pauses between passes that fail.
const FAILURE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(300), factor: 2.0, jitter: 0.2 };

/// The passes of a keeper: one runs at a time.
#[derive(Debug)]
pub(super) struct PassSchedule {
    is_passing: bool,
    /// The end of the last pass.
    passed_at: Instant,
    /// Whether an event came after the last pass had begun.
    is_outdated: bool,
    failures: u32,
    /// The time of the next wake, until it has come.
    due: Option<Instant>,
}

impl PassSchedule {
    /// A schedule without a pass.
    pub fn new(now: Instant) -> Self {
        Self { is_passing: false, passed_at: now, is_outdated: false, failures: 0, due: None }
    }

    /// Passes in a row that have failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A wake has come.
    pub fn woken(&mut self) {
        self.due = None;
    }

    /// Whether a pass begins now: while one runs, none does.
    pub fn begin(&mut self) -> bool {
        if self.is_passing {
            return false;
        }
        (self.is_passing, self.is_outdated) = (true, false);
        true
    }

    /// An event came. Returns the pause until the wake that it needs; `None` when an earlier one is due.
    pub fn changed(&mut self, now: Instant) -> Option<Duration> {
        self.is_outdated = true;
        self.wake_within(now, AFTER_EVENT)
    }

    /// A setup was read that has a step of the agent left: the node may show facts that the last pass has not seen, because their writes
    /// make no event, or it comes later. Returns the pause until the wake that it needs.
    pub fn setup_read(&mut self, now: Instant) -> Option<Duration> {
        let pause = AFTER_SETUP.saturating_sub(now.saturating_duration_since(self.passed_at)).max(AFTER_EVENT);
        if self.is_passing { None } else { self.wake_within(now, pause) }
    }

    /// A pass has ended. Returns the pause until the next one, at most `longest` without a failure that has passed.
    pub fn ended(&mut self, now: Instant, has_failure: bool, longest: Duration) -> Duration {
        (self.is_passing, self.passed_at) = (false, now);
        let pause = match (self.is_outdated, has_failure) {
            (true, _) => AFTER_EVENT,
            (false, true) => FAILURE_BACKOFF.delay(self.failures, fastrand::f64()).min(longest),
            (false, false) => longest,
        };
        self.failures = if has_failure { self.failures.saturating_add(1) } else { 0 };
        self.due = Some(now + pause);
        pause
    }

    /// Sets the time of the next wake, unless an earlier one is due: events that never end delay none. One whose time is over is on its way.
    fn wake_within(&mut self, now: Instant, pause: Duration) -> Option<Duration> {
        if self.due.is_some_and(|due| due <= now + pause) {
            return None;
        }
        self.due = Some(now + pause);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the schedule as its actor does, with one timer that each new pause replaces: `events` come at once every `every` milliseconds, and
    /// a pass takes `pass` milliseconds. Returns the times at which passes begin.
    fn run(events: u32, every: u64, pass: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut schedule = PassSchedule::new(start);
        assert!(schedule.begin());
        let (mut timer, mut ends, mut begun) = (None, Some(pass), vec![0]);
        for millis in 0..TIME {
            let now = start + Duration::from_millis(millis);
            if ends == Some(millis) {
                ends = None;
                timer = Some(now + schedule.ended(now, false, PASS_PAUSE));
            }
            if millis.is_multiple_of(every) {
                for _ in 0..events {
                    if let Some(pause) = schedule.changed(now) {
                        timer = Some(now + pause);
                    }
                }
            }
            if timer.is_some_and(|due| due <= now) {
                timer = None;
                schedule.woken();
                if schedule.begin() {
                    begun.push(millis);
                    ends = Some(millis + pass);
                }
            }
        }
        begun
    }

    /// Milliseconds of a run.
    const TIME: u64 = 300_000;

    #[test]
    fn a_thousand_events_of_strangers_a_block_cause_a_pass_a_second_at_most_and_delay_none() {
        // Events at once, milliseconds between them, milliseconds of a pass.
        for (events, every, pass) in [
            (1_000, 1_000, 10),
            (1_000, 1_000, 700),
            (1_000, 1_000, 5_000),
            (1_000, 6_000, 10),
            (1, 1, 10),
            (1, 1, 700),
        ] {
            let begun = run(events, every, pass);
            let pauses = begun.windows(2).map(|pair| pair[1] - pair[0]);
            let (shortest, longest) = (pauses.clone().min(), pauses.max());
            // A pass shows every event that came before it, so that the next one follows an event of a later time.
            assert!(shortest.is_some_and(|pause| pause >= 1_000), "{events} {every} {pass}: {shortest:?}");
            assert!(longest.is_some_and(|pause| pause <= 1_000 + every + pass), "{events} {every} {pass}: {longest:?}");
        }
        assert_eq!(run(0, 1, 10), [0], "without an event");
    }

    #[test]
    fn a_failure_is_repeated_with_growing_pauses_and_an_event_brings_it_forward() {
        let start = Instant::now();
        let mut schedule = PassSchedule::new(start);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert!(schedule.begin());
            pauses.push(schedule.ended(start, true, PASS_PAUSE));
        }
        assert!(pauses[0] <= Duration::from_secs(2) && pauses[11] >= Duration::from_secs(200), "{pauses:?}");
        assert_eq!((schedule.failures(), schedule.changed(start)), (12, Some(AFTER_EVENT)));
        assert_eq!(schedule.changed(start), None, "a wake is due already");
        assert_eq!(schedule.setup_read(start), None, "an earlier wake is due");
        assert!(schedule.begin());
        assert!(!schedule.begin(), "one runs at a time");
        assert_eq!(schedule.setup_read(start + AFTER_SETUP), None, "the pass may see what the setup has seen");
        assert_eq!(schedule.ended(start, false, PASS_PAUSE), PASS_PAUSE);
        assert_eq!(schedule.setup_read(start), Some(AFTER_SETUP));
    }
}
