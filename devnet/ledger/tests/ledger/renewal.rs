//! pp: renewal of an onboarding process, and cancellation of the last request.

use serde_json::json;

use super::{
    outcomes::{assert_event, assert_has, attribute},
    participants::{set_validated, start_onboarding, with_root_participant},
    test_ledger::{account, coin, unregistered},
};

const RENEW: &str = "pp.MsgRenewParticipantOP";
const CANCEL: &str = "pp.MsgCancelParticipantOPLastRequest";

#[test]
fn renew_participant_op() {
    let mut world = with_root_participant(json!({}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2});
    world.assert_refusals(
        "b",
        RENEW,
        &good,
        &[
            (json!({"id": 0}), unregistered("id")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 9}), unregistered("participant 9 not found")),
            (json!({"id": 1}), unregistered("does not own")),
            (json!({}), unregistered("must be VALIDATED")),
        ],
    );
    set_validated(&mut world, "a", 2, json!({}));
    let mut limited = world.clone();
    limited.grant(
        "b",
        "bob",
        json!({"msg_types": ["/svc.pp.v1.MsgRenewParticipantOP"], "authz_spend_limit": [coin(1_199)]}),
    );
    limited.assert_refusals("b", RENEW, &good, &[(json!({}), ("de", 1108, "exceeds remaining"))]);
    let mut expired = world.clone();
    expired.advance(366 * 86_400);
    expired.assert_refusals(
        "b",
        RENEW,
        &good,
        &[(json!({}), unregistered("participant 2 is not active: participant is expired"))],
    );
    let mut orphan = world.clone();
    orphan.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 1}));
    orphan.assert_refusals("b", RENEW, &good, &[(json!({}), unregistered("validator participant 1 is not active"))]);
    let before = world.corporation_balance("b");
    let outcome = world.send_as_operator("b", RENEW, good);
    assert_eq!(world.corporation_balance("b"), before - 1_200);
    assert_has(&world.participant(2), &json!({"op_state": "PENDING", "deposit": "400", "op_current_fees": "1000"}));
    assert_event(
        &outcome,
        "renew_participant_op",
        &[
            ("participant_id", "2"),
            ("corporation", &world.saved_names["b"].clone()),
            ("operator", &account("bob")),
            ("validator_participant_id", "1"),
            ("validation_fees", "1000"),
            ("validation_deposit", "200"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
}

#[test]
fn cancel_participant_op_last_request() {
    let mut world = with_root_participant(json!({}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let good = json!({"id": 2});
    world.assert_refusals(
        "b",
        CANCEL,
        &good,
        &[
            (json!({"id": 9}), unregistered("participant 9 not found")),
            (json!({"id": 1}), unregistered("does not own")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    let mut first = world.clone();
    let before = first.corporation_balance("b");
    let outcome = first.send_as_operator("b", CANCEL, good.clone());
    assert_eq!(first.corporation_balance("b"), before + 1_000, "the fee comes back, the deposit stays staked");
    assert_has(&first.participant(2), &json!({"op_state": "TERMINATED", "deposit": "200", "op_current_deposit": "0"}));
    assert_has(&first.trust_deposit("b"), &json!({"deposit": "200", "refunded": "200"}));
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "augend"), "-200");
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "reason"), "participant_deactivate_release_deposit");
    assert_event(
        &outcome,
        "cancel_participant_op_last_request",
        &[
            ("participant_id", "2"),
            ("corporation", &first.saved_names["b"].clone()),
            ("operator", &account("bob")),
            ("timestamp", &first.go_text_at(0)),
        ],
    );
    first.assert_refusals("b", CANCEL, &good, &[(json!({}), unregistered("must be PENDING"))]);
    // The released amount is used before new coins.
    let before = first.corporation_balance("b");
    start_onboarding(&mut first, "b", "ISSUER_GRANTOR", 1, json!({}));
    assert_eq!(first.corporation_balance("b"), before - 1_000);

    set_validated(&mut world, "a", 2, json!({}));
    world.send_as_operator("b", RENEW, good.clone());
    let mut slashed = world.clone();
    slashed.send_as_operator("a", "pp.MsgSlashParticipantTrustDeposit", json!({"id": 2, "amount": 1, "reason": "r"}));
    slashed.assert_refusals("b", CANCEL, &good, &[(json!({}), unregistered("slashed and not repaid"))]);
    world.send_as_operator("b", CANCEL, good.clone());
    assert_has(&world.participant(2), &json!({"op_state": "VALIDATED", "deposit": "400"}));
    // Quirk: the deposit exceeds the unreleased amount now, so the release aborts the revocation.
    world.assert_refusals("a", "pp.MsgRevokeParticipant", &good, &[(json!({}), unregistered("cannot release 400"))]);
    // Quirk: without a validity period the cancellation of a renewal ends the participant.
    let mut endless = with_root_participant(json!({"issuer_grantor_validation_validity_period": {"value": 0}}));
    start_onboarding(&mut endless, "b", "ISSUER_GRANTOR", 1, json!({}));
    set_validated(&mut endless, "a", 2, json!({}));
    endless.send_as_operator("b", RENEW, good.clone());
    endless.send_as_operator("b", CANCEL, good);
    assert_has(&endless.participant(2), &json!({"op_state": "TERMINATED", "effective_until": null}));
}
