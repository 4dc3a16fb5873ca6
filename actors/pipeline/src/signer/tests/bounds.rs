//! The bounds of the signer: window, queue, gas and fees.

use super::*;
use crate::known_history::ChainChange;

#[test]
fn the_window_and_the_queue_are_bounded() {
    let table = FakeInFlightTable((1000..1256).collect(), 0);
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [], "the window is full");
    let smaller = FakeInFlightTable((1001..1256).collect(), 0);
    assert_eq!(core.on_tx_decided(true, &smaller), [simulate(A, 5, false)]);
    for id in 0..MAX_QUEUED_WRITES as u64 {
        assert_eq!(core.submit(write(SubmissionId(10 + id), None), &smaller), []);
    }
    assert!(matches!(
        &core.submit(write(B, None), &smaller)[..],
        [SignerEffect::Answer { outcome: Err(SubmitError::Overloaded { .. }), .. }]
    ));
}

#[test]
fn too_little_gas_for_check_tx_is_doubled_once() {
    let table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    let more = SignerEffect::SignAndBroadcast {
        id: A,
        sequence: 5,
        offer: FeeOffer { gas_limit: 300_000, fee: 7_500, with_granter: false },
    };
    assert_eq!(core.on_broadcast(A, "H", refused("sdk", 11, ""), &table), [refuse("H", "sdk", 11), more]);
    assert_eq!(core.on_broadcast(A, "I", refused("sdk", 11, ""), &table), [refuse("I", "sdk", 11), in_flight(A, "I")]);
}

#[test]
fn nothing_is_signed_above_a_ceiling() {
    let table = FakeInFlightTable::default();
    let fees = FeePolicy { max_gas: 250_000, ..FeePolicy::at_price(25_000) };
    let refusal = |needed| {
        let exceeded = CeilingExceeded { ceiling: Ceiling::Gas, needed, limit: 250_000 };
        SignerEffect::Answer { id: A, outcome: Err(SubmitError::AboveCeiling(exceeded)) }
    };
    let mut core = SignerCore::new(fees, WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    assert_eq!(core.on_simulation(A, Ok(250_001), &table), [refusal(250_001)]);
    core.submit(write(A, None), &table);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [send(A, 5, false)]);
    assert_eq!(core.on_broadcast(A, "H", refused("sdk", 11, ""), &table), [refuse("H", "sdk", 11), refusal(300_000)]);
}

#[test]
fn the_fees_of_a_day_have_a_ceiling() {
    let fees = FeePolicy { max_fee_per_day: Some(3_755), ..FeePolicy::at_price(25_000) };
    let sign_after = |spent| {
        let table = FakeInFlightTable(BTreeSet::new(), spent);
        let mut core = SignerCore::new(fees, WindowBound::Adaptive, false);
        core.submit(write(A, None), &table);
        core.on_account(Ok(Some(9)), "a", &table);
        core.on_simulation(A, Ok(150_000), &table)
    };
    assert_eq!(sign_after(5), [send(A, 9, false)]);
    let exceeded = CeilingExceeded { ceiling: Ceiling::DailyFee, needed: 3_756, limit: 3_755 };
    let outcome = Err(SubmitError::AboveCeiling(exceeded));
    assert_eq!(sign_after(6), [SignerEffect::Answer { id: A, outcome }]);
}

#[test]
fn a_principal_has_ceilings_of_its_own() {
    let table = FakeInFlightTable(BTreeSet::new(), 9);
    let sign = |principal: &str, fee_limits| {
        let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
        core.submit(QueuedWrite { principal: principal.into(), fee_limits, ..write(A, None) }, &table);
        core.on_account(Ok(Some(9)), "a", &table);
        core.on_simulation(A, Ok(150_000), &table)
    };
    let refused = |ceiling, needed, limit| {
        let exceeded = CeilingExceeded { ceiling, needed, limit };
        [SignerEffect::Answer { id: A, outcome: Err(SubmitError::AboveCeiling(exceeded)) }]
    };
    let daily = |limit| FeeLimits { max_fee_per_day: Some(limit), ..FeeLimits::default() };
    let each = |limit| FeeLimits { max_fee: Some(limit), ..FeeLimits::default() };
    assert_eq!(sign(DEFAULT_PRINCIPAL, daily(3_759)), [send(A, 9, false)]);
    assert_eq!(sign(DEFAULT_PRINCIPAL, daily(3_758)), refused(Ceiling::PrincipalDailyFee, 3_759, 3_758));
    assert_eq!(sign("other", daily(3_758)), [send(A, 9, false)], "the fees of others do not count");
    assert_eq!(sign("other", each(3_750)), [send(A, 9, false)]);
    assert_eq!(sign("other", each(3_749)), refused(Ceiling::PrincipalFee, 3_750, 3_749));
}

#[test]
fn a_full_mempool_pauses_until_the_next_block_and_shrinks_the_window() {
    let mut table = FakeInFlightTable::default();
    let mut core = sending(None, &table);
    table.0.insert(5);
    assert_eq!(core.on_broadcast(A, "H", refused("sdk", 20, ""), &table), [in_flight(A, "H")]);
    assert_eq!(core.window_size(), 128);
    assert_eq!(core.on_tick(&table), [SignerEffect::ReadAccount]);
    assert_eq!(core.on_account(Ok(Some(5)), "a", &table), [SignerEffect::Rebroadcast { sequence: 5 }]);
    assert_eq!(core.on_rebroadcast(Some("H"), refused("sdk", 20, ""), &table), []);
}

#[test]
fn while_the_chain_has_another_history_every_write_is_refused_that_is_not_being_broadcast() {
    let change = || {
        let change = ChainChange {
            height: 9,
            pinned: Some("A".to_owned()),
            missing_tx: None,
            found: "B".to_owned(),
            agreed: Some(7),
        };
        SubmitError::ChainChanged(Box::new(change))
    };
    let refusal = |id| SignerEffect::Answer { id, outcome: Err(change()) };
    let table = FakeInFlightTable::default();
    // One is simulated, and one waits.
    let mut core = SignerCore::new(FeePolicy::at_price(25_000), WindowBound::Adaptive, false);
    core.submit(write(A, None), &table);
    core.on_account(Ok(Some(5)), "a", &table);
    core.submit(write(B, None), &table);
    assert_eq!(core.stop(&change()), [refusal(A), refusal(B)]);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [], "it is refused");
    // One is broadcast: the node has its bytes, or may have them.
    let mut core = sending(None, &table);
    core.submit(write(B, None), &table);
    assert_eq!(core.stop(&change()), [refusal(B)]);
    assert_eq!(core.on_send_failure(A, change(), &table)[0], refusal(A), "unless nothing was sent");
    assert_eq!((core.stop(&change()), core.expected_sequence()), (Vec::new(), None));
}
