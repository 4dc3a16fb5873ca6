//! pp: root participants and self-created participants.

use serde_json::json;

use super::{
    outcomes::{assert_event, assert_has, attribute},
    participants::{start_onboarding, with_root_participant},
    schema::schema,
    test_ledger::{account, merge_members, unregistered},
};

const ROOT: &str = "pp.MsgCreateRootParticipant";
const SELF: &str = "pp.MsgSelfCreateParticipant";

#[test]
fn create_root_participant() {
    let mut world = with_root_participant(json!({}));
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(json!({})));
    let good = json!({"schema_id": 2, "did": "did:web:a", "effective_from": world.time_at(10), "effective_until": world.time_at(1_000), "validation_fees": 5});
    world.assert_refusals("a", ROOT, &good, &[
        (json!({"schema_id": 0}), unregistered("schema_id")),
        (json!({"did": "x"}), unregistered("DID")),
        (json!({"vs_operator_authz_period": "60s"}), unregistered("vs_operator_authz_msg_types is required")),
        (
            json!({"vs_operator": account("service"), "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgTriggerResolver"]}),
            unregistered("not allowed for role ECOSYSTEM"),
        ),
        (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        (json!({"schema_id": 9}), unregistered("credential schema 9 not found")),
        (json!({"effective_from": null}), unregistered("effective_from")),
        (json!({"effective_from": world.time_at(1)}), unregistered("effective_from")),
        (json!({"effective_until": world.time_at(10)}), unregistered("effective_until must be after")),
    ]);
    world.assert_refusals("b", ROOT, &good, &[(json!({}), unregistered("does not control"))]);
    let mut foreign = world.clone();
    start_onboarding(&mut foreign, "b", "ISSUER_GRANTOR", 1, json!({}));
    foreign.assert_refusals("a", ROOT, &good, &[(json!({"did": "did:web:b"}), ("pp", 1102, "did:web:b"))]);
    let outcome = world.send_as_operator("a", ROOT, good.clone());
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
            ("corporation", &world.saved_names["a"].clone()),
            ("corporation_id", "1"),
            ("operator", &account("alice")),
            ("effective_from", &world.go_text_at(9)),
            ("effective_until", &world.go_text_at(999)),
            ("validation_fees", "5"),
            ("issuance_fees", "0"),
            ("verification_fees", "0"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    // Overlap: the first ends after the second begins; a participant without an end blocks all others.
    world.assert_refusals(
        "a",
        ROOT,
        &good,
        &[
            (json!({"effective_from": world.time_at(500)}), unregistered("overlap")),
            // Quirk: a successor with an end is refused even if it begins after the end of the first one.
            (
                json!({"effective_from": world.time_at(2_000), "effective_until": world.time_at(3_000)}),
                unregistered("overlap"),
            ),
        ],
    );
    world.send_as_operator(
        "a",
        ROOT,
        merge_members(&good, &json!({"effective_from": world.time_at(2_000), "effective_until": null})),
    );
    world.assert_refusals(
        "a",
        ROOT,
        &good,
        &[(json!({"effective_from": world.time_at(9_000), "effective_until": null}), unregistered("never expires"))],
    );
}

#[test]
fn self_create_participant() {
    let mut world = with_root_participant(json!({"issuer_onboarding_mode": 1, "verifier_onboarding_mode": 1}));
    let good = json!({
        "role": "ISSUER", "validator_participant_id": 1, "did": "did:web:b", "effective_from": world.time_at(10),
        "effective_until": world.time_at(1_000), "validation_fees": 3, "verification_fees": 4,
    });
    world.assert_refusals(
        "b",
        SELF,
        &good,
        &[
            (json!({"role": "HOLDER"}), ("sdk", 18, "role")),
            (json!({"validator_participant_id": 0}), ("sdk", 18, "validator_participant_id")),
            (json!({"did": "x"}), ("sdk", 18, "DID")),
            (json!({"vs_operator_authz_with_feegrant": true}), unregistered("is required")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"validator_participant_id": 9}), unregistered("validator participant 9 not found")),
            (json!({"effective_from": world.time_at(0)}), unregistered("effective_from must be in the future")),
            (json!({"effective_until": null}), unregistered("effective_until is required")),
            (json!({"effective_until": world.time_at(10)}), unregistered("effective_until must be after")),
            (json!({"effective_until": world.time_at(200_000_000)}), unregistered("must not be after the validator's")),
            (
                json!({"effective_from": world.time_at(200_000_000)}),
                unregistered("must be before the validator's effective_until"),
            ),
            (json!({"role": "VERIFIER"}), unregistered("for issuers only")),
            (json!({"did": "did:web:a"}), ("pp", 1102, "did:web:a")),
        ],
    );
    let closed = with_root_participant(json!({}));
    let there =
        merge_members(&good, &json!({"effective_from": closed.time_at(10), "effective_until": closed.time_at(20)}));
    closed.assert_refusals("b", SELF, &there, &[(json!({}), unregistered("not open for role ISSUER"))]);
    let outcome = world.send_as_operator("b", SELF, good.clone());
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
            ("corporation", &world.saved_names["b"].clone()),
            ("corporation_id", "2"),
            ("operator", &account("bob")),
            ("role", "ISSUER"),
            ("effective_from", &world.go_text_at(9)),
            ("effective_until", &world.go_text_at(999)),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("b", SELF, &good, &[(json!({}), unregistered("overlap"))]);
    world.assert_refusals(
        "b",
        SELF,
        &good,
        &[(json!({"validator_participant_id": 2}), unregistered("not an ecosystem's"))],
    );
    // Quirk: a participant without effective_from is accepted and never becomes active.
    let outcome =
        world.send_as_operator("c", SELF, merge_members(&good, &json!({"did": "did:web:c", "effective_from": null})));
    assert_eq!(attribute(&outcome, "create_participant", "effective_from"), "");
    world.advance(500);
    assert_eq!(
        world.query("pp.ListParticipants", json!({"did": "did:web:c", "only_valid": true}))["participants"],
        json!([])
    );
    let mut ended = world.clone();
    ended.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    ended.assert_refusals("b", SELF, &good, &[(json!({}), unregistered("validator participant 1 is not valid"))]);
}
