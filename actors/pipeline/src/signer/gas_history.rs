//! Gas that transactions of each message type have used in blocks: a floor under the gas that a simulation predicts. Pure.

use std::collections::BTreeMap;

use crate::write::fee::DEFAULT_GAS_ADJUSTMENT;

/// Gas used by message type. The supervision tree retains it.
#[derive(Debug, Clone)]
pub struct GasHistory {
    /// Gas limit of a simulated transaction, in percent of its gas.
    adjustment_percent: u64,
    used: BTreeMap<String, u64>,
}

impl Default for GasHistory {
    fn default() -> Self {
        Self::new(DEFAULT_GAS_ADJUSTMENT)
    }
}

/// The floor loses this part of itself with every transaction that uses less.
const DECAY_DIVISOR: u64 = 64;
/// A gas limit exceeds the floor by this part of it.
const HEADROOM_DIVISOR: u64 = 10;

impl GasHistory {
    /// A history without transactions.
    pub fn new(adjustment_percent: u32) -> Self {
        Self { adjustment_percent: u64::from(adjustment_percent), used: BTreeMap::new() }
    }

    /// Records the gas that a transaction of a type used in its block.
    pub fn record_usage(&mut self, msg_type: &str, used: u64) {
        let floor = self.used.entry(msg_type.to_owned()).or_insert(used);
        *floor = used.max(*floor - *floor / DECAY_DIVISOR);
    }

    /// Gas limit for a simulation's answer: its gas with the adjustment, and never below the gas that earlier messages of the type have used.
    pub fn gas_limit(&self, msg_type: &str, simulated: u64) -> u64 {
        let floor = self.used.get(msg_type).copied().unwrap_or(0);
        let adjusted = u128::from(simulated) * u128::from(self.adjustment_percent);
        let adjusted = u64::try_from(adjusted.div_ceil(100)).unwrap_or(u64::MAX);
        adjusted.max(floor.saturating_add(floor / HEADROOM_DIVISOR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_that_promises_too_little_is_not_believed_twice() {
        let mut book = GasHistory::default();
        assert_eq!(book.gas_limit("a", 1_000), 1_500);
        book.record_usage("a", 64_000);
        assert_eq!((book.gas_limit("a", 1_000), book.gas_limit("b", 1_000)), (70_400, 1_500));
        assert_eq!(book.gas_limit("a", 100_000), 150_000, "the floor only raises");
        book.record_usage("a", 10);
        assert_eq!(book.gas_limit("a", 1_000), 63_000 + 6_300, "and fades");
        book.record_usage("a", u64::MAX);
        assert_eq!(book.gas_limit("a", u64::MAX), u64::MAX);
        assert_eq!(GasHistory::default().gas_limit("a", 100_001), 150_002);
        assert_eq!(GasHistory::new(110).gas_limit("a", 1_001), 1_102);
    }
}
