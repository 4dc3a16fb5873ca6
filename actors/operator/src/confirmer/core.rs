//! When to look a transaction up, and what the answer means. Pure.

use std::collections::{HashMap, HashSet};

use svc_wire::comet::Tx;

use crate::in_flight::{Outcome, in_block};

/// Blocks between two looks at a transaction that has not been heard of.
const LOOK_EVERY: u64 = 3;
/// Blocks past the timeout height after which absence is proof. The node indexes transactions a moment after their block.
const SETTLE_BLOCKS: u64 = 2;
/// The same when the sequence is used: by the transaction itself, if the node's index is late, or by a foreign one.
const DOUBTFUL_BLOCKS: u64 = 6;

/// A transaction that may still execute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pending {
    pub hash: String,
    pub sequence: u64,
    pub timeout_height: u64,
    /// It is in no block up to this one.
    pub signed_height: u64,
}

/// What a node said of itself and of the account before it was asked for transactions. All from one node: absence proves
/// something about the blocks that very node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Newest height.
    pub height: u64,
    /// Oldest height it still has.
    pub earliest: u64,
    /// The account's sequence at that height or later; `None` when it could not be learnt.
    pub sequence: Option<u64>,
}

/// What absence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Its timeout height has passed: it can never execute.
    Expired,
    /// Its sequence is used by another: it can never execute.
    Displaced,
    /// It should wait in the mempool, and may not.
    Missing,
    /// Nothing yet.
    Unclear,
}

/// Looks at pending transactions.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    /// Height of the last look, by hash.
    last: HashMap<String, u64>,
    under_way: HashSet<String>,
    /// Height at which the sequence was first found used while the transaction was absent.
    used_since: HashMap<String, u64>,
}

impl Looks {
    /// Which of `pending` to look up at `height`.
    pub fn due(&mut self, pending: &[Pending], height: u64, is_everything: bool) -> Vec<Pending> {
        let known: HashSet<&str> = pending.iter().map(|one| one.hash.as_str()).collect();
        self.last.retain(|hash, _| known.contains(hash.as_str()));
        self.used_since.retain(|hash, _| known.contains(hash.as_str()));
        let mut due = Vec::new();
        for one in pending {
            let last = *self.last.entry(one.hash.clone()).or_insert(height);
            let is_late = height >= last + LOOK_EVERY
                || height > one.timeout_height + SETTLE_BLOCKS
                || (self.used_since.contains_key(&one.hash) && height > last);
            if (is_everything || is_late) && self.under_way.insert(one.hash.clone()) {
                self.last.insert(one.hash.clone(), height);
                due.push(one.clone());
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

    /// What of it decides.
    #[cfg(test)]
    pub fn fingerprint(&self) -> std::collections::BTreeMap<String, u64> {
        self.used_since.iter().map(|(hash, height)| (hash.clone(), *height)).collect()
    }

    /// A transaction was absent from a node that said `facts` before it was asked.
    pub fn absent(&mut self, pending: &Pending, facts: &Facts) -> Absence {
        let is_used = facts.sequence.is_some_and(|sequence| sequence > pending.sequence);
        if !is_used {
            self.used_since.remove(&pending.hash);
        }
        let used_since =
            if is_used { Some(*self.used_since.entry(pending.hash.clone()).or_insert(facts.height)) } else { None };
        absence(pending, facts, used_since)
    }
}

/// What a look has shown: an outcome, or what absence means. A transaction that stands in a block without having had its turn
/// counts as absent.
pub fn judge(looks: &mut Looks, pending: &Pending, facts: &Facts, found: Option<Box<Tx>>) -> Result<Outcome, Absence> {
    let in_block =
        found.and_then(|tx| in_block(tx.height, Box::new(tx.tx_result), pending.sequence, pending.timeout_height));
    match in_block {
        Some(outcome) => Ok(outcome),
        None => match looks.absent(pending, facts) {
            Absence::Expired => Ok(Outcome::Expired { timeout_height: pending.timeout_height }),
            Absence::Displaced => Ok(Outcome::Displaced { height: facts.height }),
            undecided => Err(undecided),
        },
    }
}

/// What absence means; `used_since` is the height at which its sequence was first found used.
fn absence(pending: &Pending, facts: &Facts, used_since: Option<u64>) -> Absence {
    let is_past = |blocks: u64| facts.height > pending.timeout_height + blocks;
    // The state itself shows that the sequence was never used, whatever the node's index has.
    if facts.sequence.is_some_and(|sequence| sequence <= pending.sequence) {
        return if is_past(SETTLE_BLOCKS) { Absence::Expired } else { Absence::Missing };
    }
    let has_all_blocks = facts.earliest <= pending.signed_height + 1;
    if !has_all_blocks {
        return Absence::Unclear;
    }
    if is_past(DOUBTFUL_BLOCKS) {
        return Absence::Expired;
    }
    match used_since {
        Some(since) if facts.height >= since + DOUBTFUL_BLOCKS => Absence::Displaced,
        _ => Absence::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Pending {
        Pending { hash: "A".to_owned(), sequence: 7, timeout_height: 20, signed_height: 9 }
    }

    fn heights(due: &[Pending]) -> usize {
        due.len()
    }

    #[test]
    fn a_transaction_is_looked_up_every_few_blocks_after_a_reconnect_and_past_its_timeout() {
        let (all, mut looks) = ([pending()], Looks::default());
        assert_eq!(heights(&looks.due(&all, 10, false)), 0);
        assert_eq!(heights(&looks.due(&all, 12, false)), 0);
        assert_eq!(looks.due(&all, 13, false), all);
        assert_eq!(heights(&looks.due(&all, 21, true)), 0, "one look at a time");
        looks.ended("A");
        assert_eq!(looks.due(&all, 14, true), all);
        looks.ended("A");
        assert_eq!(looks.due(&all, 23, false), all, "past the timeout every block counts");
        looks.ended("A");
        assert_eq!(looks.absent(&pending(), &Facts { height: 15, earliest: 1, sequence: Some(8) }), Absence::Unclear);
        assert_eq!(looks.due(&all, 24, false), all, "and so it does once its sequence is used");
    }

    #[test]
    fn absence_proves_only_what_the_node_can_know() {
        let facts = |height, earliest, sequence| Facts { height, earliest, sequence };
        for (given, used_since, meaning) in [
            // The sequence is not used: the state says so.
            (facts(19, 1, Some(7)), None, Absence::Missing),
            (facts(22, 1, Some(7)), None, Absence::Missing),
            (facts(23, 1, Some(7)), None, Absence::Expired),
            (facts(23, 22, Some(7)), None, Absence::Expired),
            (facts(5, 1, Some(3)), None, Absence::Missing),
            // It is used, by whom is not known at once.
            (facts(12, 1, Some(8)), Some(12), Absence::Unclear),
            (facts(17, 1, Some(8)), Some(12), Absence::Unclear),
            (facts(18, 1, Some(8)), Some(12), Absence::Displaced),
            (facts(26, 1, Some(8)), Some(25), Absence::Unclear),
            (facts(27, 1, Some(8)), Some(25), Absence::Expired),
            // A node without the blocks it may be in proves nothing.
            (facts(40, 11, Some(8)), Some(12), Absence::Unclear),
            (facts(40, 10, Some(8)), Some(12), Absence::Expired),
            // A node that does not tell the sequence.
            (facts(23, 1, None), None, Absence::Unclear),
            (facts(27, 1, None), None, Absence::Expired),
            // A node that is behind.
            (facts(2, 1, None), None, Absence::Unclear),
        ] {
            assert_eq!(absence(&pending(), &given, used_since), meaning, "{given:?} {used_since:?}");
        }
    }
}
