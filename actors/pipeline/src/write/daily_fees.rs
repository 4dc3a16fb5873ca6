//! The fees of a day (UTC). Pure.

use std::{collections::BTreeMap, sync::Arc};

use prost_types::Timestamp;

use super::fee::SpentToday;

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DailyFees {
    day: UtcDay,
    by_principal: BTreeMap<Arc<str>, u128>,
}

impl DailyFees {
    /// The fees of a day so far, of each principal.
    pub fn new(day: UtcDay, by_principal: BTreeMap<Arc<str>, u128>) -> Self {
        Self { day, by_principal }
    }

    /// The day.
    pub fn day(&self) -> UtcDay {
        self.day
    }

    /// The fees, of all and of one principal. The subjects of a principal, `name/subject`, share its ceilings.
    pub fn spent(&self, principal: &str) -> SpentToday {
        let sum = |is_counted: &dyn Fn(&str) -> bool| {
            let fees = self.by_principal.iter().filter(|(name, _)| is_counted(name)).map(|(_, fee)| *fee);
            fees.fold(0_u128, u128::saturating_add)
        };
        let name = without_subject(principal);
        SpentToday { in_all: sum(&|_| true), by_principal: sum(&|other| without_subject(other) == name) }
    }

    /// A day begins. The fees of an earlier day no longer count; a clock that goes back changes nothing.
    pub fn begin_day(&mut self, day: UtcDay) {
        if day > self.day {
            *self = Self { day, by_principal: BTreeMap::new() };
        }
    }

    /// A transaction of a principal was signed on this day.
    pub fn charge(&mut self, principal: &Arc<str>, fee: u128) {
        let spent = self.by_principal.entry(Arc::clone(principal)).or_default();
        *spent = spent.saturating_add(fee);
    }

    /// A transaction that was signed on `day` never pays its fee.
    pub fn refund(&mut self, day: UtcDay, principal: &str, fee: u128) {
        if day == self.day
            && let Some(spent) = self.by_principal.get_mut(principal)
        {
            *spent = spent.saturating_sub(fee);
        }
    }
}

fn without_subject(principal: &str) -> &str {
    principal.split('/').next().unwrap_or(principal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fees_of_a_day_end_with_it() {
        let at = |seconds| UtcDay::of(&Timestamp { seconds, nanos: 0 });
        assert_eq!((at(86_399), at(86_400).start().seconds, at(-1).start().seconds), (UtcDay(0), 86_400, -86_400));
        let (today, tomorrow) = (at(86_400), at(172_800));
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let mut fees = DailyFees::new(today, BTreeMap::from([(Arc::clone(&first), 5)]));
        fees.charge(&first, 10);
        fees.charge(&second, 3);
        fees.refund(today, "first", 4);
        fees.begin_day(today);
        fees.begin_day(at(0));
        assert_eq!((fees.day(), fees.spent("first")), (today, SpentToday { in_all: 14, by_principal: 11 }));
        assert_eq!(fees.spent("third"), SpentToday { in_all: 14, by_principal: 0 });
        assert_eq!(fees.spent("second/person").by_principal, 3, "its subjects share the ceilings of a principal");
        fees.begin_day(tomorrow);
        fees.charge(&first, 1);
        fees.refund(today, "first", 7);
        assert_eq!((fees.day(), fees.spent("first")), (tomorrow, SpentToday { in_all: 1, by_principal: 1 }));
    }
}
