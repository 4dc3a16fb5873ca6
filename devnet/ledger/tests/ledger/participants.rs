//! Ledgers with participants: corporation a owns the ecosystem, b grants, c issues and verifies.

use serde_json::{Value, json};

use super::{
    schema::schema,
    test_ledger::{TestLedger, ecosystem, merge_members},
};

/// Creates an ecosystem of corporation a, a schema with these changes (id 1), and an effective root participant (id 1).
pub fn with_root_participant(changes: Value) -> TestLedger {
    let mut world = TestLedger::new();
    world.send_as_operator("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(changes));
    create_root(&mut world, 1, json!({}));
    world
}

/// Creates a root participant of a schema; it is effective on return.
pub fn create_root(world: &mut TestLedger, schema_id: u64, changes: Value) -> u64 {
    let base = json!({
        "schema_id": schema_id, "did": "did:web:a", "effective_from": world.time_at(5), "effective_until": world.time_at(100_000_000),
        "validation_fees": 1000, "issuance_fees": 100, "verification_fees": 200,
    });
    let id = world.create_entity("a", "pp.MsgCreateRootParticipant", merge_members(&base, &changes));
    world.advance(10);
    id
}

pub fn start_onboarding(world: &mut TestLedger, corporation: &str, role: &str, validator: u64, changes: Value) -> u64 {
    let base = json!({"role": role, "validator_participant_id": validator, "did": format!("did:web:{corporation}")});
    world.create_entity(corporation, "pp.MsgStartParticipantOP", merge_members(&base, &changes))
}

pub fn set_validated(world: &mut TestLedger, corporation: &str, id: u64, changes: Value) {
    world.send_as_operator(
        corporation,
        "pp.MsgSetParticipantOPToValidated",
        merge_members(&json!({"id": id}), &changes),
    );
}

/// Ids of the participants under schema 1.
pub struct ParticipantIds {
    pub grantor: u64,
    pub issuer: u64,
    pub verifier_grantor: u64,
    pub verifier: u64,
}

/// Creates a participant of every role: b grants, c issues and verifies with the VS operators `service` and `service2`.
pub fn with_all_roles(changes: Value) -> (TestLedger, ParticipantIds) {
    let mut world = with_root_participant(changes);
    let grantor = start_onboarding(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let terms =
        json!({"validation_fees": 500, "issuance_fees": 50, "verification_fees": 70, "issuance_fee_discount": 2000});
    set_validated(&mut world, "a", grantor, terms);
    let session = "/svc.pp.v1.MsgCreateOrUpdateParticipantSession";
    let validated = "/svc.pp.v1.MsgSetParticipantOPToValidated";
    let issuer = start_onboarding(
        &mut world,
        "c",
        "ISSUER",
        grantor,
        json!({
            "vs_operator": super::test_ledger::account("service"), "vs_operator_authz_msg_types": [session, validated],
            "vs_operator_authz_with_feegrant": true,
        }),
    );
    set_validated(
        &mut world,
        "b",
        issuer,
        json!({"validation_fees": 10, "verification_fees": 30, "issuance_fee_discount": 1000}),
    );
    let verifier_grantor = start_onboarding(&mut world, "b", "VERIFIER_GRANTOR", 1, json!({}));
    set_validated(&mut world, "a", verifier_grantor, json!({"validation_fees": 400, "verification_fees": 80}));
    let verifier = start_onboarding(
        &mut world,
        "c",
        "VERIFIER",
        verifier_grantor,
        json!({
            "vs_operator": super::test_ledger::account("service2"), "vs_operator_authz_msg_types": [session],
        }),
    );
    set_validated(&mut world, "b", verifier, json!({}));
    (world, ParticipantIds { grantor, issuer, verifier_grantor, verifier })
}
