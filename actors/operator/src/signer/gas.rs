//! What transactions of each message type have really used, as a floor under what a simulation promises. Pure.

use std::collections::BTreeMap;

use crate::chain::gas_limit_for;

/// Gas used by message type. Retained by the tree.
#[derive(Debug, Clone, Default)]
pub struct GasBook(BTreeMap<String, u64>);

/// A floor that was once needed fades by this part with every transaction that needs less.
const FADE: u64 = 64;
/// Above the floor a limit leaves this part of it as room.
const ROOM: u64 = 10;

impl GasBook {
    /// A transaction of this type has used so much in its block.
    pub fn learn(&mut self, msg_type: &str, used: u64) {
        let floor = self.0.entry(msg_type.to_owned()).or_insert(used);
        *floor = used.max(*floor - *floor / FADE);
    }

    /// Gas limit for a simulation's answer: half as much again, and never below what the type has used before.
    pub fn limit(&self, msg_type: &str, simulated: u64) -> u64 {
        let floor = self.0.get(msg_type).copied().unwrap_or(0);
        gas_limit_for(simulated).max(floor.saturating_add(floor / ROOM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_that_promises_too_little_is_not_believed_twice() {
        let mut book = GasBook::default();
        assert_eq!(book.limit("a", 1_000), 1_500);
        book.learn("a", 64_000);
        assert_eq!((book.limit("a", 1_000), book.limit("b", 1_000)), (70_400, 1_500));
        assert_eq!(book.limit("a", 100_000), 150_000, "the floor only raises");
        book.learn("a", 10);
        assert_eq!(book.limit("a", 1_000), 63_000 + 6_300, "and fades");
        book.learn("a", u64::MAX);
        assert_eq!(book.limit("a", u64::MAX), u64::MAX);
    }
}
