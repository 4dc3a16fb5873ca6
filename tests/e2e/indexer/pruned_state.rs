//! Nodes that have blocks and no state of them: the index says so, and never takes it for an empty registry.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use svc_devnet::{Devnet, node::Node, scenario::Scenario};
use svc_indexer::{Indexer, IndexerConfig, verify_index};
use svc_net::upstream::UpstreamOrigins;

use super::{
    super::harness::TEST_TIMEOUT, IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, produce_blocks, read_at,
    read_ok, read_ok_at, start_chain_and_indexer,
};

/// Reads of the current state that do not depend on the height at which the index began.
pub const STATE_READS: [&str; 8] = [
    "/v4/corporation/list?gf_data=all",
    "/v4/delegation/operator-authorizations",
    "/v4/delegation/vs-operator-authorizations",
    "/v4/exchange-rate/list",
    "/v4/group/get/1",
    "/v4/trust-deposit/get/2",
    "/v4/participant/participant-session/6ba7b810-9dad-41d1-80b4-00c04fd430c8",
    "/v4/stats/count-participants?entity_kind=0&role_type=0",
];

fn keep_states(node: &Node, count: u64) {
    node.update_faults(|faults| faults.kept_states = count);
}

/// Makes blocks with a digest each, that of a number.
pub async fn store_digests(devnet: &Devnet, numbers: std::ops::Range<u8>) {
    let step = |number: u8| {
        let digest = format!("sha256-{}", STANDARD.encode([number; 32]));
        let value = json!({"authority": "$issuer", "operator": "$issuer_operator", "digest": digest});
        let messages = json!([{"type": "di.MsgStoreDigest", "value": value}]);
        json!({"name": format!("digest {number}"), "signer": "issuer_operator", "granter": "issuer", "messages": messages})
    };
    let steps: Vec<Value> = numbers.map(step).collect();
    let scenario: Scenario =
        serde_json::from_value(json!({"description": "Digests.", "step": steps})).expect("a scenario");
    devnet.run_steps(&scenario).await.expect("done");
}

async fn launch_error(config: IndexerConfig) -> String {
    Indexer::launch(config).await.err().expect("refused").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_begins_where_the_state_begins_and_has_every_entity() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let newest = produce_blocks(&grounds, 40).await;
    let (node, origin) = (&grounds.devnet.node, grounds.indexer_origin());
    keep_states(node, 30);
    let config = || IndexerConfig::new(node.origin(), "sqlite::memory:");
    let replica = IndexerReplica::launch(config()).await;
    await_indexed(&replica.origin, newest).await;
    for path in STATE_READS {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&origin, path).await, "{path}");
    }
    // The last 30 heights have their state, and a tenth of them is left out.
    let start = newest - 29 + 2;
    let list = read_ok_at(&replica.origin, "/v4/corporation/list", Some(start)).await;
    assert!(list["corporations"].as_array().is_some_and(|rows| !rows.is_empty()), "{list}");
    let below = read_at(&replica.origin, "/v4/corporation/list", Some(start - 1)).await;
    assert_eq!((below.status, &below.body["oldest_block_height"]), (410, &json!(start)), "{}", below.body);
    let error = launch_error(IndexerConfig { start_height: Some(1), ..config() }).await;
    let words = format!(
        "no node has block 1 with its state any more, the oldest that one has is {}: start there, or add a node to SVC_RPC that \
         has it",
        newest - 29
    );
    assert_eq!(error, words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_behind_the_horizon_asks_an_archive_node_or_stops_with_the_choices() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let (node, origin) = (grounds.devnet.node.clone(), grounds.indexer_origin());
    let archive = node.start_replica(([127, 0, 0, 1], 0).into()).expect("a replica");
    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let replica = IndexerReplica::launch(IndexerConfig::new(node.origin(), database.clone())).await;
    let before = produce_blocks(&grounds, 1).await;
    await_indexed(&replica.origin, before).await;

    // A running follower that is overtaken by the horizon is not healthy, and says why.
    keep_states(&node, 1);
    store_digests(&grounds.devnet, 1..21).await;
    let stuck = async {
        loop {
            let health = reqwest::get(format!("{}/healthz", replica.origin)).await.expect("answered").status();
            let status = read_at(&replica.origin, "/v4/indexer/status", None).await.body;
            let message = status["last_error"]["message"].as_str().unwrap_or_default().to_owned();
            if health == 503 && message.contains("add an archive node to SVC_RPC") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, stuck).await.expect("it says why it is stuck");
    drop(replica);

    let both = UpstreamOrigins::from(node.origin()).with_origin(archive.origin());
    let replica = IndexerReplica::launch(IndexerConfig::new(both.clone(), database)).await;
    let newest = *node.watch_heights().borrow();
    await_indexed(&replica.origin, newest).await;
    // An empty store takes the whole chain from the archive, with every entity that is not there.
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("whole.db").display());
    let whole = IndexerConfig::new(both, database);
    let from_archive = IndexerReplica::launch(whole.clone()).await;
    await_indexed(&from_archive.origin, newest).await;
    let status = read_ok(&from_archive.origin, "/v4/indexer/status").await;
    assert_eq!(status["oldest_block_height"], 1, "{status}");
    for height in [newest / 2, newest] {
        let found = verify_index(&whole, Some(height)).await.expect("compared");
        assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
    }
    await_indexed(&origin, before).await;
    keep_states(&node, 0);
    await_indexed(&origin, newest).await;
    for height in before..=newest {
        let changes = async |origin: &str| read_ok_at(origin, "/v4/indexer/changes", Some(height)).await;
        assert_eq!(changes(&origin).await, changes(&replica.origin).await, "{height}");
    }
    for path in STATE_READS {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&origin, path).await, "{path}");
    }
}
