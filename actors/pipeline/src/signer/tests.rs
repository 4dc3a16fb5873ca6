//! The signer's decisions, in tables.

mod bounds;
mod confirmation;
mod prices;

use std::collections::BTreeSet;

use svc_net::upstream::{BroadcastOutcome, NodeClientError, UpstreamError, UpstreamKind};
use svc_wire::chain_error::ChainError;

use super::{
    core::{
        MAX_BEHIND, MAX_QUEUED_WRITES, MAX_SETBACKS, MAX_UNANSWERED, MAX_UNANSWERED_SIMULATIONS, SignerCore,
        SignerPhase, WithdrawalOutcome,
    },
    effects::{FeeOffer, InFlightView, SignerEffect},
    queue::QueuedWrite,
    window::WindowBound,
};
use crate::{
    chain::simulation::SimulationError,
    write::{
        error::SubmitError,
        fee::{Ceiling, CeilingExceeded, FeeBudget, FeeLimits, FeePolicy, SpentToday},
        intent::DEFAULT_PRINCIPAL,
        outcome::TxRefusal,
        submission::SubmissionId,
    },
};

#[derive(Default)]
struct FakeInFlightTable(BTreeSet<u64>, u64);

impl InFlightView for FakeInFlightTable {
    fn is_live_at(&self, sequence: u64) -> bool {
        self.0.contains(&sequence)
    }
    fn live_count(&self) -> usize {
        self.0.len()
    }
    fn sequence_floor(&self) -> u64 {
        self.1
    }
    fn spent_today(&self, principal: &str) -> SpentToday {
        // Every sequence below the floor paid a fee of one.
        let by_principal = if principal == DEFAULT_PRINCIPAL { u128::from(self.1) } else { 0 };
        SpentToday { in_all: u128::from(self.1), by_principal }
    }
}

fn write(id: SubmissionId, granter: Option<FeeBudget>) -> QueuedWrite {
    QueuedWrite::new(id, "session".into(), granter)
}

const A: SubmissionId = SubmissionId(1);
const B: SubmissionId = SubmissionId(2);

fn unreachable() -> NodeClientError {
    NodeClientError::Upstream(UpstreamError::Unreachable {
        kind: UpstreamKind::Rpc,
        origin: "o".into(),
        reason: "r".into(),
    })
}

fn refused(codespace: &str, code: u32, raw_log: &str) -> Result<BroadcastOutcome, NodeClientError> {
    Ok(BroadcastOutcome::Refused(error(codespace, code, raw_log)))
}

fn error(codespace: &str, code: u32, raw_log: &str) -> ChainError {
    ChainError { codespace: codespace.into(), code, raw_log: raw_log.into() }
}

fn simulate(id: SubmissionId, sequence: u64, with_granter: bool) -> SignerEffect {
    SignerEffect::Simulate { id, sequence, with_granter }
}

fn send(id: SubmissionId, sequence: u64, with_granter: bool) -> SignerEffect {
    SignerEffect::SignAndBroadcast { id, sequence, offer: FeeOffer { gas_limit: 150_000, fee: 3_750, with_granter } }
}

/// The node refused transaction `hash`.
fn refuse(hash: &str, codespace: &str, code: u32) -> SignerEffect {
    let refusal = TxRefusal { error: error(codespace, code, ""), block_height: None };
    SignerEffect::Refuse { hash: hash.into(), refusal }
}

fn in_flight(id: SubmissionId, hash: &str) -> SignerEffect {
    SignerEffect::Answer { id, outcome: Ok(hash.into()) }
}

/// A signer that expects sequence 5 and has simulated write A there.
fn sending(granter: Option<FeeBudget>, table: &FakeInFlightTable) -> SignerCore {
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    assert_eq!(core.submit(write(A, granter), table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", table), [simulate(A, 5, granter.is_some())]);
    assert_eq!(core.on_simulation(A, Ok(150_000), table), [send(A, 5, granter.is_some())]);
    core
}

#[test]
fn writes_go_out_on_consecutive_sequences_without_waiting_for_blocks() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    assert_eq!(core.submit(write(B, None), &table), []);
    table.0.insert(5);
    assert_eq!(
        core.on_broadcast(A, "H5", Ok(BroadcastOutcome::Accepted), &table),
        [in_flight(A, "H5"), simulate(B, 6, false)]
    );
    assert_eq!(core.on_simulation(B, Ok(150_000), &table), [send(B, 6, false)]);
}

#[test]
fn a_refusal_because_of_the_allowance_is_tried_once_without_granter() {
    for (codespace, code) in [("feegrant", 2), ("feegrant", 3), ("feegrant", 7), ("sdk", 38)] {
        let table = FakeInFlightTable::default();
        let mut core = sending(Some(FeeBudget::Unlimited), &table);
        assert_eq!(
            core.on_broadcast(A, "H", refused(codespace, code, ""), &table),
            [refuse("H", codespace, code), simulate(A, 5, false)]
        );
        assert_eq!(core.on_simulation(A, Ok(150_000), &table), [send(A, 5, false)]);
        assert_eq!(
            core.on_broadcast(A, "I", refused(codespace, code, ""), &table),
            [refuse("I", codespace, code), in_flight(A, "I")]
        );
    }
}

#[test]
fn the_allowance_is_not_used_when_it_is_too_small() {
    let table = FakeInFlightTable::default();
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, Some(FeeBudget::UpTo(3_749))), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [simulate(A, 5, false)]);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [send(A, 5, false)]);
    let enough = sending(Some(FeeBudget::UpTo(3_750)), &table);
    assert_eq!(enough.phase, SignerPhase::Broadcasting { sequence: 5, gas_limit: 150_000 });
}

#[test]
fn a_refused_write_is_signed_again_only_at_its_sequence() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(Some(FeeBudget::Unlimited), &table);
    core.submit(write(B, None), &table);
    core.on_broadcast(A, "H", refused("feegrant", 2, ""), &table);
    let moved = error("sdk", 32, "account sequence mismatch, expected 6, got 5: incorrect account sequence");
    let outcome = Err(SubmitError::SequenceMoved { required: 5, expected: 6 });
    assert_eq!(
        core.on_simulation(A, Err(SimulationError::Refused(moved)), &table),
        [SignerEffect::Answer { id: A, outcome }, simulate(B, 6, false)]
    );
    // Later, while its sequence is still free.
    core.on_simulation(B, Ok(150_000), &table);
    table.0.insert(6);
    core.on_broadcast(B, "I", Ok(BroadcastOutcome::Accepted), &table);
    let at = |sequence| QueuedWrite { required_sequence: Some(sequence), ..write(A, None) };
    assert_eq!(core.submit(at(7), &table), [simulate(A, 7, false)]);
}

#[test]
fn a_wrong_sequence_leaves_the_transaction_in_flight_and_resynchronises_in_both_directions() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    core.submit(write(B, None), &table);
    table.0.insert(5);
    let ahead = "account sequence mismatch, expected 9, got 5: incorrect account sequence";
    assert_eq!(
        core.on_broadcast(A, "H", refused("sdk", 32, ahead), &table),
        [in_flight(A, "H"), simulate(B, 9, false)],
        "only a block shows that sequence 5 is used"
    );
    // The node has lost the live transactions 7 and 8: the signer broadcasts their bytes before anything else.
    table.0.extend([7, 8]);
    let behind = error("sdk", 32, "account sequence mismatch, expected 7, got 9: incorrect account sequence");
    assert_eq!(
        core.on_simulation(B, Err(SimulationError::Refused(behind)), &table),
        [SignerEffect::Rebroadcast { sequence: 7 }]
    );
    assert_eq!(
        core.on_rebroadcast(Some("I"), Ok(BroadcastOutcome::Accepted), &table),
        [SignerEffect::Rebroadcast { sequence: 8 }]
    );
    assert_eq!(core.on_rebroadcast(Some("J"), Ok(BroadcastOutcome::Accepted), &table), [simulate(B, 9, false)]);
}

#[test]
fn a_sentence_in_an_argument_moves_no_sequence_and_one_in_an_unknown_frame_has_the_account_read() {
    let sentence = "account sequence mismatch, expected 9, got 8: incorrect account sequence";
    for (text, is_read) in [
        (format!("failed to execute message; message index: 0: {sentence}: invalid URL"), false),
        (format!("ante handler: {sentence}"), true),
    ] {
        let table = FakeInFlightTable::default();
        let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
        core.submit(write(A, None), &table);
        core.on_account(Ok(Some(5)), "a", &table);
        core.submit(write(B, None), &table);
        let refusal = error("sdk", 6, &text);
        let effects = core.on_simulation(A, Err(SimulationError::Refused(refusal.clone())), &table);
        let answer = SignerEffect::Answer { id: A, outcome: Err(SubmitError::Simulation(refusal)) };
        let next = if is_read { SignerEffect::ReadAccount } else { simulate(B, 5, false) };
        assert_eq!(effects, [answer, next], "{text}");
    }
}

#[test]
fn a_write_whose_simulations_keep_finding_a_wrong_sequence_is_refused() {
    let table = FakeInFlightTable::default();
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    let wrong = || Err(SimulationError::Refused(error("sdk", 32, "account sequence mismatch, expected 5, got 5")));
    for _ in 0..MAX_SETBACKS {
        // After a few in a row the signer waits for a block.
        let effects = core.on_simulation(A, wrong(), &table);
        let effects = if effects.is_empty() {
            [core.on_tick(&table), core.on_account(Ok(Some(5)), "a", &table)].concat()
        } else {
            effects
        };
        assert_eq!(effects.last(), Some(&simulate(A, 5, false)));
    }
    let effects = core.on_simulation(A, wrong(), &table);
    assert!(matches!(&effects[0], SignerEffect::Answer { outcome: Err(SubmitError::Sequence(_)), .. }), "{effects:?}");
}

#[test]
fn a_refusal_of_bytes_that_are_sent_again_frees_their_sequence() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    core.on_broadcast(A, "H", Err(unreachable()), &table);
    core.submit(write(B, None), &table);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
    assert_eq!(core.on_rebroadcast(Some("H"), refused("sdk", 5, ""), &table), [refuse("H", "sdk", 5)]);
    table.0.remove(&5);
    assert_eq!(core.on_block(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [simulate(B, 5, false)]);
}

#[test]
fn a_hand_over_without_an_answer_is_in_flight_and_sent_again() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    assert_eq!(core.on_broadcast(A, "H", Err(unreachable()), &table), [in_flight(A, "H"), SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Err(unreachable()), "a", &table), [SignerEffect::ChooseNode]);
    assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
    assert_eq!(core.on_rebroadcast(Some("H"), refused("sdk", 19, ""), &table), []);
    assert_eq!(core.expected_sequence(), Some(6));
    assert_eq!(core.submit(write(B, None), &table), [simulate(B, 6, false)]);
}

#[test]
fn a_failed_question_for_the_account_pauses_and_a_long_silence_refuses_the_waiting_writes() {
    let table = FakeInFlightTable::default();
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    core.submit(write(B, None), &table);
    let answer = |id| SignerEffect::Answer { id, outcome: Err(SubmitError::Node(unreachable())) };
    for _ in 1..MAX_UNANSWERED {
        assert_eq!(core.on_account(Err(unreachable()), "a", &table), [SignerEffect::ChooseNode]);
        assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    }
    assert_eq!(core.on_account(Err(unreachable()), "a", &table), [answer(A), answer(B), SignerEffect::ChooseNode]);
    assert_eq!(core.submit(write(A, None), &table), []);
    assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [simulate(A, 5, false)]);
    // A write whose simulations have no answer keeps its turn, a few times.
    for _ in 1..MAX_UNANSWERED_SIMULATIONS {
        let silence = Err(SimulationError::NoAnswer(unreachable()));
        assert_eq!(core.on_simulation(A, silence, &table), [SignerEffect::ChooseNode]);
        assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
        assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [simulate(A, 5, false)]);
    }
    assert_eq!(
        core.on_simulation(A, Err(SimulationError::NoAnswer(unreachable())), &table),
        [SignerEffect::ChooseNode, answer(A)]
    );
}

#[test]
fn a_new_incarnation_makes_sure_of_what_is_in_flight_before_it_signs() {
    let table = FakeInFlightTable(BTreeSet::from([4, 5]), 0);
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, true);
    assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    core.submit(write(A, None), &table);
    assert_eq!(core.on_account(Ok(Some(4)), "a", &table), [SignerEffect::Rebroadcast { sequence: 4 }]);
    assert_eq!(
        core.on_rebroadcast(Some("H"), refused("sdk", 19, ""), &table),
        [SignerEffect::Rebroadcast { sequence: 5 }]
    );
    assert_eq!(core.on_rebroadcast(Some("H"), Ok(BroadcastOutcome::Accepted), &table), [simulate(A, 6, false)]);
}

#[test]
fn a_request_that_never_left_leaves_nothing_in_flight() {
    let table = FakeInFlightTable::default();
    let paused = || NodeClientError::Upstream(UpstreamError::Paused { kind: UpstreamKind::Rpc, origin: "o".into() });
    let mut core = sending(None, &table);
    let retract = SignerEffect::Retract { hash: "H".into() };
    let answer = SignerEffect::Answer { id: A, outcome: Err(SubmitError::Node(paused())) };
    assert_eq!(core.on_broadcast(A, "H", Err(paused()), &table), [retract, SignerEffect::ChooseNode, answer]);
    core.submit(write(B, None), &table);
    assert_eq!(core.on_simulation(B, Ok(150_000), &table), [send(B, 5, false)], "the sequence is free");
}

#[test]
fn a_node_that_has_just_started_is_asked_again_after_its_next_block() {
    let mut table = FakeInFlightTable::default();
    let starting =
        || refused("sdk", 4, "signature verification failed; please verify account number (0) and chain-id (c)");
    let mut core = sending(None, &table);
    table.0.insert(5);
    assert_eq!(core.on_broadcast(A, "H", starting(), &table), [in_flight(A, "H")], "its bytes are in flight");
    core.submit(write(B, None), &table);
    for _ in 0..3 {
        assert_eq!(core.on_block(&table), [SignerEffect::ReadAccount]);
        assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
        assert_eq!(core.on_rebroadcast(Some("H"), starting(), &table), []);
    }
    assert_eq!(core.on_block(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
    assert_eq!(core.on_rebroadcast(Some("H"), Ok(BroadcastOutcome::Accepted), &table), [simulate(B, 6, false)]);
}

#[test]
fn an_expiry_frees_its_sequence_for_the_next_write() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    core.on_broadcast(A, "H", Ok(BroadcastOutcome::Accepted), &table);
    table.0.remove(&5);
    assert_eq!(core.on_tx_decided(false, &table), [SignerEffect::ReadAccount]);
    core.submit(write(B, None), &table);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [simulate(B, 5, false)]);
}

#[test]
fn a_withdrawn_write_is_never_signed_and_one_that_has_left_cannot_be_withdrawn() {
    let table = FakeInFlightTable::default();
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    core.submit(write(B, None), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    assert_eq!(
        core.withdraw(A, &table),
        (WithdrawalOutcome::Withdrawn, vec![simulate(B, 5, false)]),
        "while it is simulated"
    );
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [], "its late answer is ignored");
    core.submit(write(A, None), &table);
    assert_eq!(core.withdraw(A, &table), (WithdrawalOutcome::Withdrawn, vec![]), "while it waits");
    assert_eq!(core.on_simulation(B, Ok(150_000), &table), [send(B, 5, false)]);
    assert_eq!(core.withdraw(B, &table), (WithdrawalOutcome::Broadcasting, vec![]), "once it is handed over");
    assert_eq!(core.withdraw(A, &table), (WithdrawalOutcome::NotQueued, vec![]), "twice");
    let effects = core.on_broadcast(B, "H", refused("sdk", 11, ""), &table);
    assert_eq!(effects, [refuse("H", "sdk", 11), in_flight(B, "H")], "no further attempt");
}

#[test]
fn a_node_that_is_behind_is_not_believed_and_its_waiting_writes_are_refused_in_the_end() {
    let table = FakeInFlightTable(BTreeSet::new(), 9);
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    for _ in 0..MAX_BEHIND {
        assert_eq!(core.on_account(Ok(Some(7)), "a", &table), [SignerEffect::ChooseNode]);
        assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    }
    let behind = SubmitError::NodeBehind { expected_sequence: 7, used_below: 9 };
    let answer = SignerEffect::Answer { id: A, outcome: Err(behind) };
    assert_eq!(core.on_account(Ok(Some(7)), "a", &table), [answer, SignerEffect::ChooseNode]);
    core.submit(write(B, None), &table);
    assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(9)), "a", &table), [simulate(B, 9, false)]);
}

#[test]
fn a_doubt_in_the_middle_of_a_write_is_looked_into_behind_it() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    assert_eq!(core.recheck_in_flight(&table), []);
    table.0.insert(5);
    assert_eq!(
        core.on_broadcast(A, "H", Ok(BroadcastOutcome::Accepted), &table),
        [in_flight(A, "H"), SignerEffect::ReadAccount]
    );
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
    assert_eq!(core.on_rebroadcast(Some("H"), Ok(BroadcastOutcome::Accepted), &table), []);
}
