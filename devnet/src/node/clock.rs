//! Header times: the wall clock moved by an offset, or steps of one second.

use prost_types::Timestamp;
use svc_wire::instant;

/// Where header times come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The wall clock, moved by what the node was told.
    Wall,
    /// One second a block: two runs of the same transactions have the same times.
    Steps,
}

/// Decides the header time of the next block. Time rises strictly, whatever the system clock does.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pace: Pace,
    offset: i128,
}

const STEP_NANOS: i128 = 1_000_000_000;
const LEAST_NANOS: i128 = 1_000_000;

impl Clock {
    pub fn new(pace: Pace) -> Self {
        Self { pace, offset: 0 }
    }

    /// Moves the clock.
    pub fn advance(&mut self, nanos: i128) {
        self.offset += nanos;
    }

    /// After a restart: a chain that was ahead of the wall clock stays ahead.
    pub fn resume(&mut self, last: &Timestamp, wall: &Timestamp) {
        self.offset = (instant::nanos(last) - instant::nanos(wall)).max(0);
    }

    /// Header time of the block after `last`.
    pub fn next(&mut self, last: &Timestamp, wall: &Timestamp) -> Timestamp {
        let last = instant::nanos(last);
        let due = match self.pace {
            Pace::Wall => instant::nanos(wall) + self.offset,
            // A step takes up what the clock was moved by.
            Pace::Steps => last + STEP_NANOS + std::mem::take(&mut self.offset),
        };
        instant::from_nanos(due.max(last + LEAST_NANOS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    #[test]
    fn time_rises_and_can_be_moved() {
        let mut clock = Clock::new(Pace::Wall);
        assert_eq!(clock.next(&at(10), &at(20)), at(20));
        assert_eq!(clock.next(&at(30), &at(20)), Timestamp { seconds: 30, nanos: 1_000_000 });
        clock.advance(3_600 * STEP_NANOS);
        assert_eq!(clock.next(&at(20), &at(21)), at(3_621));
        let mut resumed = Clock::new(Pace::Wall);
        resumed.resume(&at(3_621), &at(22));
        assert_eq!(resumed.next(&at(3_621), &at(23)), at(3_622));
        let mut steps = Clock::new(Pace::Steps);
        steps.advance(5 * STEP_NANOS);
        assert_eq!((steps.next(&at(1), &at(99)), steps.next(&at(7), &at(99))), (at(7), at(8)));
    }
}
