//! The decisions of the confirmer, in tables.

use svc_wire::comet_rpc::{AbciEvent, EventAttribute, ExecTxResult};

use super::core::*;
use crate::write::outcome::WriteOutcome;

/// In no block below height 10, with sequence 7; the timeout height is 20.
fn pending() -> PendingTx {
    PendingTx { hash: "A".to_owned(), sequence: 7, timeout_height: 20, search_from: 10, is_refused: false }
}

/// A node at `height`; the account's sequence and the height of that state.
fn facts(height: u64, account: Option<(u64, u64)>) -> NodeFacts {
    NodeFacts {
        height,
        sequence: account.map(|(sequence, height)| SequenceFact { sequence, height, account_number: 1 }),
    }
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
        // The state is of an old height, and the timeout height has come all the same.
        (facts(40, Some((8, 1))), Some(10..=20)),
        (facts(9, Some((8, 9))), Some(std::ops::RangeInclusive::new(10, 9))),
    ] {
        assert_eq!(decisive_heights(&pending(), &given), heights, "{given:?}");
    }
}

/// Blocks up to this height were read, except the missing ones.
fn searched(searched_through: u64, missing: &[u64]) -> BlockEvidence {
    BlockEvidence { searched_through, missing: missing.to_vec(), ..BlockEvidence::default() }
}

#[test]
fn absence_is_proven_by_every_block_that_could_contain_the_transaction() {
    let undetermined = || Err(PendingVerdict::Undetermined);
    let missing_tx = || Err(PendingVerdict::Missing);
    let unprovable = |missing: &[u64]| Err(PendingVerdict::Unprovable { missing: missing.to_vec() });
    for (given, evidence, expected) in [
        // The sequence is unused: the transaction should be in the mempool.
        (facts(15, Some((7, 15))), searched(9, &[]), missing_tx()),
        (facts(5, Some((3, 5))), searched(9, &[]), missing_tx()),
        // Its timeout height has come: unread blocks decide.
        (facts(20, Some((7, 20))), searched(9, &[]), undetermined()),
        (facts(20, Some((7, 20))), searched(20, &[]), Ok("expired")),
        (facts(20, None), searched(20, &[]), Ok("expired")),
        (facts(40, Some((9, 40))), searched(20, &[]), Ok("expired")),
        // A missing block could contain it.
        (facts(40, Some((8, 40))), searched(20, &[10, 11]), unprovable(&[10, 11])),
        (facts(40, Some((7, 40))), searched(20, &[20]), unprovable(&[20])),
        (facts(15, None), searched(9, &[]), undetermined()),
        // A node that did not answer may have it.
        (facts(40, Some((7, 40))), BlockEvidence { unread: vec![12], ..searched(20, &[]) }, undetermined()),
        (facts(40, Some((7, 40))), BlockEvidence { unread: vec![12], ..searched(20, &[11]) }, undetermined()),
    ] {
        let answer = judge_evidence(&pending(), &given, &evidence);
        assert_eq!(answer.map(|outcome| outcome.label()), expected, "{given:?} {evidence:?}");
    }
}

#[test]
fn a_used_sequence_is_proven_by_the_transaction_that_used_it() {
    let used = facts(15, Some((8, 15)));
    let missing_results = BlockEvidence { missing_results: vec![12], ..searched(15, &[]) };
    for (evidence, expected) in [
        // The node says so, and no block shows it: the account's state may be a lie, or of another moment.
        (searched(15, &[]), Err(PendingVerdict::Missing)),
        (searched(9, &[]), Err(PendingVerdict::Undetermined)),
        (BlockEvidence { displaced_at: Some(12), ..searched(15, &[11]) }, Ok("displaced")),
        (missing_results.clone(), Err(PendingVerdict::Unprovable { missing: vec![12] })),
        (
            BlockEvidence { missing: vec![14], ..missing_results },
            Err(PendingVerdict::Unprovable { missing: vec![12, 14] }),
        ),
    ] {
        let answer = judge_evidence(&pending(), &used, &evidence);
        assert_eq!(answer.map(|outcome| outcome.label()), expected, "{evidence:?}");
    }
    let by_results = BlockEvidence { missing_results: vec![12], ..searched(20, &[]) };
    let expired = judge_evidence(&pending(), &facts(20, Some((8, 20))), &by_results);
    assert_eq!(expired.map(|outcome| outcome.label()), Ok("expired"), "absence needs no results");
}

#[test]
fn a_used_sequence_that_no_block_explains_widens_the_search() {
    let pending = PendingTx { search_from: 2_010, timeout_height: 2_020, ..pending() };
    let (before, none): (_, Vec<std::ops::RangeInclusive<u64>>) = (1_010..=2_009, Vec::new());
    let displaced = BlockEvidence { displaced_at: Some(2_015), ..searched(2_020, &[]) };
    for (given, evidence, expected) in [
        (facts(2_030, Some((7, 2_030))), searched(2_020, &[]), none.clone()),
        (facts(2_030, None), searched(2_020, &[]), none.clone()),
        (facts(2_030, Some((8, 2_030))), searched(2_020, &[]), vec![2_021..=2_030, before.clone()]),
        (facts(9_000, Some((8, 9_000))), searched(2_020, &[]), vec![2_021..=3_020, before.clone()]),
        (facts(2_030, Some((8, 2_030))), displaced, none.clone()),
        // A block that was not read may explain it.
        (facts(2_030, Some((8, 2_030))), searched(2_020, &[2_012]), none.clone()),
        (facts(2_015, Some((8, 2_015))), searched(2_015, &[]), vec![before.clone()]),
        // The sequence was used before the height at which the node had stated the chain to be.
        (facts(1_900, Some((8, 1_900))), searched(2_009, &[]), vec![before.clone()]),
    ] {
        assert_eq!(wider_heights(&pending, &given, &evidence), expected, "{given:?} {evidence:?}");
    }
    let first = PendingTx { search_from: 1, timeout_height: 20, ..pending };
    assert_eq!(wider_heights(&first, &facts(20, Some((8, 20))), &searched(20, &[])), none);
}

fn result(code: u32, acc_seq: Option<&str>) -> ExecTxResult {
    let attribute = |value: &str| EventAttribute { key: "acc_seq".to_owned(), value: value.to_owned(), index: true };
    let event = |value| AbciEvent { event_type: "tx".to_owned(), attributes: vec![attribute(value)] };
    let events = acc_seq.into_iter().map(event).collect();
    ExecTxResult { code, codespace: "sdk".to_owned(), events, ..ExecTxResult::default() }
}

#[test]
fn the_first_result_that_decides_counts() {
    let (wrong_sequence, failed) = (result(32, None), result(5, Some("a/7")));
    let judge = |results: Vec<(u64, &ExecTxResult)>| {
        let results = results.into_iter().map(|(height, result)| (height, Box::new(result.clone()))).collect();
        judge_evidence(&pending(), &facts(15, Some((8, 15))), &BlockEvidence { results, ..searched(15, &[11]) })
    };
    assert!(matches!(judge(vec![(10, &wrong_sequence)]), Err(PendingVerdict::Unprovable { .. })));
    let decided = judge(vec![(10, &wrong_sequence), (12, &failed)]);
    assert!(matches!(decided, Ok(WriteOutcome::Included { height: 12, .. })), "{decided:?}");
}

#[test]
fn a_failure_of_the_ante_handler_is_final_only_with_the_timeout_height() {
    let failed = || (12, Box::new(result(5, None)));
    let judge = |facts: NodeFacts, evidence: BlockEvidence| judge_evidence(&pending(), &facts, &evidence);
    let until = |height, results| BlockEvidence { results, ..searched(height, &[]) };
    let answer = judge(facts(15, Some((7, 15))), until(9, vec![failed()]));
    let Err(PendingVerdict::AnteFailure(refusal)) = answer else { panic!("{answer:?}") };
    assert_eq!((refusal.block_height, refusal.error.code), (Some(12), 5));
    let answer = judge(facts(20, Some((7, 20))), until(20, vec![failed()]));
    assert!(matches!(answer, Ok(WriteOutcome::Included { height: 12, .. })), "{answer:?}");
    let returned = (17, Box::new(result(0, Some("a/7"))));
    let answer = judge(facts(20, Some((8, 20))), until(20, vec![failed(), returned]));
    assert!(matches!(answer, Ok(WriteOutcome::Included { height: 17, .. })), "{answer:?}");
    let displaced = BlockEvidence { displaced_at: Some(14), ..until(15, vec![failed()]) };
    assert!(matches!(judge(facts(15, Some((8, 15))), displaced), Ok(WriteOutcome::Displaced { height: 14 })));
}

#[test]
fn heights_are_described_as_ranges() {
    for (heights, words) in [(vec![], ""), (vec![7], "7"), (vec![5, 6, 7, 9], "5 to 7, 9"), (vec![1, 3], "1, 3")] {
        assert_eq!(describe_heights(&heights), words);
    }
}
