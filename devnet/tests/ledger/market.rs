//! Worlds with participants: a owns the ecosystem, b grants, c issues and verifies.

use serde_json::{Value, json};

use super::{
    schema::schema,
    world::{World, ecosystem, with},
};

/// Corporation a with an ecosystem, a schema with these changes (id 1), and an effective root participant (id 1).
pub fn rooted(changes: Value) -> World {
    let mut world = World::new();
    world.act("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    world.act("a", "cs.MsgCreateCredentialSchema", schema(changes));
    root(&mut world, 1, json!({}));
    world
}

/// A root participant of a schema, effective when this returns.
pub fn root(world: &mut World, schema_id: u64, changes: Value) -> u64 {
    let base = json!({
        "schema_id": schema_id, "did": "did:web:a", "effective_from": world.at(5), "effective_until": world.at(100_000_000),
        "validation_fees": 1000, "issuance_fees": 100, "verification_fees": 200,
    });
    let id = world.create("a", "pp.MsgCreateRootParticipant", with(&base, &changes));
    world.advance(10);
    id
}

pub fn apply(world: &mut World, corporation: &str, role: &str, validator: u64, changes: Value) -> u64 {
    let base = json!({"role": role, "validator_participant_id": validator, "did": format!("did:web:{corporation}")});
    world.create(corporation, "pp.MsgStartParticipantOP", with(&base, &changes))
}

pub fn validate(world: &mut World, corporation: &str, id: u64, changes: Value) {
    world.act(corporation, "pp.MsgSetParticipantOPToValidated", with(&json!({"id": id}), &changes));
}

/// Ids of a chain of participants under schema 1.
pub struct Ids {
    pub grantor: u64,
    pub issuer: u64,
    pub verifier_grantor: u64,
    pub verifier: u64,
}

/// Everyone the grantor modes know: b grants, c issues and verifies with the VS operators `service` and `service2`.
pub fn staffed(changes: Value) -> (World, Ids) {
    let mut world = rooted(changes);
    let grantor = apply(&mut world, "b", "ISSUER_GRANTOR", 1, json!({}));
    let terms =
        json!({"validation_fees": 500, "issuance_fees": 50, "verification_fees": 70, "issuance_fee_discount": 2000});
    validate(&mut world, "a", grantor, terms);
    let session = "/svc.pp.v1.MsgCreateOrUpdateParticipantSession";
    let validated = "/svc.pp.v1.MsgSetParticipantOPToValidated";
    let issuer = apply(
        &mut world,
        "c",
        "ISSUER",
        grantor,
        json!({
            "vs_operator": super::world::account("service"), "vs_operator_authz_msg_types": [session, validated],
            "vs_operator_authz_with_feegrant": true,
        }),
    );
    validate(
        &mut world,
        "b",
        issuer,
        json!({"validation_fees": 10, "verification_fees": 30, "issuance_fee_discount": 1000}),
    );
    let verifier_grantor = apply(&mut world, "b", "VERIFIER_GRANTOR", 1, json!({}));
    validate(&mut world, "a", verifier_grantor, json!({"validation_fees": 400, "verification_fees": 80}));
    let verifier = apply(
        &mut world,
        "c",
        "VERIFIER",
        verifier_grantor,
        json!({
            "vs_operator": super::world::account("service2"), "vs_operator_authz_msg_types": [session],
        }),
    );
    validate(&mut world, "b", verifier, json!({}));
    (world, Ids { grantor, issuer, verifier_grantor, verifier })
}
