//! The price of gas: a node that takes a fee for too small is asked for its minimum.

use super::*;

const ASK: SignerEffect = SignerEffect::AskPrice { id: A };

fn too_small() -> Result<BroadcastOutcome, NodeClientError> {
    refused("sdk", 13, "")
}

/// A signer whose first transaction was refused for its fee.
fn asking(granter: Option<FeeBudget>, table: &FakeInFlightTable) -> SignerCore {
    let mut core = sending(granter, table);
    assert_eq!(core.on_broadcast(A, "H", too_small(), table), [refuse("H", "sdk", 13), ASK]);
    core
}

fn send_at(fee: u128, with_granter: bool) -> SignerEffect {
    SignerEffect::SignAndBroadcast { id: A, sequence: 5, offer: FeeOffer { gas_limit: 150_000, fee, with_granter } }
}

#[test]
fn a_higher_price_is_paid_once_at_the_same_sequence() {
    let table = FakeInFlightTable::default();
    for granter in [None, Some(FeeBudget::Unlimited)] {
        let mut core = asking(granter, &table);
        core.set_fees(FeePolicy { gas_price_micros: 50_000, ..FeePolicy::at_price(25_000) });
        assert_eq!(core.on_price(A, &table), [send_at(7_500, granter.is_some())]);
        assert_eq!(core.on_price(A, &table), [], "answered already");
        let again = core.on_broadcast(A, "I", too_small(), &table);
        assert_eq!(again, [refuse("I", "sdk", 13), in_flight(A, "I")], "the second refusal is the answer");
    }
}

#[test]
fn the_refusal_is_the_answer_where_the_price_is_the_same() {
    let table = FakeInFlightTable::default();
    for price in [25_000, 1_000] {
        let mut core = asking(None, &table);
        core.set_fees(FeePolicy::at_price(price));
        assert_eq!(core.on_price(A, &table), [in_flight(A, "H")]);
    }
}

#[test]
fn the_ceiling_and_the_budget_of_the_granter_bound_a_higher_price() {
    let table = FakeInFlightTable::default();
    let mut core = asking(None, &table);
    core.set_fees(FeePolicy { gas_price_micros: 50_000, max_fee: 7_499, ..FeePolicy::at_price(25_000) });
    let exceeded = CeilingExceeded { ceiling: Ceiling::Fee, needed: 7_500, limit: 7_499 };
    let outcome = Err(SubmitError::AboveCeiling(exceeded));
    assert_eq!(core.on_price(A, &table), [SignerEffect::Answer { id: A, outcome }]);
    let mut core = asking(Some(FeeBudget::UpTo(7_499)), &table);
    core.set_fees(FeePolicy { gas_price_micros: 50_000, ..FeePolicy::at_price(25_000) });
    assert_eq!(core.on_price(A, &table), [simulate(A, 5, false)]);
    assert_eq!(core.on_simulation(A, Ok(150_000), &table), [send_at(7_500, false)]);
}

#[test]
fn a_withdrawn_write_is_not_signed_again_for_a_higher_price() {
    let table = FakeInFlightTable::default();
    let mut core = asking(None, &table);
    assert_eq!(core.withdraw(A, &table), (WithdrawalOutcome::Broadcasting, vec![]));
    core.set_fees(FeePolicy { gas_price_micros: 50_000, ..FeePolicy::at_price(25_000) });
    assert_eq!(core.on_price(A, &table), [in_flight(A, "H")]);
}
