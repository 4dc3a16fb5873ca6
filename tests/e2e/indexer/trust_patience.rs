//! A web server that does not answer for some time is no verdict: the evaluation waits for it, and says so.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_indexer::{IndexerConfig, TrustConfig};
use svc_net::host_policy::HostPolicy;

use super::{
    IndexerReplica, SubscriptionSocket, await_verdicts, read_ok, start_chain_and_indexer,
    verdicts::{codes, did, next_trust_block, resolve, services, subscribe, trigger},
};

/// Subscribes to the verdicts on the harbor and on the ferry, for which the harbor vouches.
async fn subscribe_to_both(grounds: &ChainAndIndexer, origin: &str) -> SubscriptionSocket {
    await_verdicts(origin, height_of(grounds)).await;
    let dids = ["harbor", "ferry"].map(|name| did(grounds, name));
    subscribe(origin, json!({"action": "subscribe", "dids": dids, "channels": {"trust": true}})).await
}

fn height_of(grounds: &ChainAndIndexer) -> u64 {
    *grounds.devnet.node.watch_heights().borrow()
}

/// Produces blocks until one has changes, and returns them.
async fn next_changes(grounds: &ChainAndIndexer, stream: &mut SubscriptionSocket) -> Vec<Value> {
    loop {
        grounds.devnet.node.produce_block().expect("a block");
        let block = next_trust_block(stream, height_of(grounds)).await;
        let changes = block["changes"].as_array().expect("changes").clone();
        if !changes.is_empty() {
            return changes;
        }
    }
}

fn config_of(grounds: &ChainAndIndexer, database: &str, patience: Option<Duration>) -> IndexerConfig {
    let essential_schemas = svc::network::essential_schemas(&grounds.devnet);
    let wait_limit = Some(Duration::from_secs(60));
    let trust = TrustConfig { hosts: HostPolicy::AllowPrivate, essential_schemas, wait_limit, patience };
    IndexerConfig { trust, ..IndexerConfig::new(grounds.devnet.node.origin(), database) }
}

/// Launches another indexer. Blocks are produced until all DIDs are evaluated.
async fn launch_replica(grounds: &ChainAndIndexer, config: IndexerConfig) -> IndexerReplica {
    let replica = IndexerReplica::launch(config).await;
    loop {
        grounds.devnet.node.produce_block().expect("a block");
        await_verdicts(&replica.origin, height_of(grounds)).await;
        if read_ok(&replica.origin, "/v4/indexer/status").await["trust"]["dids_to_judge"] == 0 {
            return replica;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_did_stays_trusted_while_its_server_is_down() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let origin = grounds.indexer_origin();
    let (harbor, ferry) = (did(&grounds, "harbor"), did(&grounds, "ferry"));
    let mut stream = subscribe_to_both(&grounds, &origin).await;
    services(&grounds).refuse_pages("harbor", Some(503));
    let asked = trigger(&grounds, "harbor").await;
    assert_eq!(next_trust_block(&mut stream, asked).await["changes"], json!([]), "a hiccup is no verdict");
    let verdict = resolve(&origin, &harbor).await;
    assert_eq!((&verdict["trusted"], &verdict["pending"]["status"]), (&json!(true), &json!(503)), "{verdict}");
    assert!(verdict["evaluatedAtBlock"].as_u64() < Some(asked), "{verdict}");
    for member in ["since", "reason", "url", "tries", "nextTryAt"] {
        assert!(!verdict["pending"][member].is_null(), "{member}: {verdict}");
    }
    let child = resolve(&origin, &ferry).await;
    assert_eq!((&child["trusted"], &child["pending"]), (&json!(true), &verdict["pending"]), "with the harbor's clock");
    assert_eq!(resolve(&origin, &did(&grounds, "chamber")).await["pending"], Value::Null);
    let status = read_ok(&origin, "/v4/indexer/status").await;
    assert!(status["trust"]["open"].as_u64() > Some(0) && status["trust"]["oldest_open_since"].is_string(), "{status}");

    services(&grounds).refuse_pages("harbor", None);
    let changes = next_changes(&grounds, &mut stream).await;
    assert_eq!((changes.len(), &changes[0]["did"]), (1, &json!(harbor)), "{changes:?}");
    assert_eq!(
        (&changes[0]["trust"]["trusted"], &changes[0]["trust"]["evaluatedAtBlock"]),
        (&json!(true), &json!(asked))
    );
    for did in [&harbor, &ferry] {
        let verdict = resolve(&origin, did).await;
        assert_eq!((&verdict["trusted"], &verdict["pending"]), (&json!(true), &Value::Null), "{verdict}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_for_longer_than_the_patience_ends_the_trust() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let (harbor, ferry) = (did(&grounds, "harbor"), did(&grounds, "ferry"));
    let config = config_of(&grounds, "sqlite::memory:", Some(Duration::from_secs(1)));
    let replica = launch_replica(&grounds, config).await;
    let mut stream = subscribe_to_both(&grounds, &replica.origin).await;
    services(&grounds).refuse_pages("harbor", Some(503));
    let asked = trigger(&grounds, "harbor").await;
    assert_eq!(next_trust_block(&mut stream, asked).await["changes"], json!([]));
    let changes = next_changes(&grounds, &mut stream).await;
    let mut ended: Vec<_> = changes.iter().map(|change| change["did"].as_str().expect("a DID").to_owned()).collect();
    assert!(changes.iter().all(|change| change["trust"]["trusted"] == false), "{changes:?}");
    ended.sort_unstable();
    let mut both = [harbor.clone(), ferry.clone()];
    both.sort_unstable();
    assert_eq!(ended, both, "both close together");
    let verdict = resolve(&replica.origin, &harbor).await;
    assert_eq!((codes(&verdict), &verdict["pending"]), (vec!["did_unresolvable"], &Value::Null), "{verdict}");
    assert!(verdict["reasons"][0]["message"].as_str().is_some_and(|text| text.contains("503")), "{verdict}");
    let child = resolve(&replica.origin, &ferry).await;
    assert!(codes(&child).contains(&"did_unresolvable") && child["pending"].is_null(), "{child}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_trust_evaluation_survives_the_end_of_the_process() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let harbor = did(&grounds, "harbor");
    let replica = launch_replica(&grounds, config_of(&grounds, &database, None)).await;
    services(&grounds).refuse_pages("harbor", Some(503));
    let asked = trigger(&grounds, "harbor").await;
    await_verdicts(&replica.origin, asked).await;
    let since = resolve(&replica.origin, &harbor).await["pending"]["since"].clone();
    assert!(since.is_string(), "open");
    drop(replica);

    let replica = IndexerReplica::launch(config_of(&grounds, &database, None)).await;
    let verdict = resolve(&replica.origin, &harbor).await;
    assert_eq!((&verdict["trusted"], &verdict["pending"]["since"]), (&json!(true), &since), "{verdict}");
    services(&grounds).refuse_pages("harbor", None);
    let mut stream = subscribe_to_both(&grounds, &replica.origin).await;
    // Evidence that was fetched counts as new after a start: the ferry is evaluated too.
    let changes = next_changes(&grounds, &mut stream).await;
    assert!(changes.iter().all(|change| change["trust"]["trusted"] == true), "{changes:?}");
    let change = changes.iter().find(|change| change["did"] == harbor).expect("of the harbor");
    assert_eq!(change["trust"]["evaluatedAtBlock"], asked);
}
