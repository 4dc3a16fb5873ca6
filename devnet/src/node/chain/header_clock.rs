//! Header times: the wall clock moved by an offset, or steps of one second.

use prost_types::Timestamp;
use svc_wire::timestamp;

/// Source of header times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderTimeMode {
    /// The wall clock plus the offset of the ordered clock moves.
    WallClock,
    /// One second per block: two runs of the same transactions have equal times.
    FixedStep,
}

/// Computes the header time of the next block. Header times rise strictly, even if the system clock does not.
#[derive(Debug, Clone, Copy)]
pub struct HeaderClock {
    mode: HeaderTimeMode,
    offset: i128,
}

const STEP_NANOS: i128 = 1_000_000_000;
const MIN_STEP_NANOS: i128 = 1_000_000;

impl HeaderClock {
    pub fn new(mode: HeaderTimeMode) -> Self {
        Self { mode, offset: 0 }
    }

    /// Moves the clock by a number of nanoseconds.
    pub fn advance(&mut self, nanos: i128) {
        self.offset += nanos;
    }

    /// Restores the offset after a restart: a chain ahead of the wall clock stays ahead.
    pub fn resume(&mut self, last: &Timestamp, wall: &Timestamp) {
        self.offset = (timestamp::unix_nanos(last) - timestamp::unix_nanos(wall)).max(0);
    }

    /// Returns the header time of the block after `last`.
    pub fn next_header_time(&mut self, last: &Timestamp, wall: &Timestamp) -> Timestamp {
        let last = timestamp::unix_nanos(last);
        let due = match self.mode {
            HeaderTimeMode::WallClock => timestamp::unix_nanos(wall) + self.offset,
            // One step consumes the whole offset.
            HeaderTimeMode::FixedStep => last + STEP_NANOS + std::mem::take(&mut self.offset),
        };
        timestamp::from_unix_nanos(due.max(last + MIN_STEP_NANOS))
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
        let mut clock = HeaderClock::new(HeaderTimeMode::WallClock);
        assert_eq!(clock.next_header_time(&at(10), &at(20)), at(20));
        assert_eq!(clock.next_header_time(&at(30), &at(20)), Timestamp { seconds: 30, nanos: 1_000_000 });
        clock.advance(3_600 * STEP_NANOS);
        assert_eq!(clock.next_header_time(&at(20), &at(21)), at(3_621));
        let mut resumed = HeaderClock::new(HeaderTimeMode::WallClock);
        resumed.resume(&at(3_621), &at(22));
        assert_eq!(resumed.next_header_time(&at(3_621), &at(23)), at(3_622));
        let mut steps = HeaderClock::new(HeaderTimeMode::FixedStep);
        steps.advance(5 * STEP_NANOS);
        assert_eq!((steps.next_header_time(&at(1), &at(99)), steps.next_header_time(&at(7), &at(99))), (at(7), at(8)));
    }
}
