//! Changes by block: the kinds and ids of `indexer/changes`, the times of an answer, and the DIDs of
//! `verifiable-trust/changes`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{await_verdicts, read_at, read_ok, read_ok_at, start_chain_and_indexer};

/// The kinds that clients of `indexer/changes` know.
const KNOWN_KINDS: [&str; 8] = [
    "CredentialSchema",
    "Ecosystem",
    "GlobalVariables",
    "GovernanceFrameworkDocument",
    "GovernanceFrameworkVersion",
    "Participant",
    "ParticipantSession",
    "TrustDeposit",
];

/// Returns all changes of a chain by height.
async fn all_changes(origin: &str) -> BTreeMap<u64, Vec<Value>> {
    let newest = read_ok(origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    let mut found = BTreeMap::new();
    for height in 1..=newest {
        let block = read_ok_at(origin, "/v4/indexer/changes", Some(height)).await;
        found.insert(height, block["activity"].as_array().expect("activity").clone());
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_block_have_the_kinds_and_ids_of_the_contract() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let changes: Vec<Value> = all_changes(&origin).await.into_values().flatten().collect();
    let kinds: BTreeSet<&str> = changes.iter().filter_map(|change| change["entity_type"].as_str()).collect();
    for kind in KNOWN_KINDS {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    let of_kind = |kind: &'static str| changes.iter().filter(move |change| change["entity_type"] == kind);
    let key = |change: &Value| change["entity_id"].as_str().expect("a text").to_owned();
    for change in of_kind("TrustDeposit") {
        assert!(key(change).starts_with("svc1"), "a deposit has the account of its corporation: {change}");
    }
    let modules: BTreeSet<String> = of_kind("GlobalVariables").map(key).collect();
    assert!(modules.contains("td") && modules.iter().all(|module| module.len() == 2), "{modules:?}");
    // Each version and each document appears with the message that made it; a version does not repeat its documents.
    for change in of_kind("GovernanceFrameworkVersion") {
        assert!(change["changes"].get("documents").is_none() && change["account"].is_string(), "{change}");
    }
    let documents: BTreeSet<String> = of_kind("GovernanceFrameworkDocument").map(key).collect();
    let mut expected = BTreeSet::new();
    for (list, wrapper) in [
        ("/v4/ecosystem/list?limit=1024&gf_data=all", "ecosystems"),
        ("/v4/corporation/list?limit=1024&gf_data=all", "corporations"),
    ] {
        let owners = read_ok(&origin, list).await;
        for owner in owners[wrapper].as_array().expect("owners") {
            for version in owner["versions"].as_array().expect("versions") {
                let ids = version["documents"].as_array().expect("documents").iter();
                expected.extend(ids.map(|document| document["id"].to_string()));
            }
        }
    }
    assert_eq!(documents, expected);

    let read = read_at(&origin, "/v4/indexer/changes", Some(1)).await;
    let time = |name: &str| {
        let text = read.headers.get(name).and_then(|value| value.to_str().ok()).expect("a header");
        assert_eq!(text.len(), 24, "{name}: {text}");
        svc_wire::timestamp::parse_rfc3339(text).expect("a time")
    };
    let (index, query) = (time("x-index-ts"), time("x-query-at"));
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["timestamp"].clone();
    assert_eq!(newest, svc_wire::timestamp::iso_seconds(&index));
    let now = prost_types::Timestamp::from(std::time::SystemTime::now());
    assert!((now.seconds - query.seconds).abs() < 600, "{query:?} is not the time of the request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_participant_names_the_ecosystem_above_it() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let changes = all_changes(&origin).await;
    await_verdicts(&origin, *changes.keys().last().expect("a block")).await;
    let listed = read_ok(&origin, "/v4/verifiable-trust/changes?fromBlock=1&limit=1000").await;
    let counted = "/v4/verifiable-trust/changes?fromBlock=1&limit=1000&channels=ecosystems";
    let without_counts = read_ok(&origin, counted).await;
    let with_counts = read_ok(&origin, &format!("{counted}&includeParticipantCounts=true")).await;
    let names = |list: &Value, height: u64, did: &str| {
        let block = list["blocks"].as_array().expect("blocks").iter().find(|block| block["block"] == height);
        let changes = block.and_then(|block| block["changes"].as_array()).cloned().unwrap_or_default();
        changes.iter().any(|change| change["did"] == did && change["ecosystems"] == true)
    };
    let (mut seen, mut only_counted) = (0, 0);
    for (height, rows) in changes {
        // The weight of a participant is no part of its ecosystem.
        let is_weight = |member: &String| matches!(member.as_str(), "deposit" | "modified");
        let changed = |row: &&Value| {
            let changes = row["changes"].as_object();
            row["entity_type"] == "Participant" && changes.is_some_and(|changes| !changes.keys().all(is_weight))
        };
        for row in rows.iter().filter(changed) {
            let id = row["entity_id"].as_str().expect("an id");
            let participant = read_ok_at(&origin, &format!("/v4/participant/get/{id}"), Some(height)).await;
            let ecosystem = &participant["participant"]["ecosystem_id"];
            let ecosystem = read_ok_at(&origin, &format!("/v4/ecosystem/get/{ecosystem}"), Some(height)).await;
            let did = ecosystem["ecosystem"]["did"].as_str().expect("a DID");
            assert!(names(&listed, height, did) && names(&with_counts, height, did), "{did} at {height}: {row}");
            seen += 1;
            only_counted += u32::from(!names(&without_counts, height, did));
        }
    }
    assert!(seen > 5 && only_counted > 0, "{seen} {only_counted}");
}
