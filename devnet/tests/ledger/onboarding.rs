//! pp: the onboarding process.

use serde_json::{Value, json};

use super::{
    market::{apply, root, rooted, staffed, validate},
    schema::schema,
    world::{SRI, World, account, assert_event, assert_has, attribute, coin, kinds, plain, with},
};

const START: &str = "pp.MsgStartParticipantOP";
const RENEW: &str = "pp.MsgRenewParticipantOP";
const VALIDATED: &str = "pp.MsgSetParticipantOPToValidated";
const CANCEL: &str = "pp.MsgCancelParticipantOPLastRequest";

fn application(changes: Value) -> Value {
    with(&json!({"role": "ISSUER_GRANTOR", "validator_participant_id": 1, "did": "did:web:b"}), &changes)
}

#[test]
fn start_participant_op() {
    let mut world = rooted(json!({}));
    let good = application(json!({}));
    world.refuses("b", START, &good, &[
        (json!({"corporation": "x"}), plain("corporation")),
        (json!({"role": "ECOSYSTEM"}), plain("role")),
        (json!({"validator_participant_id": 0}), plain("validator_participant_id")),
        (json!({"did": "x"}), plain("DID")),
        (json!({"vs_operator": "x"}), plain("vs_operator")),
        (json!({"vs_operator_authz_with_feegrant": true}), plain("vs_operator_authz_msg_types is required")),
        (json!({"vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"]}), plain("vs_operator is required")),
        (
            json!({"vs_operator": account("service"), "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgTriggerResolver"]}),
            plain("not allowed for role ISSUER_GRANTOR"),
        ),
        (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        (json!({"validator_participant_id": 9}), plain("validator participant 9 not found")),
        (json!({"role": "ISSUER"}), plain("cannot be validated by")),
        (json!({"role": "HOLDER"}), plain("cannot be validated by")),
        (json!({"did": "did:web:a"}), ("pp", 1102, "did:web:a")),
    ]);
    world.refuses_by("b", "alice", START, &good, &[(json!({}), ("de", 1105, "authorization check failed: "))]);
    let mut early = world.clone();
    early.act("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    early.refuses("b", START, &good, &[(json!({}), plain("is revoked"))]);
    // 1000 fee and 20 % of it as deposit count against the spend limit.
    let limited = |limit: u128| {
        let mut world = world.clone();
        world.grant(
            "b",
            "bob",
            json!({"msg_types": ["/svc.pp.v1.MsgStartParticipantOP"], "authz_spend_limit": [coin(limit)]}),
        );
        world
    };
    limited(1_199).refuses("b", START, &good, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut limited = limited(1_200);
    let outcome = limited.act("b", START, good.clone());
    assert_eq!(attribute(&outcome, "operator_authorization_updated", "authz_id"), "2");

    let before = (world.money("b"), world.module("pp"), world.module("td"));
    let outcome = world.act("b", START, good.clone());
    assert_eq!(world.response(&outcome), json!({"participant_id": "2"}));
    let after = (world.money("b"), world.module("pp"), world.module("td"));
    assert_eq!(after, (before.0 - 1_200, before.1 + 1_000, before.2 + 200));
    let now = world.at(0);
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
            ("corporation", &world.names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("validator_participant_id", "1"),
            ("role", "ISSUER_GRANTOR"),
            ("fees", "1000"),
            ("deposit", "200"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    assert_event(
        &outcome,
        "adjust_trust_deposit",
        &[
            ("corporation_id", "2"),
            ("account", &world.names["b"].clone()),
            ("augend", "200"),
            ("adjustment_type", "increase"),
            ("new_amount", "200"),
            ("new_share", "200.000000000000000000"),
            ("new_refunded", "0"),
            ("reason", "start_participant_vp_deposit"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.refuses("b", START, &good, &[(json!({}), plain("participant 2 already runs"))]);
    // Quirk: what is revoked still counts as running.
    validate(&mut world, "a", 2, json!({}));
    world.act("a", "pp.MsgRevokeParticipant", json!({"id": 2}));
    world.refuses("b", START, &good, &[(json!({}), plain("participant 2 already runs"))]);
}

#[test]
fn every_role_has_its_validator_under_every_mode() {
    for (modes, role) in [
        (json!({}), "ISSUER_GRANTOR"),
        (json!({}), "VERIFIER_GRANTOR"),
        (json!({"issuer_onboarding_mode": 2}), "ISSUER"),
        (json!({"verifier_onboarding_mode": 2}), "VERIFIER"),
    ] {
        let mut world = rooted(modes.clone());
        assert_eq!(apply(&mut world, "b", role, 1, json!({})), 2, "{modes} {role}");
    }
    for (modes, role) in [
        (json!({"issuer_onboarding_mode": 1}), "ISSUER"),
        (json!({"issuer_onboarding_mode": 2}), "ISSUER_GRANTOR"),
        (json!({"verifier_onboarding_mode": 1}), "VERIFIER"),
        (json!({"verifier_onboarding_mode": 2}), "VERIFIER_GRANTOR"),
        (json!({"holder_onboarding_mode": 2}), "HOLDER"),
    ] {
        rooted(modes.clone()).refuses(
            "b",
            START,
            &application(json!({"role": role})),
            &[(json!({}), plain("cannot be validated by"))],
        );
    }
    let (mut world, ids) = staffed(json!({}));
    assert!(apply(&mut world, "b", "HOLDER", ids.issuer, json!({})) > ids.verifier);
}

#[test]
fn fees_are_priced_by_asset() {
    // A trust unit is worth 7, a euro 2.5 of the fee denom.
    let rates = |world: &mut World| {
        for (kind, asset, rate, scale) in [("TU", "tu", "7", 0), ("FIAT", "EUR", "25", 1), ("COIN", "uother", "3", 0)] {
            let message = json!({"base_asset_type": kind, "base_asset": asset, "quote_asset_type": "COIN",
                "quote_asset": "usvc", "rate": rate, "rate_scale": scale, "validity_duration": "2592000s"});
            world.governed(&[("xr.MsgCreateExchangeRate", message)]);
            let id = world.ask("xr.ListExchangeRates", json!({}))["exchange_rates"].as_array().expect("rates").len();
            world.governed(&[("xr.MsgSetExchangeRateState", json!({"id": id, "state": true}))]);
        }
    };
    for (kind, asset, fee, denom, deposit) in [
        (1, "tu", 7_000, "usvc", 1_400),
        (3, "EUR", 0, "usvc", 500),
        (2, "uother", 1_000, "uother", 600),
        (2, "usvc", 1_000, "usvc", 200),
    ] {
        let mut world = rooted(json!({"pricing_asset_type": kind, "pricing_asset": asset}));
        if asset != "usvc" {
            world.refuses("b", START, &application(json!({})), &[(json!({}), plain("exchange rate not found"))]);
        }
        rates(&mut world);
        let policy = world.names["b"].clone();
        let before = (world.balance(&policy, denom), world.money("b"));
        apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
        assert_has(&world.participant(2), &json!({"op_current_fees": fee.to_string(), "deposit": deposit.to_string()}));
        let spent = u128::from(denom == "usvc") * fee + deposit;
        assert_eq!(world.money("b"), before.1 - spent, "{asset}");
        if denom != "usvc" {
            assert_eq!(world.balance(&policy, denom), before.0 - fee, "{asset}");
        }
        // The validator is paid in the schema's denom, and stakes the same deposit from its own balance.
        let validator = world.names["a"].clone();
        let before = (world.balance(&validator, denom), world.money("a"));
        validate(&mut world, "a", 2, json!({}));
        let (earned, staked) = if denom == "usvc" { (fee, deposit) } else { (0, deposit) };
        assert_eq!(world.money("a"), before.1 + earned - staked, "{asset}");
        if denom != "usvc" {
            assert_eq!(world.balance(&validator, denom), before.0 + fee, "{asset}");
        }
    }
}

#[test]
fn an_expired_or_disabled_rate_has_no_price() {
    let mut world = rooted(json!({"pricing_asset_type": 1, "pricing_asset": "tu"}));
    let message = json!({"base_asset_type": "TU", "base_asset": "tu", "quote_asset_type": "COIN", "quote_asset": "usvc",
        "rate": "7", "validity_duration": "3600s"});
    world.governed(&[("xr.MsgCreateExchangeRate", message)]);
    world.refuses("b", START, &application(json!({})), &[(json!({}), plain("not active"))]);
    world.governed(&[("xr.MsgSetExchangeRateState", json!({"id": 1, "state": true}))]);
    let mut later = world.clone();
    later.advance(3_600);
    later.refuses("b", START, &application(json!({})), &[(json!({}), plain("expired"))]);
    // A price of nothing needs no rate.
    let free = root_of_free(&mut later);
    apply(&mut later, "b", "ISSUER_GRANTOR", free, json!({}));
}

fn root_of_free(world: &mut World) -> u64 {
    world.act("a", "cs.MsgCreateCredentialSchema", schema(json!({"pricing_asset_type": 1, "pricing_asset": "tu"})));
    root(world, 2, json!({"validation_fees": 0}))
}

#[test]
fn set_participant_op_to_validated() {
    let mut world = rooted(json!({}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2, "validation_fees": 500, "op_summary_digest": SRI});
    let day = 86_400;
    world.refuses(
        "a",
        VALIDATED,
        &good,
        &[
            (json!({"id": 0}), plain("id")),
            (json!({"id": 9}), plain("participant 9 not found")),
            (json!({"corporation": account("stranger")}), plain("not registered")),
            (json!({"id": 1}), plain("validator participant 0 not found")),
            (json!({"op_summary_digest": "x"}), plain("op_summary_digest")),
            (json!({"issuance_fee_discount": 10_001}), plain("issuance_fee_discount")),
            (json!({"verification_fee_discount": 1}), plain("verification_fee_discount")),
            (json!({"effective_until": world.at(0)}), plain("must be after the block time")),
            (json!({"effective_until": world.at(366 * day)}), plain("must not be after the end of the validation")),
        ],
    );
    world.refuses_by("a", "bob", VALIDATED, &good, &[(json!({}), ("de", 1105, "authorization check failed: "))]);
    world.refuses("b", VALIDATED, &good, &[(json!({}), plain("is not the validator's"))]);
    let mut limited = world.clone();
    limited.grant(
        "a",
        "alice",
        json!({"msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"], "authz_spend_limit": [coin(199)]}),
    );
    limited.refuses("a", VALIDATED, &good, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut late = world.clone();
    late.act("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    late.refuses("a", VALIDATED, &good, &[(json!({}), plain("validator participant 1 is not active"))]);

    let before = (world.money("a"), world.module("pp"), world.module("td"));
    let outcome = world.act("a", VALIDATED, good.clone());
    assert_eq!(
        (world.money("a"), world.module("pp"), world.module("td")),
        (before.0 + 800, before.1 - 1_000, before.2 + 200)
    );
    let (now, end) = (world.at(0), world.at(365 * day));
    assert_has(
        &world.participant(2),
        &json!({
            "op_state": "VALIDATED", "op_exp": end, "effective_until": end, "effective_from": now, "validation_fees": "500",
            "op_validator_deposit": "200", "op_current_fees": "0", "op_current_deposit": "0", "op_summary_digest": SRI,
        }),
    );
    assert_event(
        &outcome,
        "set_participant_op_to_validated",
        &[
            ("participant_id", "2"),
            ("corporation", &world.names["a"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("alice")),
            ("validator_participant_id", "1"),
            ("op_summary_digest", SRI),
            ("effective_until", &world.text_at(365 * day)),
            ("validation_fees", "500"),
            ("issuance_fees", "0"),
            ("verification_fees", "0"),
            ("issuance_fee_discount", "0"),
            ("verification_fee_discount", "0"),
            ("op_exp", &world.text_at(365 * day)),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.refuses("a", VALIDATED, &good, &[(json!({}), plain("must be PENDING"))]);

    // A renewal repeats the terms and only moves the ends.
    world.act("b", RENEW, json!({"id": 2}));
    world.refuses(
        "a",
        VALIDATED,
        &good,
        &[
            (json!({"validation_fees": 501}), plain("validation_fees cannot change")),
            (json!({"issuance_fee_discount": 1}), plain("issuance_fee_discount cannot change")),
            (json!({"effective_until": end}), plain("must be after the present effective_until")),
        ],
    );
    world.act("a", VALIDATED, with(&good, &json!({"op_summary_digest": null})));
    let renewed = svc_wire::instant::parse_rfc3339(&end).expect("a time").seconds + 365 * day;
    assert_has(
        &world.participant(2),
        &json!({
            "op_exp": world.at(renewed - world.seconds), "effective_from": now, "op_summary_digest": "", "op_validator_deposit": "400",
        }),
    );
}

#[test]
fn discounts_and_digests_depend_on_role_and_mode() {
    let (mut world, ids) = staffed(json!({}));
    let holder = apply(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    world.refuses(
        "c",
        VALIDATED,
        &json!({"id": holder}),
        &[
            (json!({"op_summary_digest": SRI}), plain("must be empty for a holder")),
            (json!({"issuance_fee_discount": 1}), plain("not allowed here")),
        ],
    );
    // An issuer's discount is at most its grantor's.
    let issuer = apply(&mut world, "a", "ISSUER", ids.grantor, json!({"did": "did:web:eco"}));
    world.refuses(
        "b",
        VALIDATED,
        &json!({"id": issuer}),
        &[(json!({"issuance_fee_discount": 2_001}), plain("at most 2000"))],
    );
    validate(&mut world, "b", issuer, json!({"issuance_fee_discount": 2_000}));
    let mut direct = rooted(json!({"issuer_onboarding_mode": 2, "verifier_onboarding_mode": 2}));
    let issuer = apply(&mut direct, "b", "ISSUER", 1, json!({}));
    validate(&mut direct, "a", issuer, json!({"issuance_fee_discount": 10_000}));
    let verifier = apply(&mut direct, "b", "VERIFIER", 1, json!({}));
    direct.refuses(
        "a",
        VALIDATED,
        &json!({"id": verifier}),
        &[(json!({"issuance_fee_discount": 1}), plain("not allowed here"))],
    );
    validate(&mut direct, "a", verifier, json!({"verification_fee_discount": 10_000}));
}

#[test]
fn a_vs_operator_validates_with_its_record() {
    let (mut world, ids) = staffed(json!({}));
    let holder = apply(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    let message = world.by("c", "service", VALIDATED, &json!({"id": holder}));
    let outcome = world.ok("service", VALIDATED, message);
    assert!(kinds(&outcome).contains(&"set_participant_op_to_validated"));
    // Neither path: the first path's error is told.
    let other = apply(&mut world, "a", "HOLDER", ids.issuer, json!({}));
    let message = world.by("c", "service2", VALIDATED, &json!({"id": other}));
    world.refused("service2", VALIDATED, &message, ("de", 1105, "authorization check failed: "));
}

#[test]
fn renew_participant_op() {
    let mut world = rooted(json!({}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2});
    world.refuses(
        "b",
        RENEW,
        &good,
        &[
            (json!({"id": 0}), plain("id")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 9}), plain("participant 9 not found")),
            (json!({"id": 1}), plain("does not own")),
            (json!({}), plain("must be VALIDATED")),
        ],
    );
    validate(&mut world, "a", 2, json!({}));
    let mut limited = world.clone();
    limited.grant(
        "b",
        "bob",
        json!({"msg_types": ["/svc.pp.v1.MsgRenewParticipantOP"], "authz_spend_limit": [coin(1_199)]}),
    );
    limited.refuses("b", RENEW, &good, &[(json!({}), ("de", 1108, "exceeds remaining"))]);
    let mut expired = world.clone();
    expired.advance(366 * 86_400);
    expired.refuses("b", RENEW, &good, &[(json!({}), plain("participant 2 is not active: participant is expired"))]);
    let mut orphan = world.clone();
    orphan.act("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    orphan.refuses("b", RENEW, &good, &[(json!({}), plain("validator participant 1 is not active"))]);
    let before = world.money("b");
    let outcome = world.act("b", RENEW, good);
    assert_eq!(world.money("b"), before - 1_200);
    assert_has(&world.participant(2), &json!({"op_state": "PENDING", "deposit": "400", "op_current_fees": "1000"}));
    assert_event(
        &outcome,
        "renew_participant_op",
        &[
            ("participant_id", "2"),
            ("corporation", &world.names["b"].clone()),
            ("operator", &account("bob")),
            ("validator_participant_id", "1"),
            ("validation_fees", "1000"),
            ("validation_deposit", "200"),
            ("timestamp", &world.text_at(0)),
        ],
    );
}

#[test]
fn cancel_participant_op_last_request() {
    let mut world = rooted(json!({}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2});
    world.refuses(
        "b",
        CANCEL,
        &good,
        &[
            (json!({"id": 9}), plain("participant 9 not found")),
            (json!({"id": 1}), plain("does not own")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    let mut first = world.clone();
    let before = first.money("b");
    let outcome = first.act("b", CANCEL, good.clone());
    assert_eq!(first.money("b"), before + 1_000, "the fee comes back, the deposit stays staked");
    assert_has(&first.participant(2), &json!({"op_state": "TERMINATED", "deposit": "200", "op_current_deposit": "0"}));
    assert_has(&first.trust_deposit("b"), &json!({"deposit": "200", "refunded": "200"}));
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "augend"), "-200");
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "reason"), "participant_deactivate_release_deposit");
    assert_event(
        &outcome,
        "cancel_participant_op_last_request",
        &[
            ("participant_id", "2"),
            ("corporation", &first.names["b"].clone()),
            ("operator", &account("bob")),
            ("timestamp", &first.text_at(0)),
        ],
    );
    first.refuses("b", CANCEL, &good, &[(json!({}), plain("must be PENDING"))]);
    // What was released is used before new coins.
    let before = first.money("b");
    apply(&mut first, "b", "ISSUER_GRANTOR", 1, json!({}));
    assert_eq!(first.money("b"), before - 1_000);

    validate(&mut world, "a", 2, json!({}));
    world.act("b", RENEW, good.clone());
    let mut slashed = world.clone();
    slashed.act("a", "pp.MsgSlashParticipantTrustDeposit", json!({"id": 2, "amount": 1, "reason": "r"}));
    slashed.refuses("b", CANCEL, &good, &[(json!({}), plain("slashed and not repaid"))]);
    world.act("b", CANCEL, good.clone());
    assert_has(&world.participant(2), &json!({"op_state": "VALIDATED", "deposit": "400"}));
    // Quirk: deposit now exceeds what is unreleased, so the revocation's release aborts.
    world.refuses("a", "pp.MsgRevokeParticipant", &good, &[(json!({}), plain("cannot release 400"))]);
    // Quirk: without a validity period a cancelled renewal ends the participant too.
    let mut endless = rooted(json!({"issuer_grantor_validation_validity_period": {"value": 0}}));
    apply(&mut endless, "b", "ISSUER_GRANTOR", 1, json!({}));
    validate(&mut endless, "a", 2, json!({}));
    endless.act("b", RENEW, good.clone());
    endless.act("b", CANCEL, good);
    assert_has(&endless.participant(2), &json!({"op_state": "TERMINATED", "effective_until": null}));
}
