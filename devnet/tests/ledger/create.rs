//! pp: root participants, and those that create themselves.

use serde_json::json;

use super::{
    market::{apply, rooted},
    schema::schema,
    world::{account, assert_event, assert_has, attribute, plain, with},
};

const ROOT: &str = "pp.MsgCreateRootParticipant";
const SELF: &str = "pp.MsgSelfCreateParticipant";

#[test]
fn create_root_participant() {
    let mut world = rooted(json!({}));
    world.act("a", "cs.MsgCreateCredentialSchema", schema(json!({})));
    let good = json!({"schema_id": 2, "did": "did:web:a", "effective_from": world.at(10), "effective_until": world.at(1_000), "validation_fees": 5});
    world.refuses("a", ROOT, &good, &[
        (json!({"schema_id": 0}), plain("schema_id")),
        (json!({"did": "x"}), plain("DID")),
        (json!({"vs_operator_authz_period": "60s"}), plain("vs_operator_authz_msg_types is required")),
        (
            json!({"vs_operator": account("service"), "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgTriggerResolver"]}),
            plain("not allowed for role ECOSYSTEM"),
        ),
        (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        (json!({"schema_id": 9}), plain("credential schema 9 not found")),
        (json!({"effective_from": null}), plain("effective_from")),
        (json!({"effective_from": world.at(1)}), plain("effective_from")),
        (json!({"effective_until": world.at(10)}), plain("effective_until must be after")),
    ]);
    world.refuses("b", ROOT, &good, &[(json!({}), plain("does not control"))]);
    let mut foreign = world.clone();
    apply(&mut foreign, "b", "ISSUER_GRANTOR", 1, json!({}));
    foreign.refuses("a", ROOT, &good, &[(json!({"did": "did:web:b"}), ("pp", 1102, "did:web:b"))]);
    let outcome = world.act("a", ROOT, good.clone());
    let (from, until) = (good["effective_from"].clone(), good["effective_until"].clone());
    assert_has(
        &world.participant(2),
        &json!({
            "role": "ECOSYSTEM", "op_state": "VALIDATED", "effective_from": from, "effective_until": until, "op_exp": null,
            "validator_participant_id": "0", "deposit": "0", "validation_fees": "5",
        }),
    );
    assert_event(
        &outcome,
        "create_root_participant",
        &[
            ("root_participant_id", "2"),
            ("schema_id", "2"),
            ("corporation", &world.names["a"].clone()),
            ("corporation_id", "1"),
            ("operator", &account("alice")),
            ("effective_from", &world.text_at(9)),
            ("effective_until", &world.text_at(999)),
            ("validation_fees", "5"),
            ("issuance_fees", "0"),
            ("verification_fees", "0"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    // Overlap: the first ends after the second begins; one that never ends blocks all.
    world.refuses(
        "a",
        ROOT,
        &good,
        &[
            (json!({"effective_from": world.at(500)}), plain("overlap")),
            // Quirk: a successor with an end is refused even behind the first one's end.
            (json!({"effective_from": world.at(2_000), "effective_until": world.at(3_000)}), plain("overlap")),
        ],
    );
    world.act("a", ROOT, with(&good, &json!({"effective_from": world.at(2_000), "effective_until": null})));
    world.refuses(
        "a",
        ROOT,
        &good,
        &[(json!({"effective_from": world.at(9_000), "effective_until": null}), plain("never expires"))],
    );
}

#[test]
fn self_create_participant() {
    let mut world = rooted(json!({"issuer_onboarding_mode": 1, "verifier_onboarding_mode": 1}));
    let good = json!({
        "role": "ISSUER", "validator_participant_id": 1, "did": "did:web:b", "effective_from": world.at(10),
        "effective_until": world.at(1_000), "validation_fees": 3, "verification_fees": 4,
    });
    world.refuses(
        "b",
        SELF,
        &good,
        &[
            (json!({"role": "HOLDER"}), ("sdk", 18, "role")),
            (json!({"validator_participant_id": 0}), ("sdk", 18, "validator_participant_id")),
            (json!({"did": "x"}), ("sdk", 18, "DID")),
            (json!({"vs_operator_authz_with_feegrant": true}), plain("is required")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"validator_participant_id": 9}), plain("validator participant 9 not found")),
            (json!({"effective_from": world.at(0)}), plain("effective_from must be in the future")),
            (json!({"effective_until": null}), plain("effective_until is required")),
            (json!({"effective_until": world.at(10)}), plain("effective_until must be after")),
            (json!({"effective_until": world.at(200_000_000)}), plain("must not be after the validator's")),
            (json!({"effective_from": world.at(200_000_000)}), plain("must be before the validator's effective_until")),
            (json!({"role": "VERIFIER"}), plain("for issuers only")),
            (json!({"did": "did:web:a"}), ("pp", 1102, "did:web:a")),
        ],
    );
    let closed = rooted(json!({}));
    let there = with(&good, &json!({"effective_from": closed.at(10), "effective_until": closed.at(20)}));
    closed.refuses("b", SELF, &there, &[(json!({}), plain("not open for role ISSUER"))]);
    let outcome = world.act("b", SELF, good.clone());
    assert_eq!(world.response(&outcome), json!({"id": "2"}));
    assert_has(
        &world.participant(2),
        &json!({
            "op_state": "VALIDATED", "issuance_fees": "0", "validation_fees": "3", "verification_fees": "4", "deposit": "0",
            "effective_from": good["effective_from"], "validator_participant_id": "1",
        }),
    );
    assert_event(
        &outcome,
        "create_participant",
        &[
            ("participant_id", "2"),
            ("schema_id", "1"),
            ("corporation", &world.names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("role", "ISSUER"),
            ("effective_from", &world.text_at(9)),
            ("effective_until", &world.text_at(999)),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.refuses("b", SELF, &good, &[(json!({}), plain("overlap"))]);
    world.refuses("b", SELF, &good, &[(json!({"validator_participant_id": 2}), plain("not an ecosystem's"))]);
    // Quirk: without effective_from it is accepted, and never becomes active.
    let outcome = world.act("c", SELF, with(&good, &json!({"did": "did:web:c", "effective_from": null})));
    assert_eq!(attribute(&outcome, "create_participant", "effective_from"), "");
    world.advance(500);
    assert_eq!(
        world.ask("pp.ListParticipants", json!({"did": "did:web:c", "only_valid": true}))["participants"],
        json!([])
    );
    let mut ended = world.clone();
    ended.act("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    ended.refuses("b", SELF, &good, &[(json!({}), plain("validator participant 1 is not valid"))]);
}
