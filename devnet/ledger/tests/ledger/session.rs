//! pp: participant sessions, their beneficiaries and payments.

use serde_json::{Value, json};

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types},
    participants::{ParticipantIds, create_root, with_all_roles},
    schema::schema,
    test_ledger::{DIGEST_SRI, TestLedger, account, coin, merge_members, unregistered},
};

const NAME: &str = "pp.MsgCreateOrUpdateParticipantSession";
const ID: &str = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

fn agents(world: &mut TestLedger) -> (u64, u64) {
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(json!({"issuer_onboarding_mode": 1})));
    let validator = create_root(world, 2, json!({}));
    let mut create = |corporation: &str| {
        let message = json!({"role": "ISSUER", "validator_participant_id": validator, "did": format!("did:web:{corporation}"),
            "effective_from": world.time_at(3), "effective_until": world.time_at(90_000_000)});
        world.create_entity(corporation, "pp.MsgSelfCreateParticipant", message)
    };
    let made = (create("a"), create("b"));
    world.advance(10);
    made
}

fn issue(ids: &ParticipantIds) -> Value {
    json!({"id": ID, "issuer_participant_id": ids.issuer})
}

#[test]
fn sessions_are_checked() {
    let (world, ids) = with_all_roles(json!({}));
    let good = issue(&ids);
    world.assert_refusals_by(
        "c",
        "service",
        NAME,
        &good,
        &[
            (json!({"corporation": "x"}), unregistered("corporation")),
            (json!({"id": "not-a-uuid"}), ("sdk", 18, "UUID")),
            (json!({"issuer_participant_id": 0}), ("sdk", 18, "is required")),
            (json!({"digest": "x"}), ("sdk", 18, "SRI")),
            (json!({"issuer_participant_id": 99}), unregistered("participant 99 not found")),
            (json!({"issuer_participant_id": ids.grantor}), unregistered("must be of role ISSUER")),
            (json!({"verifier_participant_id": ids.issuer}), unregistered("must be of role VERIFIER")),
            (json!({"verifier_participant_id": ids.verifier}), unregistered("not the VS operator of participant")),
            (json!({"corporation": world.saved_names["a"]}), unregistered("another corporation")),
            (json!({"agent_participant_id": ids.verifier}), unregistered("must be of role ISSUER")),
            (json!({"wallet_agent_participant_id": 99}), unregistered("participant 99 not found")),
        ],
    );
    // An operator authorization does not suffice: the VS operator alone can send it.
    world.assert_refusals("c", NAME, &good, &[(json!({}), unregistered("not the VS operator"))]);
    let mut over = world.clone();
    over.send_as_operator(
        "b",
        "pp.MsgSetParticipantEffectiveUntil",
        json!({"id": ids.issuer, "effective_until": over.time_at(50)}),
    );
    over.advance(60);
    over.assert_refusals_by("c", "service", NAME, &good, &[(json!({}), unregistered("is expired"))]);
    let mut stripped = world.clone();
    stripped.send_as_operator("b", "pp.MsgRevokeParticipant", json!({"id": ids.issuer}));
    stripped.assert_refusals_by("c", "service", NAME, &good, &[(json!({}), unregistered("is revoked"))]);
    let mut used = world.clone();
    let message = used.signer_message("c", "service", NAME, &good);
    used.send_ok("service", NAME, message);
    used.assert_refusals_by(
        "c",
        "service2",
        NAME,
        &json!({"id": ID, "verifier_participant_id": ids.verifier}),
        &[
            (json!({}), unregistered("another VS operator")),
            (json!({"corporation": used.saved_names["b"]}), unregistered("belongs to another corporation")),
        ],
    );
    let mut poor = world.clone();
    let (all, policy) = (poor.corporation_balance("c"), poor.saved_names["c"].clone());
    poor.pass_proposal(
        "c",
        &[(
            "/cosmos.bank.v1beta1.MsgSend",
            json!({"from_address": policy, "to_address": account("dave"), "amount": [coin(all)]}),
        )],
    );
    poor.assert_refusals_by("c", "service", NAME, &good, &[(json!({}), unregistered("insufficient funds"))]);
}

#[test]
fn an_issuance_pays_grantor_root_and_agents() {
    let (mut world, ids) = with_all_roles(json!({}));
    let (agent, wallet) = agents(&mut world);
    let message = merge_members(
        &issue(&ids),
        &json!({"agent_participant_id": agent, "wallet_agent_participant_id": wallet, "digest": DIGEST_SRI}),
    );
    let found =
        world.query("pp.FindBeneficiaries", json!({"issuer_participant_id": ids.issuer}))["participants"].clone();
    let order: Vec<_> = found.as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
    assert_eq!(order, [json!(ids.grantor.to_string()), json!("1")], "ancestors bottom-up");
    let before = ["a", "b", "c"].map(|name| world.corporation_balance(name));
    let staked = world.module_balance("td");
    let signed = world.signer_message("c", "service", NAME, &message);
    let outcome = world.send_ok("service", NAME, signed);
    // Discount 10 %: of 50 to the grantor 45, of 100 to the root 90. Trust deposits 9 and 18, paid 36 and 72.
    // Rewards: 10 % of 135 = 13.5, cut to 13, of which trunc(2.7) = 2 staked and 11 paid, for each agent.
    let after = ["a", "b", "c"].map(|name| world.corporation_balance(name));
    assert_eq!(after[0], before[0] + 72 + 11, "root and agent");
    assert_eq!(after[1], before[1] + 36 + 11, "grantor and wallet agent");
    assert_eq!(after[2], before[2] - (36 + 2 * 9) - (72 + 2 * 18) - 13 - 13);
    assert_eq!(world.module_balance("td"), staked + 2 * 9 + 2 * 18 + 2 + 2);
    assert_has(&world.participant(ids.issuer), &json!({"deposit": (100 + 27).to_string()}));
    assert_has(&world.participant(ids.grantor), &json!({"deposit": (200 + 9).to_string()}));
    assert_has(&world.participant(agent), &json!({"deposit": "2"}));
    assert_event(
        &outcome,
        "create_update_csps",
        &[
            ("corporation", &world.saved_names["c"].clone()),
            ("operator", &account("service")),
            ("session_id", ID),
            ("issuer_participant_id", &ids.issuer.to_string()),
            ("verifier_participant_id", "0"),
            ("agent_participant_id", &agent.to_string()),
            ("wallet_agent_participant_id", &wallet.to_string()),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    assert_eq!(attribute(&outcome, "store_digest", "source"), "module_call");
    assert_eq!(world.response(&outcome), json!({"id": ID}));
    // A second use of the session adds a record.
    let again = world.signer_message("c", "service", NAME, &issue(&ids));
    world.send_ok("service", NAME, again);
    let session = world.query("pp.GetParticipantSession", json!({"id": ID}))["participant_session"].clone();
    assert_has(
        &session,
        &json!({"vs_operator": account("service"), "corporation_id": "3", "modified": world.time_at(0)}),
    );
    assert_has(&session["session_records"][1], &json!({"id": "2", "agent_participant_id": "0"}));
}

#[test]
fn a_verification_pays_the_issuer_too() {
    // Quirk: under a schema without validity period the record has no end and is unusable.
    let (endless, ids) = with_all_roles(json!({}));
    endless.assert_refusals_by(
        "c",
        "service2",
        NAME,
        &json!({"id": ID, "verifier_participant_id": ids.verifier}),
        &[(json!({}), ("de", 1106, "VS operator authorization check failed: "))],
    );
    let (mut world, ids) = with_all_roles(json!({"verifier_validation_validity_period": {"value": 180}}));
    // Verifier alone: 80 for its grantor and 200 for the root. Deposits 16 and 40, payments 64 and 160.
    let before = ["a", "b", "c"].map(|name| world.corporation_balance(name));
    let message =
        world.signer_message("c", "service2", NAME, &json!({"id": ID, "verifier_participant_id": ids.verifier}));
    world.send_ok("service2", NAME, message);
    let after = ["a", "b", "c"].map(|name| world.corporation_balance(name));
    assert_eq!(after, [before[0] + 160, before[1] + 64, before[2] - 64 - 160 - 2 * 56]);
    // A slashed ancestor is left out.
    world.send_as_operator(
        "a",
        "pp.MsgSlashParticipantTrustDeposit",
        json!({"id": ids.verifier_grantor, "amount": 1, "reason": "r"}),
    );
    let found = world.query(
        "pp.FindBeneficiaries",
        json!({"issuer_participant_id": ids.issuer, "verifier_participant_id": ids.verifier}),
    );
    let order: Vec<_> = found["participants"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect();
    assert_eq!(order, [ids.grantor, 1, ids.issuer].map(|id| json!(id.to_string())));
    let before = ["a", "b"].map(|name| world.corporation_balance(name));
    let message =
        world.signer_message("c", "service2", NAME, &json!({"id": ID, "verifier_participant_id": ids.verifier}));
    let outcome = world.send_ok("service2", NAME, message);
    assert_eq!(["a", "b"].map(|name| world.corporation_balance(name)), [before[0] + 160, before[1]]);
    assert!(!event_types(&outcome).contains(&"store_digest"));
}

#[test]
fn the_record_limits_spending_and_fees() {
    let (mut world, ids) = with_all_roles(json!({}));
    let session = "/svc.pp.v1.MsgCreateOrUpdateParticipantSession";
    // Another issuer of c; its record has a spend limit of 200 and a fee spend limit of 7000.
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(json!({"issuer_onboarding_mode": 1})));
    let validator = create_root(&mut world, 2, json!({"issuance_fees": 100}));
    let open = |world: &TestLedger, changes: Value| {
        merge_members(
            &json!({
                "role": "ISSUER", "validator_participant_id": validator, "did": "did:web:c", "effective_from": world.time_at(3),
                "effective_until": world.time_at(1_000), "vs_operator": account("dave"), "vs_operator_authz_msg_types": [session],
                "vs_operator_authz_spend_limit": [coin(200)],
            }),
            &changes,
        )
    };
    let create = "pp.MsgSelfCreateParticipant";
    world.assert_refusals(
        "c",
        create,
        &open(&world, json!({})),
        &[
            (json!({"vs_operator": account("carol")}), ("de", 1110, "operator authorization exists")),
            (json!({"vs_operator_authz_period": "0s"}), unregistered("period")),
            (json!({"vs_operator_authz_fee_spend_limit": [coin(0)]}), ("de", 1104, "fee spend limit")),
        ],
    );
    let mut other = world.clone();
    other.assert_refusals(
        "b",
        create,
        &open(&other, json!({"did": "did:web:b", "vs_operator": account("service")})),
        &[(json!({}), ("de", 1113, "another corporation"))],
    );
    other.grant("c", "dave", json!({"msg_types": ["/svc.co.v1.MsgUpdateCorporation"]}));
    other.assert_refusals("c", create, &open(&other, json!({})), &[(json!({}), ("de", 1110, "exists"))]);
    let terms = json!({"vs_operator_authz_with_feegrant": true, "vs_operator_authz_fee_spend_limit": [coin(7_000)]});
    let message = open(&world, terms);
    let id = world.create_entity("c", create, message);
    world.assert_refusals(
        "c",
        "de.MsgGrantOperatorAuthorization",
        &json!({"grantee": account("dave"), "msg_types": ["/svc.co.v1.MsgUpdateCorporation"]}),
        &[(json!({}), ("de", 1103, "VS operator authorization exists"))],
    );
    world.advance(10);
    // 100 to the root: 80 paid, 20 staked twice: 120 of 200.
    let message = world.signer_message("c", "dave", NAME, &json!({"id": ID, "issuer_participant_id": id}));
    let paid = |world: &mut TestLedger| {
        let mut unsigned = world.unsigned("dave", vec![world.pack(NAME, &message)]);
        unsigned.fee_granter = Some(world.saved_names["c"].clone());
        let bytes = world.sign("dave", &unsigned);
        world.run_block(&[bytes]).remove(0)
    };
    let mut generous = world.clone();
    let before = generous.corporation_balance("c");
    let outcome = paid(&mut generous);
    assert_eq!(outcome.code, 0, "{}", outcome.log);
    assert_eq!(generous.corporation_balance("c"), before - 120 - 5_000, "the corporation pays the fee");
    let records = generous.query("de.ListVSOperatorAuthorizations", json!({"vs_operator": account("dave")}));
    let record = records["vs_operator_authorizations"][0]["records"][0].clone();
    assert_eq!(
        (&record["remaining_spend"], &record["remaining_fee_spend"]),
        (&json!([coin(80)]), &json!([coin(2_000)]))
    );
    let outcome = paid(&mut generous);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1108), "{}", outcome.log);
    assert!(
        outcome.log.contains("VS operator authorization check failed: ")
            && outcome.log.contains("exceeds remaining 80usvc"),
        "{}",
        outcome.log
    );
    // The fee spend limit of 7000 allows one fee of 5000.
    let mut frugal = world.clone();
    frugal.pass_gov_proposal(&[(
        "td.MsgUpdateParams",
        json!({"params": merge_members(
            &frugal.query("td.Params", json!({}))["params"], &json!({"trust_deposit_rate": "0"})
        )}),
    )]);
    assert_eq!(paid(&mut frugal).code, 0);
    let outcome = paid(&mut frugal);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1108), "{}", outcome.log);
    assert!(outcome.log.contains("fee spend limit exceeded: "), "{}", outcome.log);
    frugal.advance(2_000);
    assert_eq!(paid(&mut frugal).code, 38, "the allowance ended with the record and was pruned");
    // An allowance from another grant does not help a record without a fee grant.
    let allowance = json!({"granter": world.saved_names["c"], "grantee": account("service2"),
        "allowance": {"@type": "/cosmos.feegrant.v1beta1.BasicAllowance"}});
    let (mut without, ids2) = with_all_roles(json!({"verifier_validation_validity_period": {"value": 180}}));
    without.pass_proposal("c", &[("/cosmos.feegrant.v1beta1.MsgGrantAllowance", allowance)]);
    let message =
        without.signer_message("c", "service2", NAME, &json!({"id": ID, "verifier_participant_id": ids2.verifier}));
    let mut unsigned = without.unsigned("service2", vec![without.pack(NAME, &message)]);
    unsigned.fee_granter = Some(without.saved_names["c"].clone());
    let bytes = without.sign("service2", &unsigned);
    let outcome = without.run_block(&[bytes]).remove(0);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1115), "{}", outcome.log);
    assert!(outcome.log.contains("fee grant not authorized"), "{}", outcome.log);
    // The record of one participant does not authorize another.
    world.assert_refusals_by(
        "c",
        "dave",
        NAME,
        &json!({"id": ID, "issuer_participant_id": ids.issuer}),
        &[(json!({}), unregistered("not the VS operator"))],
    );
}
