//! The fees of a day (UTC). Pure.

use prost_types::Timestamp;

/// A day, counted from 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UtcDay(i64);

impl UtcDay {
    /// The day of a time.
    pub fn of(time: &Timestamp) -> Self {
        Self(time.seconds.div_euclid(SECONDS_PER_DAY))
    }

    /// Its first moment.
    pub fn start(self) -> Timestamp {
        Timestamp { seconds: self.0 * SECONDS_PER_DAY, nanos: 0 }
    }
}

const SECONDS_PER_DAY: i64 = 86_400;

/// Fees of the transactions that were signed on one day. A transaction counts from its signature on, unless it is certain that it
/// never pays its fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DailyFees {
    day: UtcDay,
    spent: u128,
}

impl DailyFees {
    /// The fees of a day so far.
    pub fn new(day: UtcDay, spent: u128) -> Self {
        Self { day, spent }
    }

    /// The day.
    pub fn day(&self) -> UtcDay {
        self.day
    }

    /// The fees.
    pub fn spent(&self) -> u128 {
        self.spent
    }

    /// A day begins. The fees of an earlier day no longer count; a clock that goes back changes nothing.
    pub fn begin_day(&mut self, day: UtcDay) {
        if day > self.day {
            *self = Self { day, spent: 0 };
        }
    }

    /// A transaction was signed on this day.
    pub fn charge(&mut self, fee: u128) {
        self.spent = self.spent.saturating_add(fee);
    }

    /// A transaction that was signed on `day` never pays its fee.
    pub fn refund(&mut self, day: UtcDay, fee: u128) {
        if day == self.day {
            self.spent = self.spent.saturating_sub(fee);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fees_of_a_day_end_with_it() {
        let at = |seconds| UtcDay::of(&Timestamp { seconds, nanos: 0 });
        assert_eq!((at(86_399), at(86_400).start().seconds, at(-1).start().seconds), (UtcDay(0), 86_400, -86_400));
        let (today, tomorrow) = (at(86_400), at(172_800));
        let mut fees = DailyFees::new(today, 5);
        fees.charge(10);
        fees.refund(today, 4);
        fees.begin_day(today);
        fees.begin_day(at(0));
        assert_eq!((fees.day(), fees.spent()), (today, 11));
        fees.begin_day(tomorrow);
        fees.charge(1);
        fees.refund(today, 7);
        assert_eq!((fees.day(), fees.spent()), (tomorrow, 1));
    }
}
