//! cs: credential schemas and their authorization policies; di: digests.

use serde_json::{Value, json};

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types},
    test_ledger::{DIGEST_SRI, TestLedger, account, ecosystem, merge_members, unregistered},
};

pub fn schema(changes: Value) -> Value {
    let period = |days: u32| json!({"value": days});
    let base = json!({
        "ecosystem_id": 1,
        "json_schema": r#"{"type":"object","$schema":"s","title":"T","description":"D","properties":{"b":{"maximum":1.50},"a":{}}}"#,
        "issuer_grantor_validation_validity_period": period(365),
        "verifier_grantor_validation_validity_period": period(365),
        "issuer_validation_validity_period": period(180),
        "verifier_validation_validity_period": period(0),
        "holder_validation_validity_period": period(30),
        "issuer_onboarding_mode": 3, "verifier_onboarding_mode": 3, "holder_onboarding_mode": 1,
        "pricing_asset_type": 2, "pricing_asset": "usvc", "digest_algorithm": "sha384",
    });
    merge_members(&base, &changes)
}

fn world() -> TestLedger {
    let mut world = TestLedger::new();
    world.send_as_operator("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    world
}

#[test]
fn create_credential_schema() {
    let mut world = world();
    let name = "cs.MsgCreateCredentialSchema";
    let good = schema(json!({}));
    let text = |value: Value| json!({"json_schema": value.to_string()});
    world.assert_refusals("a", name, &good, &[
        (json!({"corporation": "x"}), ("sdk", 7, "corporation")),
        (json!({"ecosystem_id": 0}), ("sdk", 18, "ecosystem_id")),
        (json!({"json_schema": "{"}), ("cs", 1103, "JSON schema")),
        (json!({"json_schema": "[]"}), ("cs", 1103, "not an object")),
        (text(json!({"type": "object"})), ("cs", 1103, "$schema")),
        (text(json!({"$schema": "s", "type": "array"})), ("cs", 1103, "type")),
        (text(json!({"$schema": "s", "type": "object", "title": ""})), ("cs", 1103, "title")),
        (text(json!({"$schema": "s", "type": "object", "title": "t"})), ("cs", 1103, "description")),
        (
            text(json!({"$schema": "s", "type": "object", "title": "t", "description": "d", "properties": {}})),
            ("cs", 1103, "properties"),
        ),
        (json!({"holder_validation_validity_period": null}), ("sdk", 18, "holder_validation_validity_period")),
        (json!({"issuer_onboarding_mode": 4}), ("sdk", 18, "issuer_onboarding_mode")),
        (json!({"verifier_onboarding_mode": 0}), ("sdk", 18, "verifier_onboarding_mode")),
        (json!({"holder_onboarding_mode": 3}), ("sdk", 18, "holder_onboarding_mode")),
        (json!({"pricing_asset_type": 4}), ("sdk", 18, "pricing_asset_type")),
        (json!({"pricing_asset_type": 1, "pricing_asset": "TU"}), ("sdk", 18, "pricing_asset")),
        (json!({"pricing_asset": "1bad"}), ("sdk", 18, "pricing_asset")),
        (json!({"pricing_asset_type": 3, "pricing_asset": "XXQ"}), ("sdk", 18, "pricing_asset")),
        (json!({"digest_algorithm": "md5"}), ("sdk", 18, "digest_algorithm")),
        (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
        (json!({"ecosystem_id": 9}), unregistered("ecosystem 9 not found")),
        (
            text(json!({"$schema": "s".repeat(8192), "type": "object", "title": "t", "description": "d", "properties": {"a": 1}})),
            unregistered("exceeds the maximum of 8192 bytes"),
        ),
        (json!({"issuer_validation_validity_period": {"value": 3651}}), unregistered("exceeds the maximum of 3650 days")),
    ]);
    world.assert_refusals("b", name, &good, &[(json!({}), unregistered("does not control"))]);
    let outcome = world.send_as_operator("a", name, good);
    assert_eq!(world.response(&outcome), json!({"id": "1"}));
    let stored = world.query("cs.GetCredentialSchema", json!({"id": 1}))["schema"].clone();
    assert_has(
        &stored,
        &json!({
            "ecosystem_id": "1", "created": world.time_at(0), "archived": null, "issuer_validation_validity_period": 180,
            "issuer_onboarding_mode": "ISSUER_ONBOARDING_MODE_GRANTOR_ONBOARDING_PROCESS", "pricing_asset": "usvc",
            "json_schema": r#"{"$id":"vpr:svc:test-1:cs:1","$schema":"s","description":"D","properties":{"a":{},"b":{"maximum":1.5}},"title":"T","type":"object"}"#,
        }),
    );
    assert_event(
        &outcome,
        "create_credential_schema",
        &[
            ("credential_schema_id", "1"),
            ("ecosystem_id", "1"),
            ("corporation", &world.saved_names["a"].clone()),
            ("operator", &account("alice")),
            ("issuer_grantor_validation_validity_period", "365"),
            ("verifier_grantor_validation_validity_period", "365"),
            ("issuer_validation_validity_period", "180"),
            ("verifier_validation_validity_period", "0"),
            ("holder_validation_validity_period", "30"),
            ("pricing_asset_type", "2"),
            ("pricing_asset", "usvc"),
            ("digest_algorithm", "sha384"),
            ("timestamp", &world.time_at(0)),
        ],
    );
}

#[test]
fn update_and_archive_credential_schema() {
    let mut world = world();
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(json!({})));
    let name = "cs.MsgUpdateCredentialSchema";
    let period = json!({"value": 10});
    let good = json!({
        "id": 1, "issuer_grantor_validation_validity_period": period, "verifier_grantor_validation_validity_period": period,
        "issuer_validation_validity_period": period, "verifier_validation_validity_period": period,
        "holder_validation_validity_period": period,
    });
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"id": 0}), ("sdk", 18, "id")),
            (json!({"issuer_validation_validity_period": null}), ("sdk", 18, "issuer_validation_validity_period")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization check failed: ")),
            (json!({"id": 9}), unregistered("credential schema 9 not found")),
            (json!({"holder_validation_validity_period": {"value": 4000}}), unregistered("exceeds the maximum")),
        ],
    );
    world.assert_refusals("b", name, &good, &[(json!({}), unregistered("does not control"))]);
    let outcome = world.send_as_operator("a", name, good);
    assert_eq!(event_types(&outcome), ["message", "update_credential_schema"]);
    let stored = world.query("cs.GetCredentialSchema", json!({"id": 1}))["schema"].clone();
    assert_has(&stored, &json!({"verifier_validation_validity_period": 10, "modified": world.time_at(0)}));

    let name = "cs.MsgArchiveCredentialSchema";
    let good = json!({"id": 1, "archive": true});
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"id": 0}), unregistered("credential schema 0 not found")),
            (json!({"id": 9}), unregistered("credential schema 9 not found")),
            (json!({"archive": false}), unregistered("already unarchived")),
        ],
    );
    world.assert_refusals("c", name, &good, &[(json!({}), unregistered("does not control"))]);
    let outcome = world.send_as_operator("a", name, good.clone());
    assert_event(
        &outcome,
        "archive_credential_schema",
        &[
            ("credential_schema_id", "1"),
            ("ecosystem_id", "1"),
            ("corporation", &world.saved_names["a"].clone()),
            ("operator", &account("alice")),
            ("archive_status", "archived"),
            ("timestamp", &world.time_at(0)),
        ],
    );
    world.assert_refusals("a", name, &good, &[(json!({}), unregistered("already archived"))]);
    assert_eq!(world.query("cs.ListCredentialSchemas", json!({"only_active": true}))["schemas"], json!([]));
}

#[test]
fn schema_authorization_policies_have_drafts_and_versions() {
    let mut world = world();
    world.send_as_operator("a", "cs.MsgCreateCredentialSchema", schema(json!({})));
    let [create, increase, revoke] = [
        "cs.MsgCreateSchemaAuthorizationPolicy",
        "cs.MsgIncreaseActiveSchemaAuthorizationPolicyVersion",
        "cs.MsgRevokeSchemaAuthorizationPolicy",
    ];
    let subject = json!({"schema_id": 1, "role": "ISSUER"});
    let draft = merge_members(&subject, &json!({"url": "urn:policy:1", "digest_sri": DIGEST_SRI}));
    world.assert_refusals(
        "a",
        create,
        &draft,
        &[
            (json!({"schema_id": 0}), unregistered("schema_id")),
            (json!({"role": 0}), unregistered("role")),
            (json!({"url": "policy"}), unregistered("URL")),
            (json!({"digest_sri": "x"}), unregistered("digest")),
            (json!({"schema_id": 9}), unregistered("credential schema 9 not found")),
        ],
    );
    world.assert_refusals("b", create, &draft, &[(json!({}), unregistered("does not control"))]);
    world.assert_refusals("a", increase, &subject, &[(json!({}), unregistered("no draft"))]);
    assert_eq!(world.create_entity("a", create, draft.clone()), 1);
    assert_eq!(
        world.create_entity("a", create, merge_members(&draft, &json!({"url": "urn:policy:2"}))),
        1,
        "the draft is overwritten"
    );
    world.assert_refusals(
        "a",
        revoke,
        &merge_members(&subject, &json!({"version": 1})),
        &[
            (json!({}), unregistered("not effective")),
            (json!({"version": 2}), unregistered("not found")),
            (json!({"version": 0}), unregistered("version")),
        ],
    );
    let outcome = world.send_as_operator("a", increase, subject.clone());
    assert_eq!(attribute(&outcome, "increase_active_schema_authorization_policy_version", "new_active_version"), "1");
    assert_eq!(world.create_entity("a", create, draft), 2);
    world.send_as_operator("a", increase, subject.clone());
    let listed = world.query("cs.ListSchemaAuthorizationPolicies", subject.clone())["policies"].clone();
    assert_eq!(
        (&listed[0]["effective_until"], &listed[1]["effective_from"]),
        (&json!(world.time_at(0)), &json!(world.time_at(0)))
    );
    let outcome = world.send_as_operator("a", revoke, merge_members(&subject, &json!({"version": 2})));
    assert_event(
        &outcome,
        "revoke_schema_authorization_policy",
        &[
            ("id", "2"),
            ("schema_id", "1"),
            ("role", "SCHEMA_AUTHORIZATION_POLICY_ROLE_ISSUER"),
            ("version", "2"),
            ("corporation", &world.saved_names["a"].clone()),
            ("operator", &account("alice")),
        ],
    );
    world.assert_refusals(
        "a",
        revoke,
        &merge_members(&subject, &json!({"version": 2})),
        &[(json!({}), unregistered("already revoked"))],
    );
}

#[test]
fn store_digest() {
    let mut world = TestLedger::new();
    let name = "di.MsgStoreDigest";
    let good = json!({"digest": DIGEST_SRI});
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"authority": "x"}), unregistered("authority")),
            (json!({"digest": ""}), ("di", 1101, "empty")),
            (json!({"digest": format!("sha256-{}", "A".repeat(256))}), ("sdk", 18, "256 bytes")),
            (json!({"digest": "sha1-AA"}), ("sdk", 18, "SRI")),
            (json!({"authority": account("stranger")}), ("co", 1101, "authorization check failed: ")),
        ],
    );
    world.assert_refusals_by("a", "bob", name, &good, &[(json!({}), ("de", 1105, "authorization check failed: "))]);
    let outcome = world.send_as_operator("a", name, good.clone());
    let stamp = world.time_at(0);
    assert_event(
        &outcome,
        "store_digest",
        &[
            ("corporation", &world.saved_names["a"].clone()),
            ("digest", DIGEST_SRI),
            ("source", "msg"),
            ("timestamp", &stamp),
            ("operator", &account("alice")),
        ],
    );
    let again = world.send_as_operator("b", name, good);
    assert_eq!(
        event_types(&again),
        ["message"],
        "a digest that is there already is a silent success, whoever stored it"
    );
    let stored = world.query("di.GetDigest", json!({"digest": DIGEST_SRI}));
    assert_eq!(stored["digest"], json!({"digest": DIGEST_SRI, "created": stamp}));
}
