//! td: yield, governance slashes and their repayment.

use serde_json::json;

use super::{
    market::{apply, rooted, validate},
    world::{World, account, assert_event, assert_has, attribute, coin, ecosystem, plain},
};

const RECLAIM: &str = "td.MsgReclaimTrustDepositYield";
const REPAY: &str = "td.MsgRepaySlashedTrustDeposit";

#[test]
fn yield_raises_the_share_value_and_is_reclaimed() {
    let mut world = World::with_yield_pool(1_000_000);
    for name in ["a", "b", "c"] {
        world.incorporate(name);
    }
    world.refuses(
        "b",
        RECLAIM,
        &json!({}),
        &[
            (json!({"operator": "x"}), ("sdk", 7, "operator")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({}), plain("not found")),
        ],
    );
    world.act("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    world.act("a", "cs.MsgCreateCredentialSchema", super::schema::schema(json!({})));
    super::market::root(&mut world, 1, json!({"validation_fees": 10_000_000}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let mut staked = world.clone();
    staked.run(&[]);
    assert_eq!(staked.module("yield_intermediate_pool"), 0);
    // 2,000,000 staked x 20 % / 17,280 blocks = 23.148…: 23 are paid, the rest of the pool goes to the community.
    world.run(&[]);
    let params = world.ask("td.Params", json!({}))["params"].clone();
    assert_eq!(params["trust_deposit_share_value"], "1000011500000000000");
    assert_eq!((world.module("td"), world.module("yield_intermediate_pool")), (2_000_023, 0));
    assert_eq!(world.module("protocolpool"), 1_000_000 - 23);
    let before = world.money("b");
    let outcome = world.act("b", RECLAIM, json!({}));
    assert_eq!(world.money("b"), before + 23);
    assert_eq!(world.response(&outcome), json!({"claimed_amount": "23"}));
    assert_event(
        &outcome,
        "reclaim_trust_deposit_yield",
        &[
            ("corporation_id", "2"),
            ("account", &world.names["b"].clone()),
            ("claimed_yield", "23"),
            ("shares_reduced", "22.999735503041715020"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.refuses("b", RECLAIM, &json!({}), &[(json!({}), plain("yield"))]);
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "2000000"}));
}

#[test]
fn governance_slashes_and_the_corporation_repays() {
    let mut world = rooted(json!({}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    validate(&mut world, "a", 2, json!({}));
    let slash =
        |amount: &str| ("td.MsgSlashTrustDeposit", json!({"corporation_id": 2, "deposit": amount, "reason": "breach"}));
    let message = json!({"authority": account("member"), "corporation_id": 2, "deposit": "1", "reason": "r"});
    world.refused("member", "td.MsgSlashTrustDeposit", &message, ("td", 1100, "expected gov account"));
    let (status, reason) = world.clone().govern(&[slash("201")]);
    assert_eq!(status, "PROPOSAL_STATUS_FAILED");
    assert!(reason.contains("cannot slash 201: the deposit is 200"), "{reason}");
    let staked = world.module("td");
    world.governed(&[slash("50")]);
    assert_eq!(world.module("td"), staked - 50);
    assert_has(
        &world.trust_deposit("b"),
        &json!({
            "deposit": "150", "slashed_deposit": "50", "repaid_deposit": "0", "slash_count": "1", "last_slashed": world.at(0),
            "share": "150000000000000000000",
        }),
    );
    let kinds: Vec<_> = world.block_events.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"slash_trust_deposit") && kinds.contains(&"burn"), "{kinds:?}");
    // Nothing can be staked, released or reclaimed while a slash is outstanding.
    world.refuses("b", "pp.MsgRenewParticipantOP", &json!({"id": 2}), &[(json!({}), plain("slashed and not repaid"))]);
    world.refuses("a", "pp.MsgRevokeParticipant", &json!({"id": 2}), &[(json!({}), plain("slashed and not repaid"))]);
    world.refuses("b", RECLAIM, &json!({}), &[(json!({}), plain("slashed and not repaid"))]);

    let good = json!({"deposit": 50});
    world.refuses(
        "b",
        REPAY,
        &good,
        &[
            (json!({"deposit": 0}), ("sdk", 18, "deposit")),
            (json!({"deposit": 49}), plain("exactly the outstanding slash")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        ],
    );
    world.refuses("c", REPAY, &good, &[(json!({}), plain("not found"))]);
    let mut limited = world.clone();
    limited.grant(
        "b",
        "bob",
        json!({"msg_types": ["/svc.td.v1.MsgRepaySlashedTrustDeposit"], "authz_spend_limit": [coin(49)]}),
    );
    limited.refuses("b", REPAY, &good, &[(json!({}), ("de", 1108, "failed to consume operator spend: "))]);
    let before = world.money("b");
    let outcome = world.act("b", REPAY, good);
    assert_eq!(world.money("b"), before - 50);
    assert_has(
        &world.trust_deposit("b"),
        &json!({"deposit": "200", "repaid_deposit": "50", "last_repaid": world.at(0)}),
    );
    assert_event(
        &outcome,
        "repay_slashed_trust_deposit",
        &[
            ("corporation_id", "2"),
            ("account", &world.names["b"].clone()),
            ("amount", "50"),
            ("timestamp", &world.text_at(0)),
        ],
    );
    world.act("b", "pp.MsgRenewParticipantOP", json!({"id": 2}));
    // What was released is capped at what is left.
    world.act("b", "pp.MsgCancelParticipantOPLastRequest", json!({"id": 2}));
    world.governed(&[slash("300")]);
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "100", "refunded": "100", "slash_count": "2"}));
}

#[test]
fn deposits_are_reused_before_new_coins_are_taken() {
    let mut world = rooted(json!({}));
    apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    validate(&mut world, "a", 2, json!({}));
    world.act("a", "pp.MsgRevokeParticipant", json!({"id": 2}));
    assert_has(&world.trust_deposit("b"), &json!({"deposit": "200", "refunded": "200"}));
    let before = (world.money("b"), world.module("td"));
    let outcome = world.act(
        "b",
        "pp.MsgStartParticipantOP",
        json!({
            "role": "VERIFIER_GRANTOR", "validator_participant_id": 1, "did": "did:web:b",
        }),
    );
    assert_eq!((world.money("b"), world.module("td")), (before.0 - 1_000, before.1), "the fee alone");
    assert_eq!(attribute(&outcome, "adjust_trust_deposit", "new_refunded"), "0");
}
