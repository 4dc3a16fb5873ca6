//! The decisions of the confirmer, in tables.

use svc_wire::comet_rpc::{AbciEvent, EventAttribute, ExecTxResult};

use super::core::*;
use crate::write::outcome::WriteOutcome;

/// Signed at height 9 with sequence 7; the timeout height is 20.
fn pending() -> PendingTx {
    PendingTx { hash: "A".to_owned(), sequence: 7, timeout_height: 20, signed_height: 9 }
}

/// A node at `height`; the account's sequence and the height of that state.
fn facts(height: u64, account: Option<(u64, u64)>) -> NodeFacts {
    NodeFacts { height, sequence: account.map(|(sequence, height)| SequenceFact { sequence, height }) }
}

#[test]
fn a_transaction_is_looked_up_every_few_blocks_after_a_reconnect_and_at_its_timeout() {
    let (all, mut lookups) = ([pending()], TxLookups::default());
    let none: [PendingTx; 0] = [];
    assert_eq!(lookups.take_due(&all, 10, false), none);
    assert_eq!(lookups.take_due(&all, 12, false), none);
    assert_eq!(lookups.take_due(&all, 13, false), all);
    assert_eq!(lookups.take_due(&all, 21, true), none, "one lookup at a time");
    lookups.finish("A");
    assert_eq!(lookups.take_due(&all, 19, true), all);
    lookups.finish("A");
    assert_eq!(lookups.take_due(&all, 20, false), all, "the timeout height has come");
    lookups.finish("A");
    assert_eq!(lookups.take_due(&all, 21, false), none);
    assert_eq!(lookups.take_due(&all, 23, false), all);
    lookups.postpone("A");
    lookups.finish("A");
    assert_eq!(lookups.take_due(&all, 82, false), none, "no node has the blocks");
    assert_eq!(lookups.take_due(&all, 83, false), all);
}

#[test]
fn the_decisive_blocks_reach_from_the_signature_to_the_use_of_the_sequence_or_the_timeout() {
    for (given, heights) in [
        (facts(15, Some((7, 15))), None),
        (facts(15, Some((3, 15))), None),
        (facts(15, None), None),
        (facts(15, Some((8, 16))), Some(10..=16)),
        (facts(19, Some((7, 21))), None),
        (facts(20, Some((7, 19))), Some(10..=20)),
        (facts(20, None), Some(10..=20)),
        (facts(40, Some((8, 40))), Some(10..=20)),
        (facts(9, Some((8, 9))), Some(std::ops::RangeInclusive::new(10, 9))),
    ] {
        assert_eq!(decisive_heights(&pending(), &given), heights, "{given:?}");
    }
}

#[test]
fn absence_is_proven_by_every_block_that_could_contain_the_transaction() {
    let undetermined = || Err(AbsenceVerdict::Undetermined);
    let missing_tx = || Err(AbsenceVerdict::Missing);
    let unprovable = |missing: &[u64]| Err(AbsenceVerdict::Unprovable { missing: missing.to_vec() });
    for (given, searched_through, missing, expected) in [
        // The sequence is unused: the transaction should be in the mempool.
        (facts(15, Some((7, 15))), 9, vec![], missing_tx()),
        (facts(5, Some((3, 5))), 9, vec![], missing_tx()),
        // Its timeout height has come: unread blocks decide.
        (facts(20, Some((7, 20))), 9, vec![], undetermined()),
        (facts(20, Some((7, 20))), 20, vec![], Ok("expired")),
        (facts(20, None), 20, vec![], Ok("expired")),
        // The sequence is used: the blocks up to that state say by which transaction.
        (facts(15, Some((8, 16))), 9, vec![], undetermined()),
        (facts(15, Some((8, 16))), 15, vec![], undetermined()),
        (facts(15, Some((8, 16))), 16, vec![], Ok("displaced")),
        (facts(40, Some((9, 40))), 20, vec![], Ok("expired")),
        (facts(9, Some((8, 9))), 9, vec![], Ok("displaced")),
        // A missing block could contain it.
        (facts(40, Some((8, 40))), 20, vec![10, 11], unprovable(&[10, 11])),
        (facts(40, Some((7, 40))), 20, vec![20], unprovable(&[20])),
        (facts(15, Some((8, 12))), 15, vec![13], Ok("displaced")),
        (facts(15, None), 9, vec![], undetermined()),
    ] {
        let evidence = BlockEvidence { results: Vec::new(), searched_through, missing };
        let answer = judge_evidence(&pending(), &given, &evidence);
        assert_eq!(answer.map(|outcome| outcome.label()), expected, "{given:?} {evidence:?}");
    }
}

#[test]
fn the_first_result_that_decides_counts() {
    let wrong_sequence = ExecTxResult { code: 32, codespace: "sdk".to_owned(), ..ExecTxResult::default() };
    let used = AbciEvent {
        event_type: "tx".to_owned(),
        attributes: vec![EventAttribute { key: "acc_seq".to_owned(), value: "a/7".to_owned(), index: true }],
    };
    let failed = ExecTxResult { code: 5, events: vec![used], ..ExecTxResult::default() };
    let given = facts(15, Some((8, 15)));
    let judge = |results: Vec<(u64, &ExecTxResult)>| {
        let results = results.into_iter().map(|(height, result)| (height, Box::new(result.clone()))).collect();
        judge_evidence(&pending(), &given, &BlockEvidence { results, searched_through: 15, missing: vec![11] })
    };
    assert!(matches!(judge(vec![(10, &wrong_sequence)]), Err(AbsenceVerdict::Unprovable { .. })));
    let decided = judge(vec![(10, &wrong_sequence), (12, &failed)]);
    assert!(matches!(decided, Ok(WriteOutcome::Included { height: 12, .. })), "{decided:?}");
}

#[test]
fn heights_are_described_as_ranges() {
    for (heights, words) in [(vec![], ""), (vec![7], "7"), (vec![5, 6, 7, 9], "5 to 7, 9"), (vec![1, 3], "1, 3")] {
        assert_eq!(describe_heights(&heights), words);
    }
}
