//! The times at which an actor reads the work that is due.

use std::time::Duration;

use tokio::{task::AbortHandle, time::Instant};

use crate::actor::{ActorContext, ActorMessage};

/// The timer of an actor that reads due work from a store: the earliest time wins, and two reads have a least pause between them.
#[derive(Debug)]
pub struct WakeTimer {
    schedule: WakeSchedule,
    timer: Option<AbortHandle>,
}

impl WakeTimer {
    /// A timer with a least pause between two reads.
    pub fn new(least_pause: Duration) -> Self {
        Self { schedule: WakeSchedule { least_pause, due: None, read_at: None }, timer: None }
    }

    /// Whether the work may be read now. Otherwise `message` comes once it may.
    pub fn begin<M: ActorMessage>(&mut self, context: &ActorContext<M>, message: M) -> bool {
        match self.schedule.begin(Instant::now()) {
            Ok(()) => true,
            Err(pause) => {
                self.wake_after(context, pause, message);
                false
            }
        }
    }

    /// Sends `message` to the actor after a pause, unless an earlier one is on its way.
    pub fn wake_after<M: ActorMessage>(&mut self, context: &ActorContext<M>, pause: Duration, message: M) {
        if self.schedule.plan(Instant::now(), pause)
            && let Some(later) = self.timer.replace(context.send_after(pause, message))
        {
            later.abort();
        }
    }
}

/// The decisions of the timer. Pure.
#[derive(Debug)]
struct WakeSchedule {
    least_pause: Duration,
    due: Option<Instant>,
    read_at: Option<Instant>,
}

impl WakeSchedule {
    /// Begins a read, or yields the pause before it.
    fn begin(&mut self, now: Instant) -> Result<(), Duration> {
        let since = self.read_at.map_or(self.least_pause, |at| now.duration_since(at));
        if since < self.least_pause {
            return Err(self.least_pause - since);
        }
        self.read_at = Some(now);
        Ok(())
    }

    /// Whether a timer is set: no earlier one is still to come.
    fn plan(&mut self, now: Instant, pause: Duration) -> bool {
        let due = now + pause;
        let has_earlier = self.due.is_some_and(|earlier| earlier > now && earlier <= due);
        if !has_earlier {
            self.due = Some(due);
        }
        !has_earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reads_have_a_pause_between_them() {
        let (least_pause, start) = (Duration::from_millis(250), Instant::now());
        let mut schedule = WakeSchedule { least_pause, due: None, read_at: None };
        let at = |millis| start + Duration::from_millis(millis);
        for (millis, expected) in
            [(0, Ok(())), (100, Err(150)), (249, Err(1)), (250, Ok(())), (300, Err(200)), (900, Ok(()))]
        {
            assert_eq!(schedule.begin(at(millis)), expected.map_err(Duration::from_millis), "{millis}");
        }
    }

    #[test]
    fn the_earliest_wake_wins_and_a_past_one_does_not_count() {
        let start = Instant::now();
        let mut schedule = WakeSchedule { least_pause: Duration::ZERO, due: None, read_at: None };
        // The moment, the pause, and whether a timer is set.
        for (now, pause, expected) in
            [(0, 60, true), (1, 60, false), (1, 59, false), (1, 10, true), (2, 9, false), (11, 60, true), (12, 0, true)]
        {
            let (now, pause) = (start + Duration::from_secs(now), Duration::from_secs(pause));
            assert_eq!(schedule.plan(now, pause), expected, "{now:?} {pause:?}");
        }
    }
}
