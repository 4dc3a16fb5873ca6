//! Sentences of refused simulations, which the account or the allowance at the node confirms or contradicts.

use super::*;

const ALLOWANCE: &str = "svc1a does not allow to pay fees for svc1b: fee-grant not found: not found";

fn mismatch(got: u64) -> ChainError {
    let text = format!("account sequence mismatch, expected 9, got {got}: incorrect account sequence");
    error("sdk", 6, &text)
}

/// A signer whose write A was refused at sequence 5 with this error, and its effects.
fn refused_with(refusal: &ChainError, budget: Option<FeeBudget>) -> (SignerCore, Vec<SignerEffect>) {
    let table = FakeInFlightTable::default();
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, budget), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    let effects = core.on_simulation(A, Err(SimulationError::Refused(refusal.clone())), &table);
    (core, effects)
}

fn refused_write(refusal: &ChainError) -> [SignerEffect; 1] {
    [SignerEffect::Answer { id: A, outcome: Err(SubmitError::Simulation(refusal.clone())) }]
}

#[test]
fn a_wrong_sequence_counts_when_the_node_expects_another_one() {
    let table = FakeInFlightTable::default();
    let (mut core, effects) = refused_with(&mismatch(5), None);
    assert_eq!(effects, [SignerEffect::ConfirmSequence { id: A }]);
    // Its own answer, and not the number in the sentence.
    assert_eq!(core.on_sequence_confirmation(A, Ok(7), &table), [simulate(A, 7, false)]);
    assert_eq!(core.on_sequence_confirmation(A, Ok(8), &table), [], "answered already");
}

#[test]
fn a_quoted_sentence_refuses_its_write_and_moves_nothing() {
    let table = FakeInFlightTable::default();
    let refusal = mismatch(5);
    let (mut core, _) = refused_with(&refusal, None);
    // The node may have changed between its two answers.
    assert_eq!(core.on_sequence_confirmation(A, Ok(5), &table), [simulate(A, 5, false)]);
    core.on_simulation(A, Err(SimulationError::Refused(refusal.clone())), &table);
    assert_eq!(core.on_sequence_confirmation(A, Ok(5), &table), refused_write(&refusal));
    assert_eq!(core.expected_sequence(), Some(5));
    // The sequence of another transaction.
    let (core, effects) = refused_with(&mismatch(8), None);
    assert_eq!((effects.last(), core.waiting_count()), (refused_write(&mismatch(8)).last(), 0));
}

#[test]
fn a_write_waits_while_the_node_confirms_nothing_and_can_be_withdrawn() {
    let table = FakeInFlightTable::default();
    let (mut core, _) = refused_with(&mismatch(5), None);
    assert_eq!(core.on_sequence_confirmation(A, Err(unreachable()), &table), [SignerEffect::ChooseNode]);
    assert_eq!((core.phase.clone(), core.waiting_count()), (SignerPhase::Paused, 1));
    let (mut core, _) = refused_with(&mismatch(5), None);
    assert_eq!(core.withdraw(A, &table), (WithdrawalOutcome::Withdrawn, vec![]));
    assert_eq!(core.on_sequence_confirmation(A, Ok(7), &table), []);
}

#[test]
fn the_account_pays_itself_only_when_the_allowance_at_the_node_does_not() {
    let table = FakeInFlightTable::default();
    let refusal = error("sdk", 6, ALLOWANCE);
    let (mut core, effects) = refused_with(&refusal, Some(FeeBudget::Unlimited));
    assert_eq!(effects, [SignerEffect::ConfirmAllowance { id: A }]);
    assert_eq!(core.on_allowance_confirmation(A, Ok(false), &table), [simulate(A, 5, false)]);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [send(A, 5, false)]);

    let (mut core, _) = refused_with(&refusal, Some(FeeBudget::Unlimited));
    assert_eq!(core.on_allowance_confirmation(A, Ok(true), &table), [simulate(A, 5, true)]);
    core.on_simulation(A, Err(SimulationError::Refused(refusal.clone())), &table);
    assert_eq!(core.on_allowance_confirmation(A, Ok(true), &table), refused_write(&refusal));

    let (mut core, _) = refused_with(&refusal, Some(FeeBudget::Unlimited));
    assert_eq!(core.on_allowance_confirmation(A, Err(unreachable()), &table), [SignerEffect::ChooseNode]);
    // An account without a granter has no allowance to compare.
    assert_eq!(refused_with(&refusal, None).1, refused_write(&refusal));
}
