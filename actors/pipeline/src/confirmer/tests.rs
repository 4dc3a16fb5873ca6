//! The decisions of the confirmer, in tables.

use super::core::*;

fn pending() -> PendingTx {
    PendingTx { hash: "A".to_owned(), sequence: 7, timeout_height: 20, signed_height: 9 }
}

fn heights(due: &[PendingTx]) -> usize {
    due.len()
}

#[test]
fn a_transaction_is_looked_up_every_few_blocks_after_a_reconnect_and_past_its_timeout() {
    let (all, mut looks) = ([pending()], TxLookups::default());
    assert_eq!(heights(&looks.take_due(&all, 10, false)), 0);
    assert_eq!(heights(&looks.take_due(&all, 12, false)), 0);
    assert_eq!(looks.take_due(&all, 13, false), all);
    assert_eq!(heights(&looks.take_due(&all, 21, true)), 0, "one look at a time");
    looks.finish("A");
    assert_eq!(looks.take_due(&all, 14, true), all);
    looks.finish("A");
    assert_eq!(looks.take_due(&all, 23, false), all, "past the timeout every block counts");
    looks.finish("A");
    assert_eq!(
        looks.judge_absent(&pending(), &NodeFacts { height: 15, earliest_height: 1, sequence: Some(8) }),
        AbsenceVerdict::Undetermined
    );
    assert_eq!(looks.take_due(&all, 24, false), all, "and so it does once its sequence is used");
}

#[test]
fn absence_proves_only_what_the_node_can_know() {
    let facts = |height, earliest, sequence| NodeFacts { height, earliest_height: earliest, sequence };
    for (given, used_since, meaning) in [
        // The sequence is not used: the state says so.
        (facts(19, 1, Some(7)), None, AbsenceVerdict::Missing),
        (facts(22, 1, Some(7)), None, AbsenceVerdict::Missing),
        (facts(23, 1, Some(7)), None, AbsenceVerdict::Expired),
        (facts(23, 22, Some(7)), None, AbsenceVerdict::Expired),
        (facts(5, 1, Some(3)), None, AbsenceVerdict::Missing),
        // It is used, by whom is not known at once.
        (facts(12, 1, Some(8)), Some(12), AbsenceVerdict::Undetermined),
        (facts(17, 1, Some(8)), Some(12), AbsenceVerdict::Undetermined),
        (facts(18, 1, Some(8)), Some(12), AbsenceVerdict::Displaced),
        (facts(26, 1, Some(8)), Some(25), AbsenceVerdict::Undetermined),
        (facts(27, 1, Some(8)), Some(25), AbsenceVerdict::Expired),
        // A node without the blocks it may be in proves nothing.
        (facts(40, 11, Some(8)), Some(12), AbsenceVerdict::Undetermined),
        (facts(40, 10, Some(8)), Some(12), AbsenceVerdict::Expired),
        // A node that does not tell the sequence.
        (facts(23, 1, None), None, AbsenceVerdict::Undetermined),
        (facts(27, 1, None), None, AbsenceVerdict::Expired),
        // A node that is behind.
        (facts(2, 1, None), None, AbsenceVerdict::Undetermined),
    ] {
        assert_eq!(judge_absence(&pending(), &given, used_since), meaning, "{given:?} {used_since:?}");
    }
}
