//! Every read answers as its row of the table specifies: wrapper, fields, types and nulls, in the present and at a past
//! height.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_indexer::read_endpoints;
use svc_wire::indexer_reads::{HttpMethod, ReadEndpoint, ResponseLayout};

use super::{ReadResponse, post_at, read_at, read_ok_at, start_chain_and_indexer};

/// Fields of the table without a parameter of this chain: the chain reserved their numbers.
const RESERVED: [&str; 2] = ["ecosystem_trust_deposit", "credential_schema_trust_deposit"];

/// A valid request for each operation.
pub fn sample_query(operation: &str, grounds: &ChainAndIndexer) -> String {
    let id = |name: &str| {
        grounds.devnet.saved_values.get(name).unwrap_or_else(|| panic!("the scenario has no {name}")).clone()
    };
    let member = &grounds.devnet.accounts["member"].address;
    match operation {
        "co.getCorporation" => format!("/v4/corporation/get/{}?trust_data=summary", id("grantor_id")),
        "co.getCorporationHistory" => format!("/v4/corporation/history/{}", id("registry_id")),
        "es.getEcosystem" => format!("/v4/ecosystem/get/{}?gf_data=all&trust_data=full", id("education")),
        "es.getEcosystemHistory" => format!("/v4/ecosystem/history/{}", id("education")),
        "gf.getGovernanceFrameworkVersion" => "/v4/governance-framework/get/1".to_owned(),
        "gf.listGovernanceFrameworkVersions" => {
            format!("/v4/governance-framework/list?ecosystem_id={}", id("education"))
        }
        "cs.getCredentialSchema" => format!("/v4/credential-schema/get/{}", id("diploma")),
        "cs.getJsonSchema" => format!("/v4/credential-schema/js/{}", id("diploma")),
        "cs.getCredentialSchemaHistory" => format!("/v4/credential-schema/history/{}", id("diploma")),
        "pp.getParticipant" => format!("/v4/participant/get/{}?trust_data=full", id("diploma_issuer")),
        "pp.listParticipants" => "/v4/participant/list?trust_data=summary".to_owned(),
        "pp.pendingFlat" => format!("/v4/participant/pending/flat?corporation_id={}", id("registry_id")),
        "pp.findBeneficiaries" => format!(
            "/v4/participant/beneficiaries?issuer_participant_id={}&verifier_participant_id={}",
            id("diploma_issuer"),
            id("diploma_verifier")
        ),
        "pp.getParticipantSession" => {
            "/v4/participant/participant-session/6ba7b810-9dad-41d1-80b4-00c04fd430c8".to_owned()
        }
        "pp.getParticipantHistory" => format!("/v4/participant/history/{}", id("diploma_issuer")),
        "pp.getParticipantSessionHistory" => {
            "/v4/participant/participant-session-history/6ba7b810-9dad-41d1-80b4-00c04fd430c8".to_owned()
        }
        "td.getTrustDeposit" => format!("/v4/trust-deposit/get/{}", id("grantor_id")),
        "td.getTrustDepositHistory" => format!("/v4/trust-deposit/history/{}", id("grantor_id")),
        "de.getOperatorAuthorization" => "/v4/delegation/operator-authorization/1".to_owned(),
        "de.getVSOperatorAuthorization" => "/v4/delegation/vs-operator-authorization/1".to_owned(),
        "gr.getCorporationGroup" => format!("/v4/group/get/{}", id("registry_id")),
        "gr.listCorporationsByMember" => format!("/v4/group/corporations-by-member?account={member}"),
        "gr.getProposal" => "/v4/group/proposal/1".to_owned(),
        "gr.listVotes" => format!("/v4/group/votes?voter={member}"),
        "di.getDigest" => "/v4/di/get/sha256-47DEQpj8HBSa%2B%2FTImW%2B5JCeuQeRkm5NMpJWZG3hSuFU%3D".to_owned(),
        "xr.getExchangeRate" => format!("/v4/exchange-rate/get?id={}", id("tu_rate")),
        "xr.getPrice" => {
            "/v4/exchange-rate/price?base_asset_type=TU&base_asset=tu&quote_asset_type=COIN&quote_asset=usvc&amount=7"
                .to_owned()
        }
        "stats.getStats" => "/v4/stats/get?id=1".to_owned(),
        "stats.getStatsRange" => "/v4/stats/stats?timestamp_from=2000-01-01T00:00:00Z\
             &timestamp_until=2100-01-01T00:00:00Z&entity_type=ECOSYSTEM&entity_ids=1,2"
            .to_owned(),
        "stats.countParticipants" => "/v4/stats/count-participants?entity_kind=1&entity_id=1&role_type=3".to_owned(),
        "stats.getStatsSnapshot" => "/v4/stats/snapshot?entity_type=ECOSYSTEM&entity_id=1".to_owned(),
        "vt.listChanges" => "/v4/verifiable-trust/changes?fromBlock=1".to_owned(),
        "indexer.getSnapshot" => "/v4/indexer/snapshot?did=did:web:education.devnet.example".to_owned(),
        other => {
            let endpoint = read_endpoints()
                .expect("the table of reads")
                .iter()
                .find(|endpoint| endpoint.operation == other)
                .expect("in the table");
            assert!(!endpoint.path.contains('{'), "{other} needs a question");
            endpoint.path.clone()
        }
    }
}

/// Returns the body of a request with a complete answer, for each operation with a body.
fn body(operation: &str, grounds: &ChainAndIndexer) -> Value {
    let [education, registry, issuer] =
        ["education", "registry", "issuer"].map(|name| format!("did:web:{name}.devnet.example"));
    let resource = format!("vpr:svc:svc-devnet-1:cs:{}", grounds.devnet.saved_values["diploma"]);
    match operation {
        // The answer for a future time has a remark.
        "trqp.authorize" => json!({
            "authority_id": education, "entity_id": issuer, "action": "issue", "resource": resource,
            "context": {"time": "2100-01-01T00:00:00Z"},
        }),
        "trqp.recognize" => json!({
            "authority_id": registry, "entity_id": education, "action": "govern", "resource": resource,
            "context": {"time": "2100-01-01T00:00:00Z"},
        }),
        "vt.resolve" => json!({
            "did": grounds.devnet.services.as_ref().map_or(education, |_| super::verdicts::did(grounds, "registrar")), "corporation": true,
            "ecsCredentials": true, "services": true, "participations": true, "ecosystems": {"credentialSchemas": true},
            "presentations": {"unresolvableCredentialIds": true, "invalidCredentialIds": true},
        }),
        other => panic!("{other} needs a body"),
    }
}

/// Sends the request of an operation.
pub async fn send_sample(
    origin: &str,
    endpoint: &ReadEndpoint,
    grounds: &ChainAndIndexer,
    at: Option<u64>,
) -> ReadResponse {
    match endpoint.method {
        HttpMethod::Get => read_at(origin, &sample_query(&endpoint.operation, grounds), at).await,
        HttpMethod::Post => post_at(origin, &endpoint.path, &body(&endpoint.operation, grounds), at).await,
    }
}

/// Returns all values at a dotted name; `None` for an absent one.
fn values_at<'a>(value: &'a Value, name: &str) -> Vec<Option<&'a Value>> {
    let (head, rest) = name.split_once('.').map_or((name, None), |(head, rest)| (head, Some(rest)));
    let (key, is_list) = head.strip_suffix("[]").map_or((head, false), |key| (key, true));
    let Some(found) = value.get(key) else { return vec![None] };
    let items: Vec<&Value> = match (is_list, found, rest) {
        (true, Value::Array(items), Some(_)) => items.iter().collect(),
        _ => vec![found],
    };
    match rest {
        None => items.into_iter().map(Some).collect(),
        Some(rest) => items.into_iter().flat_map(|item| values_at(item, rest)).collect(),
    }
}

fn is_instant(text: &str, length: usize) -> bool {
    text.len() == length && text.ends_with('Z') && svc_wire::timestamp::parse_rfc3339(text).is_some()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a value has a type of the table.
fn has_kind(value: &Value, kind: &str) -> bool {
    let text = value.as_str();
    match kind {
        "ISO ms" => text.is_some_and(|text| is_instant(text, 24)),
        kind if kind.starts_with("ISO") => text.is_some_and(|text| is_instant(text, 20) || is_instant(text, 24)),
        "boolean" => value.is_boolean(),
        "ratio 0..1" => value.as_f64().is_some_and(|ratio| (0.0..=1.0).contains(&ratio)),
        "enum" => text.is_some_and(|text| {
            text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                || text.bytes().all(|b| b.is_ascii_lowercase())
        }),
        "unsigned integer string" => text.is_some_and(is_digits),
        kind if kind.starts_with("constant ") => text == kind.strip_prefix("constant "),
        kind if kind.starts_with("uint64 number") || kind.starts_with("integer") => value.is_u64(),
        kind if kind.starts_with("decimal string") => text.is_some_and(|text| text.parse::<f64>().is_ok()),
        kind if kind.starts_with("number") && kind.contains("string") => value.is_number() || value.is_string(),
        kind if kind.starts_with("number") => value.is_number(),
        kind if kind.starts_with("array of {denom") => value.as_array().is_some_and(|coins| {
            coins.iter().all(|coin| coin["denom"].is_string() && coin["amount"].as_str().is_some_and(is_digits))
        }),
        kind if kind.starts_with("array") || kind.starts_with("raw history rows") => value.is_array(),
        kind if kind.starts_with("activity item") => value
            .as_array()
            .is_some_and(|items| items.iter().all(|item| item.get("id").is_none() && item["block_height"].is_string())),
        kind if kind.starts_with("object: timestamp") => {
            value.as_array().is_some_and(|items| items.iter().all(Value::is_object))
        }
        kind if kind.starts_with("object") => value.is_object(),
        "Participant" => {
            value.as_array().is_some_and(|items| items.iter().all(|item| item["participant_state"].is_string()))
        }
        "hex string" => text.is_some_and(|text| {
            text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_lowercase())
        }),
        kind if kind.contains("bech32") => text.is_some_and(|text| text.starts_with("svc1")),
        "string '<n>s'" => text.is_some_and(|text| text.ends_with('s')),
        kind if kind.contains("string") => value.is_string(),
        other => panic!("no rule for the type {other:?}"),
    }
}

/// Returns the members of a type description, each with whether it may be absent: `{id, role, state?, cgf?{version}}`.
fn shape_members(kind: &str) -> Vec<(String, bool)> {
    let Some((_, inner)) = kind.split_once('{') else { return Vec::new() };
    let mut depth = 0;
    let outer: String = inner
        .chars()
        .scan(&mut depth, |depth, letter| {
            match letter {
                '{' | '[' => **depth += 1,
                '}' | ']' => **depth -= 1,
                _ => {}
            }
            (**depth >= 0).then_some(if **depth == 0 { letter } else { '_' })
        })
        .collect();
    let read = |part: &str| {
        let name: String = part.trim().chars().take_while(char::is_ascii_alphabetic).collect();
        let is_optional = part.trim()[name.len()..].starts_with('?');
        (name, is_optional)
    };
    outer.split(',').map(read).collect()
}

/// Whether an object has exactly the members of a type description.
fn has_members(value: &Value, kind: &str) -> bool {
    let known = shape_members(kind);
    let Some(object) = value.as_object() else { return false };
    known.iter().all(|(name, is_optional)| *is_optional || object.contains_key(name))
        && object.keys().all(|key| known.iter().any(|(name, _)| name == key))
}

fn assert_shape(endpoint: &ReadEndpoint, at: Option<u64>, entity: &Value) {
    let operation = &endpoint.operation;
    if let [only] = endpoint.response.fields.as_slice()
        && only.name == "<item>"
    {
        assert!(has_kind(entity, &only.type_text), "{operation} at {at:?}: {entity} is not {}", only.type_text);
        return;
    }
    for field in &endpoint.response.fields {
        if field.name.starts_with('<') || RESERVED.contains(&field.name.as_str()) {
            continue;
        }
        for found in values_at(entity, &field.name) {
            match found {
                None => assert!(
                    field.optional || field.name.contains("[]."),
                    "{operation} at {at:?}: {} is absent",
                    field.name
                ),
                Some(Value::Null) => assert!(field.nullable, "{operation} at {at:?}: {} is null", field.name),
                Some(value) if endpoint.module() == "vt" && field.name.ends_with("[]") => {
                    let is_of_kind =
                        |item: &Value| !field.type_text.contains('{') || has_members(item, &field.type_text);
                    let items = value.as_array().unwrap_or_else(|| panic!("{operation}: {} is no list", field.name));
                    assert!(
                        items.iter().all(is_of_kind),
                        "{operation}: {} is {value}, not {}",
                        field.name,
                        field.type_text
                    );
                }
                Some(value) => {
                    let is_whole = endpoint.module() != "vt"
                        || !field.type_text.contains('{')
                        || has_members(value, &field.type_text);
                    assert!(is_whole, "{operation}: {} is {value}, not {}", field.name, field.type_text);
                    // Weights are numbers in ecosystems and schemas, and texts in participants.
                    let kind =
                        if field.type_text.starts_with("number in get") { "number" } else { field.type_text.as_str() };
                    assert!(has_kind(value, kind), "{operation} at {at:?}: {} is {value}, not {kind}", field.name);
                }
            }
        }
    }
    let known: BTreeSet<&str> = endpoint
        .response
        .fields
        .iter()
        .map(|field| field.name.split(['.', '[']).next().unwrap_or_default())
        .chain(["block_height", "next_cursor", "active_ecosystems", "archived_ecosystems"])
        .collect();
    // The keys of parameters are those of the ledger.
    let is_open =
        operation.ends_with("Params") || endpoint.response.fields.iter().any(|field| field.name.starts_with('<'));
    for key in entity.as_object().expect("an object").keys() {
        let is_figure = key.starts_with("cumulative_") || key.starts_with("delta_");
        assert!(is_open || is_figure || known.contains(key.as_str()), "{operation}: {key} is in no row of the table");
    }
}

async fn every_row(grounds: &ChainAndIndexer, at: Option<u64>) {
    let origin = grounds.indexer_origin();
    for endpoint in read_endpoints().expect("the table of reads") {
        let (path, read) = (&endpoint.path, send_sample(&origin, endpoint, grounds, at).await);
        assert_eq!(read.status, 200, "{path} at {at:?}: {}", read.body);
        assert_eq!(
            read.headers.get("at-block-height").and_then(|value| value.to_str().ok()).map(str::to_owned),
            at.map(|at| at.to_string())
        );
        let body = read.body;
        if endpoint.operation.starts_with("trqp.") && endpoint.method == HttpMethod::Post {
            for optional in ["message", "svc"] {
                assert!(body.get(optional).is_some(), "{path}: the question should show {optional}: {body}");
            }
        }
        for field in &endpoint.response.top {
            let value = body.get(&field.name).unwrap_or_else(|| panic!("{path}: {} is absent", field.name));
            let is_right = (field.nullable && value.is_null()) || has_kind(value, &field.type_text);
            assert!(is_right, "{path}: {} is {value}", field.name);
        }
        let wrapper = endpoint.response.wrapper.as_deref();
        match (endpoint.response.kind, wrapper) {
            (ResponseLayout::Object, Some(wrapper)) => {
                assert_shape(endpoint, at, &body[wrapper]);
                assert!(body["block_height"].is_u64(), "{path}: which height it is about");
            }
            (ResponseLayout::Array, Some(wrapper)) => {
                let rows = body[wrapper].as_array().unwrap_or_else(|| panic!("{path}: no {wrapper}"));
                assert!(!rows.is_empty(), "{path} at {at:?}: an empty list shows nothing");
                rows.iter().for_each(|row| assert_shape(endpoint, at, row));
            }
            _ => assert_shape(endpoint, at, &body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_matches_its_row_of_the_table_now_and_in_the_past() {
    let grounds = start_chain_and_indexer("marketplace").await;
    // The first evaluations are at past heights by then.
    super::produce_blocks(&grounds, 2).await;
    let newest = read_ok_at(&grounds.indexer_origin(), "/v4/indexer/block-height", None).await["height"]
        .as_u64()
        .expect("a height");
    every_row(&grounds, None).await;
    every_row(&grounds, Some(newest)).await;
    // At this height all requested entities exist, and the last steps of the scenario are missing.
    every_row(&grounds, Some(newest - 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_is_served_and_names_every_path() {
    let grounds = start_chain_and_indexer("empty").await;
    let document = super::read_ok(&grounds.indexer_origin(), "/openapi.json").await;
    assert_eq!(
        document["paths"].as_object().map(serde_json::Map::len),
        Some(read_endpoints().expect("the table of reads").len())
    );
    assert_eq!(document["openapi"], "3.1.0");
}
