//! When to look a transaction up, and what the answer means. Pure.

use std::collections::HashMap;

/// Blocks between two looks at a transaction that has not been heard of.
const LOOK_EVERY: u64 = 5;
/// Blocks past the timeout height after which absence is proof. The node indexes transactions a moment after their block.
const SETTLE_BLOCKS: u64 = 2;

/// Looks at pending transactions.
#[derive(Debug, Default)]
pub struct Looks {
    /// Height of the last look, by hash.
    last: HashMap<String, u64>,
    under_way: std::collections::HashSet<String>,
}

impl Looks {
    /// Which of `pending` (hash, timeout height) to look up at `height`.
    pub fn due(&mut self, pending: &[(String, u64)], height: u64, is_everything: bool) -> Vec<String> {
        self.last.retain(|hash, _| pending.iter().any(|(known, _)| known == hash));
        let mut due = Vec::new();
        for (hash, timeout_height) in pending {
            let last = *self.last.entry(hash.clone()).or_insert(height);
            let is_late = height >= last + LOOK_EVERY || height > timeout_height + SETTLE_BLOCKS;
            if (is_everything || is_late) && self.under_way.insert(hash.clone()) {
                self.last.insert(hash.clone(), height);
                due.push(hash.clone());
            }
        }
        due
    }

    /// A look has ended.
    pub fn ended(&mut self, hash: &str) {
        self.under_way.remove(hash);
    }

    /// Looks under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

/// Whether absence at a look that began at `height` proves that the transaction can never execute.
pub fn is_expired(height: u64, timeout_height: u64) -> bool {
    height > timeout_height + SETTLE_BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_looked_up_every_few_blocks_after_a_reconnect_and_past_its_timeout() {
        let pending = vec![("A".to_owned(), 20)];
        let mut looks = Looks::default();
        assert!(looks.due(&pending, 10, false).is_empty());
        assert!(looks.due(&pending, 14, false).is_empty());
        assert_eq!(looks.due(&pending, 15, false), ["A"]);
        assert!(looks.due(&pending, 21, true).is_empty(), "one look at a time");
        looks.ended("A");
        assert_eq!(looks.due(&pending, 16, true), ["A"]);
        looks.ended("A");
        assert_eq!(looks.due(&pending, 23, false), ["A"], "past the timeout every block counts");
        assert!(!is_expired(22, 20) && is_expired(23, 20));
    }
}
