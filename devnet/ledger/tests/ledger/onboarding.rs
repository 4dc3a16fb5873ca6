//! pp: the onboarding process.

use serde_json::{Value, json};

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types},
    participants::{create_root, set_validated, start_onboarding, with_all_roles, with_root_participant},
    schema::schema,
    test_ledger::{DIGEST_SRI, TestLedger, account, coin, merge_members, unregistered},
};

const START: &str = "pp.MsgStartParticipantOP";
const RENEW: &str = "pp.MsgRenewParticipantOP";
const VALIDATED: &str = "pp.MsgSetParticipantOPToValidated";

fn application(changes: Value) -> Value {
    merge_members(&json!({"role": "ISSUER_GRANTOR", "validator_participant_id": 1, "did": "did:web:b"}), &changes)
}

#[test]
fn start_participant_op() {
    let mut world = with_root_participant(json!({}));
    let good = application(json!({}));
    world.assert_refusals("b", START, &good, &[
        (json!({"corporation": "x"}), unregistered("corporation")),
        (json!({"role": "ECOSYSTEM"}), unregistered("role")),
        (json!({"validator_participant_id": 0}), unregistered("validator_participant_id")),
        (json!({"did": "x"}), unregistered("DID")),
        (json!({"vs_operator": "x"}), unregistered("vs_operator")),
        (json!({"vs_operator_authz_with_feegrant": true}), unregistered("vs_operator_authz_msg_types is required")),
        (json!({"vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"]}), unregistered("vs_operator is required")),
        (
            json!({"vs_operator": account("service"), "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgTriggerResolver"]}),
            unregistered("not allowed for role ISSUER_GRANTOR"),
        ),
        (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        (json!({"validator_participant_id": 9}), unregistered("validator participant 9 not found")),
        (json!({"role": "ISSUER"}), unregistered("cannot be validated by")),
        (json!({"role": "HOLDER"}), unregistered("cannot be validated by")),
        (json!({"did": "did:web:a"}), ("pp", 1102, "did:web:a")),
    ]);
    world.assert_refusals_by("b", "alice", START, &good, &[(json!({}), ("de", 1105, "authorization check failed: "))]);
    let mut early = world.clone();
    early.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    early.assert_refusals("b", START, &good, &[(json!({}), unregistered("is revoked"))]);
    // The fee of 1000 and a deposit of 20 % count against the spend limit.
    let limited = |limit: u128| {
        let mut world = world.clone();
        world.grant(
            "b",
            "bob",
            json!({"msg_types": ["/svc.pp.v1.MsgStartParticipantOP"], "authz_spend_limit": [coin(limit)]}),
        );
        world
    };
    limited(1_199).assert_refusals("b", START, &good, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut limited = limited(1_200);
    let outcome = limited.send_as_operator("b", START, good.clone());
    assert_eq!(attribute(&outcome, "operator_authorization_updated", "authz_id"), "2");

    let before = (world.corporation_balance("b"), world.module_balance("pp"), world.module_balance("td"));
    let outcome = world.send_as_operator("b", START, good.clone());
    assert_eq!(world.response(&outcome), json!({"participant_id": "2"}));
    let after = (world.corporation_balance("b"), world.module_balance("pp"), world.module_balance("td"));
    assert_eq!(after, (before.0 - 1_200, before.1 + 1_000, before.2 + 200));
    let now = world.time_at(0);
    assert_has(
        &world.participant(2),
        &json!({
            "role": "ISSUER_GRANTOR", "schema_id": "1", "did": "did:web:b", "corporation_id": "2", "created": now, "modified": now,
            "op_last_state_change": now, "deposit": "200", "op_state": "PENDING", "op_current_fees": "1000",
            "op_current_deposit": "200", "validator_participant_id": "1", "effective_from": null, "validation_fees": "0",
        }),
    );
    assert_event(
        &outcome,
        "start_participant_op",
        &[
            ("participant_id", "2"),
            ("corporation", &world.saved_names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("validator_participant_id", "1"),
            ("role", "ISSUER_GRANTOR"),
            ("fees", "1000"),
            ("deposit", "200"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    assert_event(
        &outcome,
        "adjust_trust_deposit",
        &[
            ("corporation_id", "2"),
            ("account", &world.saved_names["b"].clone()),
            ("augend", "200"),
            ("adjustment_type", "increase"),
            ("new_amount", "200"),
            ("new_share", "200.000000000000000000"),
            ("new_refunded", "0"),
            ("reason", "start_participant_vp_deposit"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("b", START, &good, &[(json!({}), unregistered("participant 2 already runs"))]);
    // Quirk: a revoked participant still counts as running.
    set_validated(&mut world, "a", 2, json!({}));
    world.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 2}));
    world.assert_refusals("b", START, &good, &[(json!({}), unregistered("participant 2 already runs"))]);
}

#[test]
fn every_role_has_its_validator_under_every_mode() {
    for (modes, role) in [
        (json!({}), "ISSUER_GRANTOR"),
        (json!({}), "VERIFIER_GRANTOR"),
        (json!({"issuer_onboarding_mode": 2}), "ISSUER"),
        (json!({"verifier_onboarding_mode": 2}), "VERIFIER"),
    ] {
        let mut world = with_root_participant(modes.clone());
        assert_eq!(start_onboarding(&mut world, "b", role, 1, json!({})), 2, "{modes} {role}");
    }
    for (modes, role) in [
        (json!({"issuer_onboarding_mode": 1}), "ISSUER"),
        (json!({"issuer_onboarding_mode": 2}), "ISSUER_GRANTOR"),
        (json!({"verifier_onboarding_mode": 1}), "VERIFIER"),
        (json!({"verifier_onboarding_mode": 2}), "VERIFIER_GRANTOR"),
        (json!({"holder_onboarding_mode": 2}), "HOLDER"),
    ] {
        with_root_participant(modes.clone()).assert_refusals(
            "b",
            START,
            &application(json!({"role": role})),
            &[(json!({}), unregistered("cannot be validated by"))],
        );
    }
    let (mut world, ids) = with_all_roles(json!({}));
    assert!(start_onboarding(&mut world, "b", "HOLDER", ids.issuer, json!({})) > ids.verifier);
}

#[test]
fn fees_are_priced_by_asset() {
    // A trust unit is worth 7 and a euro 2.5 of the fee denom.
    let rates = |world: &mut TestLedger| {
        for (kind, asset, rate, scale) in [("TU", "tu", "7", 0), ("FIAT", "EUR", "25", 1), ("COIN", "uother", "3", 0)] {
            let message = json!({"base_asset_type": kind, "base_asset": asset, "quote_asset_type": "COIN",
                "quote_asset": "usvc", "rate": rate, "rate_scale": scale, "validity_duration": "2592000s"});
            world.pass_gov_proposal(&[("xr.MsgCreateExchangeRate", message)]);
            let id = world.query("xr.ListExchangeRates", json!({}))["exchange_rates"].as_array().expect("rates").len();
            world.pass_gov_proposal(&[("xr.MsgSetExchangeRateState", json!({"id": id, "state": true}))]);
        }
    };
    for (kind, asset, fee, denom, deposit) in [
        (1, "tu", 7_000, "usvc", 1_400),
        (3, "EUR", 0, "usvc", 500),
        (2, "uother", 1_000, "uother", 600),
        (2, "usvc", 1_000, "usvc", 200),
    ] {
        let mut world = with_root_participant(json!({"pricing_asset_type": kind, "pricing_asset": asset}));
        if asset != "usvc" {
            world.assert_refusals(
                "b",
                START,
                &application(json!({})),
                &[(json!({}), unregistered("exchange rate not found"))],
            );
        }
        rates(&mut world);
        let policy = world.saved_names["b"].clone();
        let before = (world.balance(&policy, denom), world.corporation_balance("b"));
        start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
        assert_has(&world.participant(2), &json!({"op_current_fees": fee.to_string(), "deposit": deposit.to_string()}));
        let spent = u128::from(denom == "usvc") * fee + deposit;
        assert_eq!(world.corporation_balance("b"), before.1 - spent, "{asset}");
        if denom != "usvc" {
            assert_eq!(world.balance(&policy, denom), before.0 - fee, "{asset}");
        }
        // The validator is paid in the denom of the schema, and stakes the same deposit from its balance.
        let validator = world.saved_names["a"].clone();
        let before = (world.balance(&validator, denom), world.corporation_balance("a"));
        set_validated(&mut world, "a", 2, json!({}));
        let (earned, staked) = if denom == "usvc" { (fee, deposit) } else { (0, deposit) };
        assert_eq!(world.corporation_balance("a"), before.1 + earned - staked, "{asset}");
        if denom != "usvc" {
            assert_eq!(world.balance(&validator, denom), before.0 + fee, "{asset}");
        }
    }
}

#[test]
fn an_expired_or_disabled_rate_has_no_price() {
    let mut world = with_root_participant(json!({"pricing_asset_type": 1, "pricing_asset": "tu"}));
    let message = json!({"base_asset_type": "TU", "base_asset": "tu", "quote_asset_type": "COIN", "quote_asset": "usvc",
        "rate": "7", "validity_duration": "3600s"});
    world.pass_gov_proposal(&[("xr.MsgCreateExchangeRate", message)]);
    world.assert_refusals("b", START, &application(json!({})), &[(json!({}), unregistered("not active"))]);
    world.pass_gov_proposal(&[("xr.MsgSetExchangeRateState", json!({"id": 1, "state": true}))]);
    let mut later = world.clone();
    later.advance(3_600);
    later.assert_refusals("b", START, &application(json!({})), &[(json!({}), unregistered("expired"))]);
    // A price of 0 needs no rate.
    let free = root_of_free(&mut later);
    start_onboarding(&mut later, "b", "ISSUER_GRANTOR", free, json!({}));
}

fn root_of_free(world: &mut TestLedger) -> u64 {
    world.send_as_operator(
        "a",
        "cs.MsgCreateCredentialSchema",
        schema(json!({"pricing_asset_type": 1, "pricing_asset": "tu"})),
    );
    create_root(world, 2, json!({"validation_fees": 0}))
}

#[test]
fn set_participant_op_to_validated() {
    let mut world = with_root_participant(json!({}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2, "validation_fees": 500, "op_summary_digest": DIGEST_SRI});
    let day = 86_400;
    world.assert_refusals(
        "a",
        VALIDATED,
        &good,
        &[
            (json!({"id": 0}), unregistered("id")),
            (json!({"id": 9}), unregistered("participant 9 not found")),
            (json!({"corporation": account("stranger")}), unregistered("not registered")),
            (json!({"id": 1}), unregistered("validator participant 0 not found")),
            (json!({"op_summary_digest": "x"}), unregistered("op_summary_digest")),
            (json!({"issuance_fee_discount": 10_001}), unregistered("issuance_fee_discount")),
            (json!({"verification_fee_discount": 1}), unregistered("verification_fee_discount")),
            (json!({"effective_until": world.time_at(0)}), unregistered("must be after the block time")),
            (
                json!({"effective_until": world.time_at(366 * day)}),
                unregistered("must not be after the end of the validation"),
            ),
        ],
    );
    world.assert_refusals_by(
        "a",
        "bob",
        VALIDATED,
        &good,
        &[(json!({}), ("de", 1105, "authorization check failed: "))],
    );
    world.assert_refusals("b", VALIDATED, &good, &[(json!({}), unregistered("is not the validator's"))]);
    let mut limited = world.clone();
    limited.grant(
        "a",
        "alice",
        json!({"msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"], "authz_spend_limit": [coin(199)]}),
    );
    limited.assert_refusals("a", VALIDATED, &good, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut late = world.clone();
    late.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    late.assert_refusals("a", VALIDATED, &good, &[(json!({}), unregistered("validator participant 1 is not active"))]);

    let before = (world.corporation_balance("a"), world.module_balance("pp"), world.module_balance("td"));
    let outcome = world.send_as_operator("a", VALIDATED, good.clone());
    assert_eq!(
        (world.corporation_balance("a"), world.module_balance("pp"), world.module_balance("td")),
        (before.0 + 800, before.1 - 1_000, before.2 + 200)
    );
    let (now, end) = (world.time_at(0), world.time_at(365 * day));
    assert_has(
        &world.participant(2),
        &json!({
            "op_state": "VALIDATED", "op_exp": end, "effective_until": end, "effective_from": now, "validation_fees": "500",
            "op_validator_deposit": "200", "op_current_fees": "0", "op_current_deposit": "0", "op_summary_digest": DIGEST_SRI,
        }),
    );
    assert_event(
        &outcome,
        "set_participant_op_to_validated",
        &[
            ("participant_id", "2"),
            ("corporation", &world.saved_names["a"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("alice")),
            ("validator_participant_id", "1"),
            ("op_summary_digest", DIGEST_SRI),
            ("effective_until", &world.go_text_at(365 * day)),
            ("validation_fees", "500"),
            ("issuance_fees", "0"),
            ("verification_fees", "0"),
            ("issuance_fee_discount", "0"),
            ("verification_fee_discount", "0"),
            ("op_exp", &world.go_text_at(365 * day)),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("a", VALIDATED, &good, &[(json!({}), unregistered("must be PENDING"))]);

    // A renewal repeats the terms and moves only the ends.
    world.send_as_operator("b", RENEW, json!({"id": 2}));
    world.assert_refusals(
        "a",
        VALIDATED,
        &good,
        &[
            (json!({"validation_fees": 501}), unregistered("validation_fees cannot be changed")),
            (json!({"issuance_fee_discount": 1}), unregistered("issuance_fee_discount cannot be changed")),
            (json!({"effective_until": end}), unregistered("must be after the present effective_until")),
        ],
    );
    world.send_as_operator("a", VALIDATED, merge_members(&good, &json!({"op_summary_digest": null})));
    let renewed = svc_wire::timestamp::parse_rfc3339(&end).expect("a time").seconds + 365 * day;
    assert_has(
        &world.participant(2),
        &json!({
            "op_exp": world.time_at(renewed - world.block_seconds), "effective_from": now, "op_summary_digest": "", "op_validator_deposit": "400",
        }),
    );
}

#[test]
fn discounts_and_digests_depend_on_role_and_mode() {
    let (mut world, ids) = with_all_roles(json!({}));
    let holder = start_onboarding(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    world.assert_refusals(
        "c",
        VALIDATED,
        &json!({"id": holder}),
        &[
            (json!({"op_summary_digest": DIGEST_SRI}), unregistered("must be empty for a holder")),
            (json!({"issuance_fee_discount": 1}), unregistered("not allowed here")),
        ],
    );
    // The discount of an issuer is at most the discount of its grantor.
    let issuer = start_onboarding(&mut world, "a", "ISSUER", ids.grantor, json!({"did": "did:web:eco"}));
    world.assert_refusals(
        "b",
        VALIDATED,
        &json!({"id": issuer}),
        &[(json!({"issuance_fee_discount": 2_001}), unregistered("at most 2000"))],
    );
    set_validated(&mut world, "b", issuer, json!({"issuance_fee_discount": 2_000}));
    let mut direct = with_root_participant(json!({"issuer_onboarding_mode": 2, "verifier_onboarding_mode": 2}));
    let issuer = start_onboarding(&mut direct, "b", "ISSUER", 1, json!({}));
    set_validated(&mut direct, "a", issuer, json!({"issuance_fee_discount": 10_000}));
    let verifier = start_onboarding(&mut direct, "b", "VERIFIER", 1, json!({}));
    direct.assert_refusals(
        "a",
        VALIDATED,
        &json!({"id": verifier}),
        &[(json!({"issuance_fee_discount": 1}), unregistered("not allowed here"))],
    );
    set_validated(&mut direct, "a", verifier, json!({"verification_fee_discount": 10_000}));
}

#[test]
fn a_vs_operator_validates_with_its_record() {
    let (mut world, ids) = with_all_roles(json!({}));
    let holder = start_onboarding(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    let message = world.signer_message("c", "service", VALIDATED, &json!({"id": holder}));
    let outcome = world.send_ok("service", VALIDATED, message);
    assert!(event_types(&outcome).contains(&"set_participant_op_to_validated"));
    // Without either authorization the error is that of the operator authorization.
    let other = start_onboarding(&mut world, "a", "HOLDER", ids.issuer, json!({}));
    let message = world.signer_message("c", "service2", VALIDATED, &json!({"id": other}));
    world.assert_refused("service2", VALIDATED, &message, ("de", 1105, "authorization check failed: "));
}
