//! td: yield, governance slashes and their repayment.

use serde_json::json;

use super::{
    outcomes::{assert_event, assert_has, attribute},
    participants::{set_validated, start_onboarding, with_root_participant},
    test_ledger::{TestLedger, account, coin, ecosystem, unregistered},
};

const RECLAIM: &str = "td.MsgReclaimTrustDepositYield";
const REPAY: &str = "td.MsgRepaySlashedTrustDeposit";

#[test]
fn yield_raises_the_share_value_and_is_reclaimed() {
    let mut world = TestLedger::with_yield_pool(1_000_000);
    for name in ["a", "b", "c"] {
        world.create_corporation(name);
    }
    world.assert_refusals(
        "b",
        RECLAIM,
        &json!({}),
        &[
            (json!({"operator": "x"}), ("sdk", 7, "operator")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({}), unregistered("not found")),
        ],
    );
    world.send_as_operator("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", super::schema::schema(json!({})));
    super::participants::create_root(&mut world, 1, json!({"validation_fees": 10_000_000}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let mut staked = world.clone();
    staked.run_block(&[]);
    assert_eq!(staked.module_balance("yield_intermediate_pool"), 0);
    // 2,000,000 staked x 20 % / 17,280 blocks = 23.148…: 23 are paid, the rest of the pool goes to the community.
    world.run_block(&[]);
    let params = world.query("td.Params", json!({}))["params"].clone();
    assert_eq!(params["trust_deposit_share_value"], "1000011500000000000");
    assert_eq!((world.module_balance("td"), world.module_balance("yield_intermediate_pool")), (2_000_023, 0));
    assert_eq!(world.module_balance("protocolpool"), 1_000_000 - 23);
    let before = world.corporation_balance("b");
    let outcome = world.send_as_operator("b", RECLAIM, json!({}));
    assert_eq!(world.corporation_balance("b"), before + 23);
    assert_eq!(world.response(&outcome), json!({"claimed_amount": "23"}));
    assert_event(
        &outcome,
        "reclaim_trust_deposit_yield",
        &[
            ("corporation_id", "2"),
            ("account", &world.saved_names["b"].clone()),
            ("claimed_yield", "23"),
            ("shares_reduced", "22.999735503041715020"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("b", RECLAIM, &json!({}), &[(json!({}), unregistered("yield"))]);
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "2000000"}));
}

#[test]
fn governance_slashes_and_the_corporation_repays() {
    let mut world = with_root_participant(json!({}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    set_validated(&mut world, "a", 2, json!({}));
    let slash =
        |amount: &str| ("td.MsgSlashTrustDeposit", json!({"corporation_id": 2, "deposit": amount, "reason": "breach"}));
    let message = json!({"authority": account("member"), "corporation_id": 2, "deposit": "1", "reason": "r"});
    world.assert_refused("member", "td.MsgSlashTrustDeposit", &message, ("td", 1100, "expected gov account"));
    let (status, reason) = world.clone().run_gov_proposal(&[slash("201")]);
    assert_eq!(status, "PROPOSAL_STATUS_FAILED");
    assert!(reason.contains("cannot slash 201: the deposit is 200"), "{reason}");
    let staked = world.module_balance("td");
    world.pass_gov_proposal(&[slash("50")]);
    assert_eq!(world.module_balance("td"), staked - 50);
    assert_has(
        &world.trust_deposit("b"),
        &json!({
            "deposit": "150", "slashed_deposit": "50", "repaid_deposit": "0", "slash_count": "1", "last_slashed": world.time_at(0),
            "share": "150000000000000000000",
        }),
    );
    let kinds: Vec<_> = world.block_events.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"slash_trust_deposit") && kinds.contains(&"burn"), "{kinds:?}");
    // Nothing can be staked, released or reclaimed while a slash is outstanding.
    world.assert_refusals(
        "b",
        "pp.MsgRenewParticipantOP",
        &json!({"id": 2}),
        &[(json!({}), unregistered("slashed and not repaid"))],
    );
    world.assert_refusals(
        "a",
        "pp.MsgRevokeParticipant",
        &json!({"id": 2}),
        &[(json!({}), unregistered("slashed and not repaid"))],
    );
    world.assert_refusals("b", RECLAIM, &json!({}), &[(json!({}), unregistered("slashed and not repaid"))]);

    let good = json!({"deposit": 50});
    world.assert_refusals(
        "b",
        REPAY,
        &good,
        &[
            (json!({"deposit": 0}), ("sdk", 18, "deposit")),
            (json!({"deposit": 49}), unregistered("exactly the outstanding slash")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    world.assert_refusals("c", REPAY, &good, &[(json!({}), unregistered("not found"))]);
    let mut limited = world.clone();
    limited.grant(
        "b",
        "bob",
        json!({"msg_types": ["/svc.td.v1.MsgRepaySlashedTrustDeposit"], "authz_spend_limit": [coin(49)]}),
    );
    limited.assert_refusals("b", REPAY, &good, &[(json!({}), ("de", 1108, "failed to consume operator spend: "))]);
    let before = world.corporation_balance("b");
    let outcome = world.send_as_operator("b", REPAY, good);
    assert_eq!(world.corporation_balance("b"), before - 50);
    assert_has(
        &world.trust_deposit("b"),
        &json!({"deposit": "200", "repaid_deposit": "50", "last_repaid": world.time_at(0)}),
    );
    assert_event(
        &outcome,
        "repay_slashed_trust_deposit",
        &[
            ("corporation_id", "2"),
            ("account", &world.saved_names["b"].clone()),
            ("amount", "50"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.send_as_operator("b", "pp.MsgRenewParticipantOP", json!({"id": 2}));
    // The released amount is capped at the remaining deposit.
    world.send_as_operator("b", "pp.MsgCancelParticipantOPLastRequest", json!({"id": 2}));
    world.pass_gov_proposal(&[slash("300")]);
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "100", "refunded": "100", "slash_count": "2"}));
}

#[test]
fn deposits_are_reused_before_new_coins_are_taken() {
    let mut world = with_root_participant(json!({}));
    start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    set_validated(&mut world, "a", 2, json!({}));
    world.send_as_operator("a", "pp.MsgRevokeParticipant", json!({"id": 2}));
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "200", "refunded": "200"}));
    let before = (world.corporation_balance("b"), world.module_balance("td"));
    let outcome = world.send_as_operator(
        "b",
        "pp.MsgStartParticipantOP",
        json!({
            "role": "VERIFIER_GRANTOR", "validator_participant_id": 1, "did": "did:web:b",
        }),
    );
    assert_eq!(
        (world.corporation_balance("b"), world.module_balance("td")),
        (before.0 - 1_000, before.1),
        "the fee alone"
    );
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "new_refunded"), "0");
}
