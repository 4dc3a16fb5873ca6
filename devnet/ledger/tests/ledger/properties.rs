//! Property tests with random sequences of valid and invalid messages of several corporations. The invariants hold after every
//! block (`run_block` asserts them), a refused message changes only fee and sequence, and a replay has the same application hash.

use proptest::prelude::*;
use serde_json::{Value, json};
use svc_ledger::{GenesisState, begin_block, deliver, end_block, export_app_state};

use super::{
    participants::with_all_roles,
    test_ledger::{TestLedger, account, coin, ecosystem, operator},
};

/// Builds a message of a corporation from small numbers, which often are valid ids.
fn message(world: &TestLedger, kind: u8, corporation: &str, target: u64, amount: u64) -> (String, Value) {
    let id = json!({"id": target});
    let (name, value) = match kind % 22 {
        0 => ("ec.MsgCreateEcosystem", ecosystem(&format!("did:web:e{}", amount % 5))),
        1 => ("ec.MsgUpdateEcosystem", json!({"id": target % 3, "did": format!("did:web:e{}", amount % 5)})),
        2 => ("ec.MsgArchiveEcosystem", json!({"id": target % 3, "archive": amount.is_multiple_of(2)})),
        3 => (
            "cs.MsgCreateCredentialSchema",
            super::schema::schema(json!({
                "ecosystem_id": target % 3, "issuer_onboarding_mode": 1 + amount % 3, "verifier_onboarding_mode": 1 + target % 3,
            })),
        ),
        4 => (
            "pp.MsgStartParticipantOP",
            json!({
                "role": 1 + amount % 6, "validator_participant_id": target, "did": format!("did:web:{corporation}"),
            }),
        ),
        5 => ("pp.MsgRenewParticipantOP", id),
        6 => (
            "pp.MsgSetParticipantOPToValidated",
            json!({"id": target, "validation_fees": amount, "issuance_fees": amount}),
        ),
        7 => ("pp.MsgCancelParticipantOPLastRequest", id),
        8 => (
            "pp.MsgCreateRootParticipant",
            json!({
                "schema_id": 1 + target % 3, "did": format!("did:web:{corporation}"), "effective_from": world.time_at(2), "validation_fees": amount,
            }),
        ),
        9 => (
            "pp.MsgSelfCreateParticipant",
            json!({
                "role": 1 + amount % 2, "validator_participant_id": target, "did": format!("did:web:{corporation}"),
                "effective_from": world.time_at(2), "effective_until": world.time_at(1_000),
            }),
        ),
        10 => (
            "pp.MsgSetParticipantEffectiveUntil",
            json!({"id": target, "effective_until": world.time_at(amount.cast_signed() % 10_000)}),
        ),
        11 => ("pp.MsgRevokeParticipant", id),
        12 => ("pp.MsgSlashParticipantTrustDeposit", json!({"id": target, "amount": amount, "reason": "r"})),
        13 => ("pp.MsgRepayParticipantSlashedTrustDeposit", id),
        14 => ("td.MsgReclaimTrustDepositYield", json!({})),
        15 => ("td.MsgRepaySlashedTrustDeposit", json!({"deposit": amount})),
        16 => ("di.MsgStoreDigest", json!({"digest": format!("sha256-AA{}", amount % 4)})),
        17 => ("co.MsgUpdateCorporation", json!({"did": format!("did:web:c{}", amount % 4)})),
        18 => (
            "gf.MsgAddGovernanceFrameworkDocument",
            json!({
                "version": 2 + amount % 2, "doc_language": "en", "doc_url": "https://a.example/2", "doc_digest_sri": "sha256-AA",
            }),
        ),
        19 => ("gf.MsgIncreaseActiveGovernanceFrameworkVersion", json!({})),
        20 => (
            "de.MsgGrantOperatorAuthorization",
            json!({
                "grantee": account("dave"), "msg_types": ["/svc.ec.v1.MsgCreateEcosystem"], "with_feegrant": amount.is_multiple_of(2),
                "authz_spend_limit": [coin(u128::from(amount) + 1)],
            }),
        ),
        _ => ("de.MsgRevokeOperatorAuthorization", json!({"grantee": account("dave")})),
    };
    (name.to_owned(), value)
}

/// Builds a session message of one of the services.
fn session(world: &TestLedger, target: u64, amount: u64) -> (String, Value, &'static str) {
    let service = if amount.is_multiple_of(2) { "service" } else { "service2" };
    let value = json!({
        "id": format!("6ba7b810-9dad-41d1-80b4-00c04fd430c{}", amount % 8),
        "issuer_participant_id": if amount.is_multiple_of(2) { target } else { 0 }, "verifier_participant_id": if amount.is_multiple_of(2) { 0 } else { target },
        "digest": if amount.is_multiple_of(3) { "sha256-AAFF" } else { "" },
    });
    let name = "pp.MsgCreateOrUpdateParticipantSession";
    (name.to_owned(), world.signer_message("c", service, name, &value), service)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences_keep_the_invariants_and_replay_alike(
        steps in prop::collection::vec((0u8..26, 0usize..3, 0u64..9, prop_oneof![0u64..400, any::<u64>()], 0u8..20), 1..60)
    ) {
        let (mut world, _) = with_all_roles(json!({"verifier_validation_validity_period": {"value": 30}}));
        let genesis = world.clone();
        let mut blocks = Vec::new();
        for (kind, who, target, amount, jump) in steps {
            let corporation = ["a", "b", "c"][who];
            let (name, value, signer) = if kind >= 22 {
                session(&world, target, amount)
            } else {
                let (name, value) = message(&world, kind, corporation, target, amount);
                let value = world.operator_message(corporation, &name, &value);
                (name, value, operator(corporation))
            };
            if jump == 0 {
                world.block_seconds += 86_400;
            }
            // The block itself can change the state: it prunes an expired allowance and closes a vote.
            let mut idle = world.clone();
            idle.run_block(&[]);
            let bytes = world.sign(signer, &world.unsigned(signer, vec![world.pack(&name, &value)]));
            let outcome = world.run_block(std::slice::from_ref(&bytes)).remove(0);
            if outcome.code != 0 && !outcome.log.starts_with("failed to execute message") {
                prop_assert_eq!(world.state.hash(), idle.state.hash(), "refused before its messages: {}", outcome.log);
            }
            blocks.push((world.block(), bytes));
        }
        let mut replayed = genesis.state;
        for (block, bytes) in blocks {
            begin_block(&mut replayed, &world.chain, block);
            deliver(&mut replayed, &world.chain, block, &bytes);
            end_block(&mut replayed, &world.chain, block);
        }
        prop_assert_eq!(replayed.hash(), world.state.hash());
        // Another chain can begin with the same state.
        let app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
        let genesis = GenesisState { app_state: Some(app_state), ..GenesisState::default() };
        prop_assert_eq!(genesis.build_state(&world.chain).expect("a state").hash(), world.state.hash());
    }
}

/// Most of these messages are refused; the property has little value unless enough are accepted.
#[test]
fn random_messages_are_accepted_often_enough_to_matter() {
    let (mut world, _) = with_all_roles(json!({"verifier_validation_validity_period": {"value": 30}}));
    let mut accepted = 0;
    for kind in 0..22 {
        for target in 0..6 {
            let (name, value) = message(&world, kind, ["a", "b", "c"][target % 3], target as u64, 7 + target as u64);
            let corporation = ["a", "b", "c"][target % 3];
            let value = world.operator_message(corporation, &name, &value);
            accepted += u32::from(world.send_message(operator(corporation), &name, &value).code == 0);
        }
    }
    assert!(accepted > 25, "{accepted}");
}
