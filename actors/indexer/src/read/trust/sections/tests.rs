use super::*;
use crate::{
    read::test_reader::{at, block, reader as reader_of, time},
    store::EntityChange,
};

const OWN: &str = "did:web:corporation";
const ECOSYSTEM: &str = "did:web:ecosystem";

fn framework(active: u64) -> Value {
    let version = |number: u64| {
        json!({
            "id": number, "version": number, "active_since": if number <= active { json!(time(number)) } else { Value::Null },
            "documents": [{"id": 1, "language": "en", "url": format!("https://f/{number}"), "digest_sri": "sha384-x"}],
        })
    };
    json!([version(1), version(2), version(3)])
}

fn corporation(did: &str, active: u64) -> EntityChange {
    let body = json!({
        "id": 7, "did": did, "policy_address": "svc1policy", "active_version": active, "versions": framework(active),
    });
    EntityChange { did: Some(did.to_owned()), ..EntityChange::new(EntityKind::Corporation, Some(7), Some(body)) }
}

fn deposit(body: Value) -> EntityChange {
    EntityChange { corporation_id: Some(7), ..EntityChange::new(EntityKind::TrustDeposit, Some(7), Some(body)) }
}

fn ecosystem(id: u64, archived: Value) -> EntityChange {
    let body = json!({
        "id": id, "did": ECOSYSTEM, "corporation_id": 7, "archived": archived, "active_version": 1,
        "versions": framework(1),
    });
    EntityChange {
        corporation_id: Some(7),
        did: Some(ECOSYSTEM.to_owned()),
        ..EntityChange::new(EntityKind::Ecosystem, Some(id), Some(body))
    }
}

fn schema(id: u64, archived: Value) -> EntityChange {
    let body = json!({"id": id, "ecosystem_id": 1, "json_schema": "{}", "archived": archived});
    EntityChange { parent_id: Some(1), ..EntityChange::new(EntityKind::Schema, Some(id), Some(body)) }
}

fn participant(id: u64, did: &str, rest: Value) -> EntityChange {
    let mut body = json!({
        "id": id, "did": did, "role": "ISSUER", "schema_id": 3, "ecosystem_id": 1, "corporation_id": 9,
        "vs_operator": null, "validator_participant_id": 2, "op_state": "VALIDATED", "effective_from": time(2),
    });
    for (key, value) in rest.as_object().expect("members") {
        body[key] = value.clone();
    }
    EntityChange {
        corporation_id: Some(9),
        parent_id: Some(3),
        did: Some(did.to_owned()),
        ..EntityChange::new(EntityKind::Participant, Some(id), Some(body))
    }
}

/// Three blocks: they create the entities, change them, and change the DID of the corporation.
async fn reader() -> IndexReader {
    let begun = vec![
        corporation(OWN, 1),
        deposit(json!({"deposit": 500, "slash_count": 0, "slashed_deposit": 0, "last_slashed": null})),
        ecosystem(1, Value::Null),
        ecosystem(2, Value::Null),
        schema(3, Value::Null),
        schema(4, Value::Null),
        participant(5, "did:web:service", json!({"effective_until": time(3), "vs_operator": "svc1vs"})),
        participant(6, "did:web:service", json!({"role": "VERIFIER", "validator_participant_id": null})),
    ];
    let figures = [
        (StatsScope::Participant(5), StatsMetric::Weight, 400),
        (StatsScope::Participant(5), StatsMetric::Issued, 2),
        (StatsScope::Participant(5), StatsMetric::ParticipantsHolder, 1),
        (StatsScope::Ecosystem(1), StatsMetric::ParticipantsIssuer, 1),
        (StatsScope::Schema(3), StatsMetric::Verified, 4),
    ];
    let moved = vec![
        corporation(OWN, 2),
        deposit(json!({"deposit": 400, "slash_count": 1, "slashed_deposit": 100, "last_slashed": time(3)})),
        ecosystem(2, time(3).into()),
        schema(4, time(3).into()),
        participant(6, "did:web:service", json!({"role": "VERIFIER", "revoked": time(3)})),
    ];
    reader_of(&[
        block(2, begun, &figures),
        block(3, moved, &[(StatsScope::Participant(5), StatsMetric::Issued, 3)]),
        block(4, vec![corporation("did:web:moved", 3)], &[]),
    ])
    .await
}

#[tokio::test]
async fn the_corporation_section_is_present_for_its_own_did_with_the_active_framework() {
    let reader = reader().await;
    let section = async |did: &str, id, height| reader.corporation_section(did, id, height).await.expect("reads");
    let framework = |version: u64| {
        json!({
            "version": version, "activeSince": time(version),
            "documents": [{"language": "en", "url": format!("https://f/{version}"), "digestSri": "sha384-x"}],
        })
    };
    let first = json!({"id": 7, "policyAddress": "svc1policy", "deposit": "500ucoin", "cgf": framework(1)});
    assert_eq!(section(OWN, 7, 2).await, Some(first));
    let second = json!({
        "id": 7, "policyAddress": "svc1policy", "deposit": "400ucoin", "slashedEvents": 1, "slashedValue": "100ucoin",
        "lastSlashedAtTime": time(3), "cgf": framework(2),
    });
    assert_eq!(section(OWN, 7, 3).await, Some(second), "the active version, although there is a third");
    // The section is absent for DIDs that the corporation owns, for a former DID, and before the corporation existed.
    for (did, id, height) in [(ECOSYSTEM, 7, 3), (OWN, 7, 4), (OWN, 7, 1), (OWN, 8, 3), (OWN, 0, 3)] {
        assert_eq!(section(did, id, height).await, None, "{did} {id} at {height}");
    }
    assert_eq!(section("did:web:moved", 7, 4).await.expect("shown")["cgf"], framework(3));
}

#[tokio::test]
async fn a_did_belongs_to_its_corporation_or_to_the_owner_of_an_entity_with_it() {
    let reader = reader().await;
    for (did, height, expected) in [
        (OWN, 2, 7),
        ("did:web:service", 2, 9),
        (ECOSYSTEM, 2, 7),
        ("did:web:nobody", 4, 0),
        (OWN, 4, 0),
        ("did:web:moved", 3, 0),
        (OWN, 1, 0),
    ] {
        assert_eq!(
            reader.store.find_owner(did, height).await.expect("reads").unwrap_or(0),
            expected,
            "{did} at {height}"
        );
    }
}

#[tokio::test]
async fn participations_are_those_of_the_height_in_the_requested_states() {
    use ParticipantState as S;
    let reader = reader().await;
    let section = async |states: &[S], height: u64| {
        reader.participations_section("did:web:service", states, height, at(height)).await.expect("reads")
    };
    let states = |rows: &[Value]| -> Vec<(u64, String)> {
        let pair =
            |row: &Value| (row["id"].as_u64().expect("an id"), row["state"].as_str().expect("a state").to_owned());
        rows.iter().map(pair).collect()
    };
    let none =
        json!({"ECOSYSTEM": 0, "ISSUER_GRANTOR": 0, "ISSUER": 0, "VERIFIER_GRANTOR": 0, "VERIFIER": 0, "HOLDER": 0});
    let mut one = none.clone();
    one["HOLDER"] = 1.into();
    let expected = json!([
        {
            "id": 5, "vsOperator": "svc1vs", "role": "ISSUER", "state": "ACTIVE", "credentialSchemaId": 3, "ecosystemId": 1,
            "weight": "400ucoin", "validatorParticipantId": 2, "participants": one, "issuedCredentials": 2,
            "verifiedCredentials": 0,
        },
        {
            "id": 6, "vsOperator": null, "role": "VERIFIER", "state": "ACTIVE", "credentialSchemaId": 3, "ecosystemId": 1,
            "weight": "0ucoin", "validatorParticipantId": null, "participants": none, "issuedCredentials": 0,
            "verifiedCredentials": 0,
        },
    ]);
    assert_eq!(Value::from(section(&[S::Active], 2).await), expected);
    assert_eq!(section(&[S::Active], 3).await, [] as [Value; 0]);
    let over = section(&[S::Revoked, S::Expired], 3).await;
    assert_eq!(states(&over), [(5, "EXPIRED".to_owned()), (6, "REVOKED".to_owned())]);
    assert_eq!(over[0]["issuedCredentials"], 5, "measures are of the height too");
    assert_eq!(section(&S::ALL, 1).await, [] as [Value; 0]);
    assert_eq!(section(&[], 3).await, [] as [Value; 0]);
    // The state is derived at the instant.
    let later = reader.participations_section("did:web:service", &[S::Future], 2, at(1)).await.expect("reads");
    assert_eq!(states(&later), [(5, "FUTURE".to_owned()), (6, "FUTURE".to_owned())]);
}

#[tokio::test]
async fn ecosystems_have_their_framework_and_the_requested_schemas() {
    let reader = reader().await;
    let section = async |wanted: EcosystemSelector, height| {
        reader.ecosystems_section(ECOSYSTEM, &wanted, height).await.expect("reads")
    };
    let ids = |rows: &[Value]| -> Vec<u64> { rows.iter().filter_map(|row| row["id"].as_u64()).collect() };
    let (few, all) =
        (EcosystemSelector::default, |schemas| EcosystemSelector { includes_archived: true, schemas: Some(schemas) });
    assert_eq!(ids(&section(few(), 2).await), [1, 2]);
    let live = section(few(), 3).await;
    assert_eq!(ids(&live), [1]);
    let first = &live[0];
    assert_eq!((&first["corporationId"], &first["archived"]), (&json!(7), &json!(false)));
    assert_eq!((&first["egf"]["version"], &first["participants"]["ISSUER"]), (&json!(1), &json!(1)));
    assert_eq!((first.get("credentialSchemas"), &first["issuedCredentials"]), (None, &json!(0)));

    let every = section(all(SchemaSelector { includes_archived: true }), 3).await;
    assert_eq!((ids(&every), &every[1]["archived"]), (vec![1, 2], &json!(true)));
    let schemas = every[0]["credentialSchemas"].as_array().expect("schemas");
    assert_eq!(ids(schemas), [3, 4]);
    // `printf '{}' | openssl dgst -sha384 -binary | base64`
    let digest = "sha384-0qI7x4Pjqjj0AeE8dIhQUTfElUp/2IMx8Vl8X/cREdyAfHNwpbKCxtpUHFbt5p8w";
    assert_eq!((&schemas[0]["digestSri"], &schemas[0]["type"]), (&json!(digest), &json!("JsonSchema")));
    assert_eq!((&schemas[0]["verifiedCredentials"], &schemas[1]["archived"]), (&json!(4), &json!(true)));
    assert_eq!(every[1]["credentialSchemas"], json!([]));
    let live = section(all(SchemaSelector::default()), 3).await;
    assert_eq!(ids(live[0]["credentialSchemas"].as_array().expect("schemas")), [3]);
    assert_eq!(section(all(SchemaSelector::default()), 1).await, [] as [Value; 0]);
}
