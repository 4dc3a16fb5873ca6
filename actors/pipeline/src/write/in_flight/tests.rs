//! The table of transactions in flight.

use svc_wire::chain_error::ChainError;

use super::*;
use crate::DEFAULT_PRINCIPAL;

fn entry(hash: &str, call: u64, sequence: u64) -> InFlightTx {
    InFlightTx { fee: 3, ..InFlightTx::sample(hash, SubmissionId(call), sequence) }
}

fn expired() -> WriteOutcome {
    WriteOutcome::Expired { timeout_height: 10 }
}

#[test]
fn an_outcome_is_decided_once_and_stays_known() {
    let mut table = InFlightTable::default();
    table.add(entry("B", 2, 8));
    table.add(entry("A", 1, 7));
    assert_eq!(table.live().map(|entry| entry.sequence).collect::<Vec<_>>(), [7, 8]);
    assert!(table.decide("A", expired()));
    assert!(!table.decide("A", expired()));
    table.retract("A");
    assert!(table.find_by_submission(SubmissionId(1)).is_some_and(|entry| entry.outcome.is_some()));
    table.retract("B");
    assert!(table.live().len() == 0 && table.live_at(8).is_none());
}

#[test]
fn a_refused_transaction_frees_its_sequence_and_stays_with_its_submission_until_it_is_decided() {
    let error = ChainError { codespace: "sdk".to_owned(), code: 5, raw_log: String::new() };
    let refusal = TxRefusal { error, block_height: None };
    let mut table = InFlightTable::default();
    table.add(entry("A", 1, 7));
    assert!(table.refuse("A", refusal.clone()) && !table.refuse("A", refusal));
    assert!(table.live_at(7).is_none() && table.refused().len() == 1);
    table.add(entry("B", 1, 7));
    let hashes = |table: &InFlightTable| -> Vec<String> {
        table.transactions_of(SubmissionId(1)).map(|tx| tx.hash.clone()).collect()
    };
    assert_eq!(
        (hashes(&table), table.live_at(7).map(|tx| tx.hash.as_str())),
        (vec!["A".into(), "B".into()], Some("B"))
    );
    assert!(table.decide("A", expired()) && table.refused().len() == 0);
    table.retract("B");
    assert_eq!(hashes(&table), ["A"]);
}

#[test]
fn a_refused_transaction_that_never_executed_is_answered_with_its_refusal_unless_it_came_too_late() {
    let refused = |code| {
        let error = ChainError { codespace: "sdk".to_owned(), code, raw_log: String::new() };
        Some(TxRefusal { error, block_height: None })
    };
    let displaced = WriteOutcome::Displaced { height: 9 };
    let included = WriteOutcome::Included { height: 9, result: Box::default() };
    for (refusal, outcome, label) in [
        (refused(5), None, None),
        (refused(5), Some(expired()), Some("refused")),
        (refused(5), Some(displaced.clone()), Some("refused")),
        (refused(5), Some(included), Some("included")),
        (refused(30), Some(expired()), Some("expired")),
        (refused(30), Some(displaced), Some("displaced")),
        (None, Some(expired()), Some("expired")),
    ] {
        let tx = InFlightTx { refusal, outcome, ..entry("A", 1, 7) };
        assert_eq!(tx.outcome_label(), label, "{tx:?}");
    }
}

#[test]
fn a_transaction_counts_for_the_fees_of_its_day_unless_it_never_pays() {
    let mut table = InFlightTable::default();
    for (hash, sequence) in [("A", 1), ("B", 2), ("C", 3)] {
        table.add_signed(entry(hash, sequence, sequence));
    }
    table.add(entry("restored", 4, 4));
    assert_eq!(table.daily_fees().spent(DEFAULT_PRINCIPAL).in_all, 9);
    table.retract("A");
    table.decide("B", expired());
    table.decide("C", WriteOutcome::Included { height: 9, result: Box::default() });
    assert_eq!(table.daily_fees().spent(DEFAULT_PRINCIPAL).by_principal, 3);
}

#[test]
fn a_write_that_has_ended_keeps_hash_and_outcome_alone() {
    use svc_wire::comet_rpc::{AbciEvent, EventAttribute, ExecTxResult};
    let attribute = EventAttribute { key: "acc_seq".to_owned(), value: "a/7".to_owned(), index: true };
    let event = |event_type: &str| AbciEvent { event_type: event_type.to_owned(), attributes: vec![attribute.clone()] };
    let result = ExecTxResult {
        code: 5,
        data: vec![1; 1_000],
        events: [event("transfer"), event("tx")].into(),
        ..ExecTxResult::default()
    };
    let mut intent = (*WriteIntent::sample()).clone();
    intent.encoded.message.value = vec![1; 1_000];
    let mut table = InFlightTable::default();
    table.add(InFlightTx { intent: Arc::new(intent.clone()), ..entry("A", 1, 7) });
    table.add(InFlightTx { intent: Arc::new(intent), ..entry("B", 1, 7) });
    table.decide("A", WriteOutcome::Included { height: 9, result: Box::new(result) });
    table.release(SubmissionId(1));
    let tx = table.get("A").expect("known");
    assert!(tx.intent.encoded.message.value.is_empty() && tx.has_executed());
    let Some(WriteOutcome::Included { result, .. }) = &tx.outcome else { panic!("{tx:?}") };
    assert_eq!((result.code, result.data.len(), result.events.len()), (5, 0, 1));
    assert_eq!(table.get("B").map(|tx| tx.intent.encoded.message.value.len()), Some(1_000), "it may be sent again");
}

#[test]
fn an_inclusion_raises_the_sequence_floor() {
    let mut table = InFlightTable::with_sequence_floor(3);
    table.add(entry("A", 1, 7));
    table.decide("A", expired());
    assert_eq!(table.sequence_floor(), 3, "an expired transaction uses no sequence");
    table.add(entry("B", 2, 7));
    table.decide("B", WriteOutcome::Included { height: 9, result: Box::default() });
    assert_eq!(table.sequence_floor(), 8);
}

#[test]
fn the_oldest_decided_transactions_of_ended_writes_leave_the_table() {
    let mut table = InFlightTable::default();
    for index in 0..=MAX_ENDED_TXS as u64 {
        let hash = format!("{index:08}");
        table.add(entry(&hash, index, index));
        // Some writes end before their transaction is decided, and some after it.
        if index % 2 == 0 {
            table.release(SubmissionId(index));
        }
        table.decide(&hash, expired());
        table.release(SubmissionId(index));
    }
    let is_known = |number| table.find_by_submission(SubmissionId(number)).is_some();
    assert!(!is_known(0) && is_known(1) && is_known(MAX_ENDED_TXS as u64));
    assert_eq!(table.ended.len(), MAX_ENDED_TXS);
}

#[test]
fn a_write_that_was_signed_again_ends_with_its_outcome_however_many_others_are_decided_meanwhile() {
    use crate::write::retry::{RetryState, WriteStep};
    let decide_others = |table: &mut InFlightTable, first: u64| {
        for index in first..=first + MAX_ENDED_TXS as u64 {
            let hash = format!("{index:08}");
            table.add(entry(&hash, index, index));
            table.decide(&hash, expired());
            table.release(SubmissionId(index));
        }
    };
    let step = |table: &InFlightTable, retry: &mut RetryState| {
        let of_write = [1, 2].into_iter().flat_map(|id| table.transactions_of(SubmissionId(id)));
        retry.next_step(&of_write.collect::<Vec<_>>())
    };
    let (mut table, mut retry) = (InFlightTable::default(), RetryState::default());
    table.add(entry("A", 1, 7));
    table.decide("A", WriteOutcome::Displaced { height: 9 });
    assert_eq!(step(&table, &mut retry), WriteStep::SignAgain { required_sequence: None });
    table.add(entry("B", 2, 8));
    decide_others(&mut table, 100);
    assert_eq!(step(&table, &mut retry), WriteStep::Wait);
    table.decide("B", WriteOutcome::Included { height: 10, result: Box::default() });
    // The task of the write may take its time.
    decide_others(&mut table, 100_000);
    assert_eq!(step(&table, &mut retry), WriteStep::Ended("B".to_owned()));
    assert!(table.get("B").is_some_and(InFlightTx::has_executed));
}
