//! The records of fee grants: constant at first, and live from the rework of the delegation on.

use serde_json::{Value, json};
use svc_ledger::{GenesisState, export_app_state};
use svc_wire::proto_registry::NodeGeneration;

use super::{
    generations::{with_rights, with_root},
    participants::set_validated,
    test_ledger::{FEE, TestLedger, account, coin, ecosystem, merge_members},
};

const GRANT: &str = "de.MsgGrantOperatorAuthorization";
const CREATE: &str = "ec.MsgCreateEcosystem";

/// The record of an account, as the node shows it: no query has it, and the state of a genesis does.
fn record(world: &TestLedger, grantee: &str) -> Value {
    let app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
    // Another chain can begin with it, and shows the same.
    let genesis = GenesisState { app_state: Some(app_state.clone()), ..GenesisState::default() };
    let state = genesis.build_state(&world.chain).expect("a state");
    assert_eq!(export_app_state(&state, &world.chain).expect("an app_state")["de"], app_state["de"]);
    let grants = app_state["de"]["fee_grants"].as_array().expect("a list").clone();
    grants.into_iter().find(|grant| grant["grantee"] == account(grantee)).unwrap_or_default()
}

fn grant(world: &mut TestLedger, terms: &Value) {
    let base =
        json!({"grantee": account("dave"), "msg_types": ["/svc.ec.v1.MsgCreateEcosystem"], "with_feegrant": true});
    world.send_as_operator("a", GRANT, merge_members(&base, terms));
}

/// Sends a transaction whose fee a corporation pays.
fn pay(world: &mut TestLedger, corporation: &str, signer: &str, name: &str, message: &Value) {
    let message = world.signer_message(corporation, signer, name, message);
    let mut unsigned = world.unsigned(signer, vec![world.pack(name, &message)]);
    unsigned.fee_granter = Some(world.saved_names[corporation].clone());
    let bytes = world.sign(signer, &unsigned);
    let paid = world.corporation_balance(corporation);
    world.run_block(&[bytes]);
    assert!(world.corporation_balance(corporation) < paid, "the corporation pays");
}

#[test]
fn remaining_spend_is_constant_before_the_third_generation_and_live_from_it_on() {
    let limit = 2 * FEE + 1_000;
    for generation in NodeGeneration::ALL {
        let is_live = generation >= NodeGeneration::N3;
        for (terms, uses, rest) in [
            (json!({"feegrant_spend_limit": [coin(limit)]}), 0, vec![coin(limit)]),
            (json!({"feegrant_spend_limit": [coin(limit)]}), 1, vec![coin(limit - FEE)]),
            (json!({"feegrant_spend_limit": [coin(limit)]}), 2, vec![coin(limit - 2 * FEE)]),
            // Used up: x/feegrant keeps no such allowance.
            (json!({"feegrant_spend_limit": [coin(FEE)]}), 1, vec![]),
            // Without a limit there is nothing that remains.
            (json!({}), 1, vec![]),
        ] {
            let mut world = TestLedger::of_generation(generation);
            grant(&mut world, &terms);
            for number in 0..uses {
                pay(&mut world, "a", "dave", CREATE, &ecosystem(&format!("did:web:a:{number}")));
            }
            let limits = terms.get("feegrant_spend_limit").cloned().unwrap_or_else(|| json!([]));
            let expected = if is_live { json!(rest) } else { limits.clone() };
            let found = record(&world, "dave");
            assert_eq!(
                (&found["spend_limit"], &found["remaining_spend"]),
                (&limits, &expected),
                "{generation} {terms}"
            );
            assert_eq!(found["expiration"], Value::Null, "{generation}: {found}");
            // Granting again begins with a full budget.
            grant(&mut world, &terms);
            assert_eq!(record(&world, "dave")["remaining_spend"], limits, "{generation} {terms}");
        }
    }
}

#[test]
fn a_periodic_record_shows_the_next_reset_of_its_period_from_the_third_generation_on() {
    for generation in NodeGeneration::ALL {
        let is_live = generation >= NodeGeneration::N3;
        let mut world = TestLedger::of_generation(generation);
        let [end, next] = [100, 3_700].map(|offset| world.time_at(offset));
        let limit = 2 * FEE;
        let terms = json!({
            "feegrant_spend_limit": [coin(limit)], "feegrant_spend_limit_period": "3600s", "expiration": end,
        });
        grant(&mut world, &terms);
        let shown = |world: &TestLedger| {
            let found = record(world, "dave");
            (found["remaining_spend"].clone(), found["expiration"].as_str().expect("a time").to_owned())
        };
        let granted = (json!([coin(limit)]), end);
        assert_eq!(shown(&world), granted, "{generation}");
        pay(&mut world, "a", "dave", CREATE, &ecosystem("did:web:a:1"));
        let used = if is_live { (json!([coin(FEE)]), granted.1.clone()) } else { granted.clone() };
        assert_eq!(shown(&world), used, "{generation}");
        pay(&mut world, "a", "dave", CREATE, &ecosystem("did:web:a:2"));
        let used_up = if is_live { (json!([]), granted.1.clone()) } else { granted.clone() };
        assert_eq!(shown(&world), used_up, "{generation}");
        // A period begins with its first use; the authorization is over, and the fee is paid all the same.
        world.advance(200);
        assert_eq!(shown(&world), used_up, "{generation}");
        pay(&mut world, "a", "dave", CREATE, &ecosystem("did:web:a:3"));
        let refilled = if is_live { (json!([coin(FEE)]), next) } else { granted };
        assert_eq!(shown(&world), refilled, "{generation}");
    }
}

#[test]
fn the_common_record_of_a_vs_operator_is_live() {
    let mut world = with_root(NodeGeneration::N3);
    for (id, did) in [(2, "did:web:b"), (3, "did:web:b:2")] {
        let changes = json!({"vs_operator_authz_fee_spend_limit": [coin(2 * FEE)]});
        assert_eq!(world.create_entity("b", "pp.MsgStartParticipantOP", with_rights(did, changes)), id);
    }
    assert_eq!(record(&world, "service"), Value::Null, "neither is effective");
    set_validated(&mut world, "a", 2, json!({}));
    // The period of the parameters begins with the first allowance.
    let reset = world.time_at(86_400);
    let shown = |world: &TestLedger| {
        let found = record(world, "service");
        assert_eq!(found["expiration"], json!(reset), "the next reset");
        (found["spend_limit"].clone(), found["remaining_spend"].clone())
    };
    assert_eq!(shown(&world), (json!([coin(2 * FEE)]), json!([coin(2 * FEE)])));
    // The message is refused, and its fee is paid.
    pay(&mut world, "b", "service", "pp.MsgSetParticipantOPToValidated", &json!({"id": 99}));
    assert_eq!(shown(&world), (json!([coin(2 * FEE)]), json!([coin(FEE)])));
    // A second effective record adds its limit; the amount that was spent in the period counts on.
    set_validated(&mut world, "a", 3, json!({}));
    assert_eq!(shown(&world), (json!([coin(4 * FEE)]), json!([coin(3 * FEE)])));
    pay(&mut world, "b", "service", "pp.MsgSetParticipantOPToValidated", &json!({"id": 99}));
    assert_eq!(shown(&world), (json!([coin(4 * FEE)]), json!([coin(2 * FEE)])));
}
