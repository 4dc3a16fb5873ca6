//! The log of an agent's DID: one key signs its entries, also where the agent publishes both forms of proofs, and its recovery takes both forms of
//! a key's name.

use std::collections::BTreeSet;

use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_agent::{AgentStore, StoreKey, StoreKeys, StoreSettings};
use svc_trust::{
    did_document::ProofPurpose,
    digest::canonical_json,
    proof::{ProofKey, ProofSuite, add_proof},
};

use super::resolution::start_registry;
use crate::e2e::agent::{
    credentials::identity_process::{ask_until_ok, did_of, import_organisation, standalone, start_without_agents},
    processes::agent_process::AgentHome,
};
use crate::e2e::harness::poll_until;

const ROTATE: &str = "/v2/agent/keys/rotate";
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// The digest of an entry in the form of the log: base58 of a multihash, which never begins with a zero.
fn multihash(text: &str) -> String {
    let mut digits = vec![0_u32];
    for byte in [&[0x12, 0x20][..], &Sha256::digest(text.as_bytes())].concat() {
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            carry += *digit << 8;
            (*digit, carry) = (carry % 58, carry / 58);
        }
        while carry > 0 {
            digits.push(carry % 58);
            carry /= 58;
        }
    }
    digits.iter().rev().map(|digit| char::from(BASE58[*digit as usize])).collect()
}

fn entries(log: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(log).expect("a text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The key of an agent that signs entries of its log. The agent does not run.
async fn update_key(home: &AgentHome, did: &str) -> SigningKey {
    let url = format!("sqlite://{}?mode=rwc", home.path("agent.db").display());
    let keys = StoreKeys { current: StoreKey::from_bytes([1; 32]), previous: None };
    let store = AgentStore::open(StoreSettings { url, keys }).await.expect("opens");
    let found = store.private_keys(did).await.expect("keys").into_iter().rfind(|key| key.name == "update");
    store.close().await;
    SigningKey::from_bytes(&found.expect("a key of the log").secret)
}

/// The log with another entry of the same document, whose proof names the key in a form.
fn continued(log: &[u8], key: &SigningKey, method: &str) -> Vec<u8> {
    let all = entries(log);
    let last = all.last().expect("an entry");
    let time = svc_wire::timestamp::iso_seconds(&svc_kit::wall_clock::now());
    let mut entry =
        json!({"versionId": last["versionId"], "versionTime": time, "parameters": {}, "state": last["state"]});
    let hash = multihash(&canonical_json(&entry).expect("a canonical form"));
    entry["versionId"] = format!("{}-{hash}", all.len() + 1).into();
    let prover = ProofKey { verification_method: method.to_owned(), key: key.clone() };
    add_proof(&mut entry, &prover, ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, &time).expect("signed");
    entry["proof"] = json!([entry["proof"].take()]);
    [log.trim_ascii_end(), format!("\n{entry}\n").as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_proofs_leave_the_fragment_out_is_recovered_and_one_with_another_fragment_is_not() {
    let network = start_registry().await;
    let home = AgentHome::new(&network);
    let agent = home.start();
    let did = did_of(&agent).await;
    let log = home.published_log().await;
    assert!(agent.terminate().0);
    let key = update_key(&home, &did).await;
    let own = entries(&log)[0]["parameters"]["updateKeys"][0].as_str().expect("a key").to_owned();
    let other = "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
    // Two entries of one second are refused for their time.
    let last = entries(&log).last().and_then(|entry| entry["versionTime"].as_str().map(str::to_owned)).expect("a time");
    let now = || svc_wire::timestamp::iso_seconds(&svc_kit::wall_clock::now());
    poll_until("the next second has begun", async || now() > last).await;
    home.keep("agent.db", "before.db");
    home.keep("agent.head", "before.head");
    for (method, is_taken) in [
        (format!("did:key:{own}#{other}"), false),
        (format!("did:key:{other}#{own}"), false),
        (format!("did:key:{other}"), false),
        (format!("did:key:{own}#{own}"), true),
        (format!("did:key:{own}"), true),
    ] {
        home.restore("before.db");
        home.keep("before.head", "agent.head");
        let path = home.path("published.jsonl");
        std::fs::write(&path, continued(&log, &key, &method)).expect("written");
        let (is_ok, shown) = home.run(&["recover", "--json", "--log", path.to_str().expect("a text")]).await;
        assert_eq!(is_ok, is_taken, "{method}: {shown}");
        let words =
            if is_taken { format!("\"versions\": {}", entries(&log).len() + 1) } else { "not authorized".to_owned() };
        assert!(shown.contains(&words), "{method}: {shown}");
    }
    // The agent goes on with the log that names its key without a fragment.
    let agent = home.start();
    assert_eq!(agent.add("one").await.status, 200);
    assert!(agent.terminate().0);
}

/// The members of a relation of the document that an agent publishes.
async fn relation(home: &AgentHome, name: &str) -> BTreeSet<String> {
    let log = entries(&home.published_log().await);
    let document = &log.last().expect("an entry")["state"];
    let members = document[name].as_array().into_iter().flatten();
    members.map(|member| member.as_str().expect("an id").to_owned()).collect()
}

/// Asserts that relations have one key, in both of its forms, and returns the first.
async fn signing_key(home: &AgentHome) -> String {
    let signing = relation(home, "authentication").await;
    let first = signing.iter().find(|id| !id.ends_with("-2020")).expect("a Multikey").clone();
    assert_eq!(signing, BTreeSet::from([first.clone(), format!("{first}-2020")]));
    assert!(relation(home, "assertionMethod").await.is_superset(&signing));
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_did_that_publishes_both_forms_of_proofs_changes_and_recovers_its_log_by_one_key() {
    let world = start_without_agents().await;
    let mut home = standalone(&world);
    home.settings.insert("PUBLISHED_PROOFS", "both".to_owned());
    let agent = home.start();
    let did = did_of(&agent).await;
    world.network.devnet.admit_agents(&[("agent".to_owned(), did.clone())]).await.expect("admitted");
    import_organisation(&world, &agent, &did).await;
    let is_trusted = |verdict: &Value| verdict["trusted"] == true;
    world.await_verdict_on(&did, is_trusted).await;

    // Both forms of the old key leave, and both of the new one come.
    let old = signing_key(&home).await;
    ask_until_ok(&world, &agent, ROTATE, &json!({"kind": "update"})).await;
    ask_until_ok(&world, &agent, ROTATE, &json!({"kind": "document", "compromised": true})).await;
    let new = signing_key(&home).await;
    assert_ne!(new, old);
    let text = String::from_utf8(home.published_log().await).expect("a text");
    let newest = text.lines().last().expect("an entry");
    assert!(!newest.contains(&old), "{newest}");
    world.await_verdict_on(&did, is_trusted).await;
    // One key signs the entries, and it is none of the document's.
    let log = entries(text.as_bytes());
    let updates: Vec<&Value> =
        log.iter().map(|entry| &entry["parameters"]["updateKeys"]).filter(|all| all.is_array()).collect();
    assert!(
        updates.len() == 2 && updates.iter().all(|all| all.as_array().is_some_and(|all| all.len() == 1)),
        "{updates:?}"
    );
    assert!(log.iter().all(|entry| entry["proof"].as_array().is_some_and(|proofs| proofs.len() == 1)));
    assert!(updates.iter().all(|all| !new.ends_with(all[0].as_str().expect("a key"))));

    // A copy of the store goes on with the published log.
    assert!(agent.terminate().0);
    home.keep("agent.db", "backup.db");
    let agent = home.start();
    assert_eq!(agent.add("one").await.status, 200);
    let log = home.stop_with_log(agent).await;
    home.restore("backup.db");
    let (is_ok, shown) = home.run(&["recover", "--log", &log]).await;
    assert!(is_ok, "{shown}");
    let agent = home.start();
    assert_eq!(signing_key(&home).await, new);
    assert_eq!(agent.add("two").await.status, 200);
    world.await_verdict_on(&did, is_trusted).await;
    assert!(agent.terminate().0);
}
