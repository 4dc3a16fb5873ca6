//! pp: end dates, revocation, slashes, repayment, re-resolution.

use serde_json::json;

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types},
    participants::{set_validated, start_onboarding, with_all_roles, with_root_participant},
    test_ledger::{account, coin, unregistered},
};

const UNTIL: &str = "pp.MsgSetParticipantEffectiveUntil";
const REVOKE: &str = "pp.MsgRevokeParticipant";
const SLASH: &str = "pp.MsgSlashParticipantTrustDeposit";
const REPAY: &str = "pp.MsgRepayParticipantSlashedTrustDeposit";
const TRIGGER: &str = "pp.MsgTriggerResolver";

#[test]
fn set_participant_effective_until() {
    let (mut world, ids) = with_all_roles(json!({}));
    let good = json!({"id": ids.issuer, "effective_until": world.time_at(1_000)});
    world.assert_refusals(
        "b",
        UNTIL,
        &good,
        &[
            (json!({"effective_until": null}), unregistered("effective_until is required")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 99}), unregistered("participant 99 not found")),
            (json!({"effective_until": world.time_at(0)}), unregistered("must be in the future")),
            (json!({"effective_until": world.time_at(181 * 86_400)}), unregistered("end of the validation")),
        ],
    );
    world.assert_refusals("c", UNTIL, &good, &[(json!({}), unregistered("may not set the end"))]);
    let pending = start_onboarding(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    world.assert_refusals("c", UNTIL, &good, &[(json!({"id": pending}), unregistered("not yet effective"))]);
    let outcome = world.send_as_operator("b", UNTIL, good.clone());
    assert_has(
        &world.participant(ids.issuer),
        &json!({
            "effective_until": good["effective_until"], "adjusted": world.time_at(0), "modified": world.time_at(0),
        }),
    );
    let until = svc_wire::timestamp::parse_rfc3339(good["effective_until"].as_str().expect("a text")).expect("a time");
    assert_event(
        &outcome,
        "set_participant_effective_until",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("corporation", &world.saved_names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("new_effective_until", &svc_wire::timestamp::go_time_text(&until)),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    // The VS record ends with its participant, and so does its fee allowance.
    assert!(event_types(&outcome).contains(&"update_vs_operator_authorization"));
    let records = world.query("de.ListVSOperatorAuthorizations", json!({"vs_operator": account("service")}));
    assert_eq!(records["vs_operator_authorizations"][0]["records"][0]["expiration"], good["effective_until"]);
    // The owner of a root sets its end; under an open schema every owner does.
    world.assert_refusals(
        "b",
        UNTIL,
        &json!({"id": 1, "effective_until": world.time_at(5_000)}),
        &[(json!({}), unregistered("may not set the end"))],
    );
    world.send_as_operator("a", UNTIL, json!({"id": 1, "effective_until": world.time_at(50_000)}));
    let mut open = with_root_participant(json!({"issuer_onboarding_mode": 1}));
    let id = open.create_entity(
        "b",
        "pp.MsgSelfCreateParticipant",
        json!({"role": "ISSUER", "validator_participant_id": 1,
        "did": "did:web:b", "effective_from": open.time_at(5), "effective_until": open.time_at(1_000)}),
    );
    open.advance(10);
    let message = json!({"id": id, "effective_until": open.time_at(500)});
    open.assert_refusals("a", UNTIL, &message, &[(json!({}), unregistered("may not set the end"))]);
    open.send_as_operator("b", UNTIL, message.clone());
    open.send_as_operator("a", REVOKE, json!({"id": 1}));
    open.assert_refusals("b", UNTIL, &message, &[(json!({}), unregistered("validator participant 1 is not active"))]);
}

#[test]
fn revoke_participant() {
    let (world, ids) = with_all_roles(json!({}));
    let good = json!({"id": ids.issuer});
    world.assert_refusals(
        "b",
        REVOKE,
        &good,
        &[
            (json!({"id": 0}), unregistered("id")),
            (json!({"id": 99}), unregistered("participant 99 not found")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    // An active ancestor, the controller of the ecosystem and the owner can revoke; another corporation cannot.
    for who in ["a", "b", "c"] {
        let mut world = world.clone();
        let before = world.trust_deposit("c");
        let outcome = world.send_as_operator(who, REVOKE, good.clone());
        assert_has(
            &world.participant(ids.issuer),
            &json!({"deposit": "0", "revoked": world.time_at(0), "modified": world.time_at(0)}),
        );
        let number = |value: &serde_json::Value| value.as_str().expect("a text").parse::<u64>().expect("a number");
        assert_eq!(number(&world.trust_deposit("c")["refunded"]), number(&before["refunded"]) + 100);
        assert_eq!(attribute(&outcome, "adjust_trust_deposit", "reason"), "participant_revoke_release_deposit");
        assert_event(
            &outcome,
            "revoke_participant",
            &[
                ("participant_id", &ids.issuer.to_string()),
                ("corporation", &world.saved_names[who].clone()),
                ("operator", &account(super::test_ledger::operator(who))),
                ("revoked_at", &world.go_text_at(0)),
                ("timestamp", &world.go_text_at(0)),
            ],
        );
        assert!(event_types(&outcome).contains(&"revoke_vs_operator_authorization"));
        world.assert_refusals(who, REVOKE, &good, &[(json!({}), unregistered("is revoked"))]);
        assert_eq!(world.participant(ids.verifier)["revoked"], json!(null));
    }
    world.assert_refusals("c", REVOKE, &json!({"id": ids.grantor}), &[(json!({}), unregistered("may not revoke"))]);
}

#[test]
fn slash_and_repay_participant_trust_deposit() {
    let (mut world, ids) = with_all_roles(json!({}));
    let good = json!({"id": ids.issuer, "amount": 60, "reason": "careless"});
    world.assert_refusals(
        "b",
        SLASH,
        &good,
        &[
            (json!({"id": 0}), ("sdk", 18, "id")),
            (json!({"amount": 0}), ("sdk", 18, "amount")),
            (json!({"reason": ""}), ("sdk", 18, "reason")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 99}), unregistered("participant 99 not found")),
            (json!({"amount": 101}), unregistered("exceeds the participant's deposit 100")),
        ],
    );
    world.assert_refusals("c", SLASH, &good, &[(json!({}), unregistered("may not slash"))]);
    world.assert_refusals(
        "c",
        REPAY,
        &json!({"id": ids.issuer}),
        &[
            (json!({}), unregistered("not slashed")),
            (json!({"id": ids.grantor}), unregistered("does not own")),
            (json!({"id": 99}), unregistered("participant 99 not found")),
        ],
    );
    let (pool, supply) =
        (world.module_balance("td"), world.query("/cosmos.bank.v1beta1.Query/SupplyOf", json!({"denom": "usvc"})));
    let before = world.trust_deposit("c");
    let outcome = world.send_as_operator("b", SLASH, good.clone());
    assert_eq!(world.module_balance("td"), pool - 60, "burnt");
    assert_ne!(world.query("/cosmos.bank.v1beta1.Query/SupplyOf", json!({"denom": "usvc"})), supply);
    let deposit: u64 = before["deposit"].as_str().expect("a text").parse().expect("a number");
    assert_has(
        &world.trust_deposit("c"),
        &json!({
            "deposit": (deposit - 60).to_string(), "slashed_deposit": "0", "slash_count": "0", "refunded": before["refunded"],
        }),
    );
    // Quirk: the deposit of the participant does not change.
    assert_has(
        &world.participant(ids.issuer),
        &json!({"deposit": "100", "slashed_deposit": "60", "slashed": world.time_at(0)}),
    );
    assert_event(
        &outcome,
        "slash_participant_trust_deposit",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("slashed_amount", "60"),
            ("corporation", &world.saved_names["b"].clone()),
            ("operator", &account("bob")),
            ("reason", "careless"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    assert_eq!(attribute(&outcome, "burn_ecosystem_slashed_trust_deposit", "new_amount"), (deposit - 60).to_string());
    world.send_as_operator("a", SLASH, json!({"id": ids.issuer, "amount": 10, "reason": "again"}));

    let message = json!({"id": ids.issuer});
    let mut limited = world.clone();
    limited.grant(
        "c",
        "carol",
        json!({"msg_types": ["/svc.pp.v1.MsgRepayParticipantSlashedTrustDeposit"], "authz_spend_limit": [coin(69)]}),
    );
    limited.assert_refusals("c", REPAY, &message, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut poor = world.clone();
    let all = poor.corporation_balance("c");
    let policy = poor.saved_names["c"].clone();
    poor.pass_proposal(
        "c",
        &[(
            "/cosmos.bank.v1beta1.MsgSend",
            json!({"from_address": policy, "to_address": account("dave"), "amount": [coin(all - 69)]}),
        )],
    );
    poor.assert_refusals("c", REPAY, &message, &[(json!({}), unregistered("insufficient funds"))]);
    let before = world.corporation_balance("c");
    let outcome = world.send_as_operator("c", REPAY, message.clone());
    assert_eq!(world.corporation_balance("c"), before - 70);
    assert_has(&world.participant(ids.issuer), &json!({"repaid": world.time_at(0), "repaid_deposit": "70"}));
    assert_event(
        &outcome,
        "repay_participant_slashed_trust_deposit",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("repaid_amount", "70"),
            ("corporation", &world.saved_names["c"].clone()),
            ("operator", &account("carol")),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("c", REPAY, &message, &[(json!({}), unregistered("repaid already"))]);
    world.assert_refusals("b", REVOKE, &message, &[(json!({}), unregistered("participant is repaid"))]);
    // Quirk: after a new slash the whole sum is due again.
    world.send_as_operator("b", SLASH, json!({"id": ids.issuer, "amount": 5, "reason": "third"}));
    let before = world.corporation_balance("c");
    world.send_as_operator("c", REPAY, message);
    assert_eq!(world.corporation_balance("c"), before - 75);
}

#[test]
fn trigger_resolver() {
    let (mut world, ids) = with_all_roles(json!({}));
    let good = json!({"id": ids.issuer});
    world.assert_refusals(
        "b",
        TRIGGER,
        &good,
        &[
            (json!({"id": 0}), unregistered("id")),
            (json!({"id": 99}), unregistered("participant 99 not found")),
            (json!({"corporation": account("stranger")}), unregistered("not registered")),
        ],
    );
    // Quirk: the operator of the owner cannot send it; the operator of an active ancestor can.
    world.assert_refusals("c", TRIGGER, &good, &[(json!({}), unregistered("authorization check failed: "))]);
    let state = world.state.hash();
    let outcome = world.send_as_operator("b", TRIGGER, good.clone());
    assert_ne!(world.state.hash(), state, "the sender's sequence and fee");
    assert_event(
        &outcome,
        "trigger_resolver",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("corporation", &world.saved_names["b"].clone()),
            ("operator", &account("bob")),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.send_as_operator("a", TRIGGER, good);
    // The VS operator of a holder can send it by its record.
    let trigger = "/svc.pp.v1.MsgTriggerResolver";
    let holder = start_onboarding(
        &mut world,
        "b",
        "HOLDER",
        ids.issuer,
        json!({
            "vs_operator": account("dave"), "vs_operator_authz_msg_types": [trigger], "vs_operator_authz_with_feegrant": true,
            "vs_operator_authz_fee_spend_limit": [coin(7_000)],
        }),
    );
    world.assert_refusals("c", TRIGGER, &json!({"id": holder}), &[(json!({}), unregistered("not yet effective"))]);
    set_validated(&mut world, "c", holder, json!({}));
    let message = world.signer_message("b", "dave", TRIGGER, &json!({"id": holder}));
    world.send_ok("dave", TRIGGER, message);
    let other = world.signer_message("b", "service2", TRIGGER, &json!({"id": holder}));
    world.assert_refused("service2", TRIGGER, &other, unregistered("authorization check failed: "));
}
