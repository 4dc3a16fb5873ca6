//! pp: end dates, revocation, slashes, repayment, re-resolution.

use serde_json::json;

use super::{
    market::{apply, rooted, staffed, validate},
    world::{account, assert_event, assert_has, attribute, coin, kinds, plain},
};

const UNTIL: &str = "pp.MsgSetParticipantEffectiveUntil";
const REVOKE: &str = "pp.MsgRevokeParticipant";
const SLASH: &str = "pp.MsgSlashParticipantTrustDeposit";
const REPAY: &str = "pp.MsgRepayParticipantSlashedTrustDeposit";
const TRIGGER: &str = "pp.MsgTriggerResolver";

#[test]
fn set_participant_effective_until() {
    let (mut world, ids) = staffed(json!({}));
    let good = json!({"id": ids.issuer, "effective_until": world.at(1_000)});
    world.refuses(
        "b",
        UNTIL,
        &good,
        &[
            (json!({"effective_until": null}), plain("effective_until is required")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 99}), plain("participant 99 not found")),
            (json!({"effective_until": world.at(0)}), plain("must be in the future")),
            (json!({"effective_until": world.at(181 * 86_400)}), plain("end of the validation")),
        ],
    );
    world.refuses("c", UNTIL, &good, &[(json!({}), plain("may not set the end"))]);
    let pending = apply(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    world.refuses("c", UNTIL, &good, &[(json!({"id": pending}), plain("not yet effective"))]);
    let outcome = world.act("b", UNTIL, good.clone());
    assert_has(
        &world.participant(ids.issuer),
        &json!({
            "effective_until": good["effective_until"], "adjusted": world.at(0), "modified": world.at(0),
        }),
    );
    let until = svc_wire::instant::parse_rfc3339(good["effective_until"].as_str().expect("a text")).expect("a time");
    assert_event(
        &outcome,
        "set_participant_effective_until",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("corporation", &world.names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("new_effective_until", &svc_wire::instant::go_text(&until)),
            ("timestamp", &world.text_at(0)),
        ],
    );
    // The VS record ends with its participant, and so does its fee allowance.
    assert!(kinds(&outcome).contains(&"update_vs_operator_authorization"));
    let records = world.ask("de.ListVSOperatorAuthorizations", json!({"vs_operator": account("service")}));
    assert_eq!(records["vs_operator_authorizations"][0]["records"][0]["expiration"], good["effective_until"]);
    // A root's end is its owner's; under an open schema so is everyone's.
    world.refuses(
        "b",
        UNTIL,
        &json!({"id": 1, "effective_until": world.at(5_000)}),
        &[(json!({}), plain("may not set the end"))],
    );
    world.act("a", UNTIL, json!({"id": 1, "effective_until": world.at(50_000)}));
    let mut open = rooted(json!({"issuer_onboarding_mode": 1}));
    let id = open.create(
        "b",
        "pp.MsgSelfCreateParticipant",
        json!({"role": "ISSUER", "validator_participant_id": 1,
        "did": "did:web:b", "effective_from": open.at(5), "effective_until": open.at(1_000)}),
    );
    open.advance(10);
    let message = json!({"id": id, "effective_until": open.at(500)});
    open.refuses("a", UNTIL, &message, &[(json!({}), plain("may not set the end"))]);
    open.act("b", UNTIL, message.clone());
    open.act("a", REVOKE, json!({"id": 1}));
    open.refuses("b", UNTIL, &message, &[(json!({}), plain("validator participant 1 is not active"))]);
}

#[test]
fn revoke_participant() {
    let (world, ids) = staffed(json!({}));
    let good = json!({"id": ids.issuer});
    world.refuses(
        "b",
        REVOKE,
        &good,
        &[
            (json!({"id": 0}), plain("id")),
            (json!({"id": 99}), plain("participant 99 not found")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    // By an active ancestor, by the ecosystem's controller, by the owner; not by anybody else.
    for who in ["a", "b", "c"] {
        let mut world = world.clone();
        let before = world.trust_deposit("c");
        let outcome = world.act(who, REVOKE, good.clone());
        assert_has(
            &world.participant(ids.issuer),
            &json!({"deposit": "0", "revoked": world.at(0), "modified": world.at(0)}),
        );
        let number = |value: &serde_json::Value| value.as_str().expect("a text").parse::<u64>().expect("a number");
        assert_eq!(number(&world.trust_deposit("c")["refunded"]), number(&before["refunded"]) + 100);
        assert_eq!(attribute(&outcome, "adjust_trust_deposit", "reason"), "participant_revoke_release_deposit");
        assert_event(
            &outcome,
            "revoke_participant",
            &[
                ("participant_id", &ids.issuer.to_string()),
                ("corporation", &world.names[who].clone()),
                ("operator", &account(super::world::operator(who))),
                ("revoked_at", &world.text_at(0)),
                ("timestamp", &world.text_at(0)),
            ],
        );
        assert!(kinds(&outcome).contains(&"revoke_vs_operator_authorization"));
        world.refuses(who, REVOKE, &good, &[(json!({}), plain("is revoked"))]);
        assert_eq!(world.participant(ids.verifier)["revoked"], json!(null));
    }
    world.refuses("c", REVOKE, &json!({"id": ids.grantor}), &[(json!({}), plain("may not revoke"))]);
}

#[test]
fn slash_and_repay_participant_trust_deposit() {
    let (mut world, ids) = staffed(json!({}));
    let good = json!({"id": ids.issuer, "amount": 60, "reason": "careless"});
    world.refuses(
        "b",
        SLASH,
        &good,
        &[
            (json!({"id": 0}), ("sdk", 18, "id")),
            (json!({"amount": 0}), ("sdk", 18, "amount")),
            (json!({"reason": ""}), ("sdk", 18, "reason")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 99}), plain("participant 99 not found")),
            (json!({"amount": 101}), plain("exceeds the participant's deposit 100")),
        ],
    );
    world.refuses("c", SLASH, &good, &[(json!({}), plain("may not slash"))]);
    world.refuses(
        "c",
        REPAY,
        &json!({"id": ids.issuer}),
        &[
            (json!({}), plain("not slashed")),
            (json!({"id": ids.grantor}), plain("does not own")),
            (json!({"id": 99}), plain("participant 99 not found")),
        ],
    );
    let (pool, supply) =
        (world.module("td"), world.ask("/cosmos.bank.v1beta1.Query/SupplyOf", json!({"denom": "usvc"})));
    let before = world.trust_deposit("c");
    let outcome = world.act("b", SLASH, good.clone());
    assert_eq!(world.module("td"), pool - 60, "burnt");
    assert_ne!(world.ask("/cosmos.bank.v1beta1.Query/SupplyOf", json!({"denom": "usvc"})), supply);
    let deposit: u64 = before["deposit"].as_str().expect("a text").parse().expect("a number");
    assert_has(
        &world.trust_deposit("c"),
        &json!({
            "deposit": (deposit - 60).to_string(), "slashed_deposit": "0", "slash_count": "0", "refunded": before["refunded"],
        }),
    );
    // Quirk: the participant's own figure stays.
    assert_has(
        &world.participant(ids.issuer),
        &json!({"deposit": "100", "slashed_deposit": "60", "slashed": world.at(0)}),
    );
    assert_event(
        &outcome,
        "slash_participant_trust_deposit",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("slashed_amount", "60"),
            ("corporation", &world.names["b"].clone()),
            ("operator", &account("bob")),
            ("reason", "careless"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    assert_eq!(attribute(&outcome, "burn_ecosystem_slashed_trust_deposit", "new_amount"), (deposit - 60).to_string());
    world.act("a", SLASH, json!({"id": ids.issuer, "amount": 10, "reason": "again"}));

    let message = json!({"id": ids.issuer});
    let mut limited = world.clone();
    limited.grant(
        "c",
        "carol",
        json!({"msg_types": ["/svc.pp.v1.MsgRepayParticipantSlashedTrustDeposit"], "authz_spend_limit": [coin(69)]}),
    );
    limited.refuses("c", REPAY, &message, &[(json!({}), ("de", 1108, "spend limit exceeded: "))]);
    let mut poor = world.clone();
    let all = poor.money("c");
    let policy = poor.names["c"].clone();
    poor.propose(
        "c",
        &[(
            "/cosmos.bank.v1beta1.MsgSend",
            json!({"from_address": policy, "to_address": account("dave"), "amount": [coin(all - 69)]}),
        )],
    );
    poor.refuses("c", REPAY, &message, &[(json!({}), plain("insufficient funds"))]);
    let before = world.money("c");
    let outcome = world.act("c", REPAY, message.clone());
    assert_eq!(world.money("c"), before - 70);
    assert_has(&world.participant(ids.issuer), &json!({"repaid": world.at(0), "repaid_deposit": "70"}));
    assert_event(
        &outcome,
        "repay_participant_slashed_trust_deposit",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("repaid_amount", "70"),
            ("corporation", &world.names["c"].clone()),
            ("operator", &account("carol")),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.refuses("c", REPAY, &message, &[(json!({}), plain("repaid already"))]);
    world.refuses("b", REVOKE, &message, &[(json!({}), plain("participant is repaid"))]);
    // Quirk: a new slash makes the whole sum due again.
    world.act("b", SLASH, json!({"id": ids.issuer, "amount": 5, "reason": "third"}));
    let before = world.money("c");
    world.act("c", REPAY, message);
    assert_eq!(world.money("c"), before - 75);
}

#[test]
fn trigger_resolver() {
    let (mut world, ids) = staffed(json!({}));
    let good = json!({"id": ids.issuer});
    world.refuses(
        "b",
        TRIGGER,
        &good,
        &[
            (json!({"id": 0}), plain("id")),
            (json!({"id": 99}), plain("participant 99 not found")),
            (json!({"corporation": account("stranger")}), plain("not registered")),
        ],
    );
    // Quirk: the owner's operator may not, an active ancestor's may.
    world.refuses("c", TRIGGER, &good, &[(json!({}), plain("authorization check failed: "))]);
    let state = world.state.hash();
    let outcome = world.act("b", TRIGGER, good.clone());
    assert_ne!(world.state.hash(), state, "the sender's sequence and fee");
    assert_event(
        &outcome,
        "trigger_resolver",
        &[
            ("participant_id", &ids.issuer.to_string()),
            ("corporation", &world.names["b"].clone()),
            ("operator", &account("bob")),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.act("a", TRIGGER, good);
    // A holder's VS operator may, by its record.
    let trigger = "/svc.pp.v1.MsgTriggerResolver";
    let holder = apply(
        &mut world,
        "b",
        "HOLDER",
        ids.issuer,
        json!({
            "vs_operator": account("dave"), "vs_operator_authz_msg_types": [trigger], "vs_operator_authz_with_feegrant": true,
            "vs_operator_authz_fee_spend_limit": [coin(7_000)],
        }),
    );
    world.refuses("c", TRIGGER, &json!({"id": holder}), &[(json!({}), plain("not yet effective"))]);
    validate(&mut world, "c", holder, json!({}));
    let message = world.by("b", "dave", TRIGGER, &json!({"id": holder}));
    world.ok("dave", TRIGGER, message);
    let other = world.by("b", "service2", TRIGGER, &json!({"id": holder}));
    world.refused("service2", TRIGGER, &other, plain("authorization check failed: "));
}
