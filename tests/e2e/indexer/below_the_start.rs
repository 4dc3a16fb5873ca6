//! An index that begins in the middle of its chain names its oldest block where an answer lies below it: the unknown is never shown as absent.

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_devnet::node::RpcFailure;
use svc_indexer::{IndexerConfig, TrustConfig, read_endpoints};
use svc_net::host_policy::HostPolicy;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, ReadResponse, await_indexed, await_verdicts, produce_blocks,
    pruned_state::store_digests,
    read_at, read_ok,
    read_shapes::send_sample,
    start_chain_and_indexer,
    verdicts::{did, resolve},
};
use crate::e2e::harness::poll_until;

/// An index that begins with a block, of the chain of another one.
async fn launch_late(grounds: &ChainAndIndexer, start: u64) -> IndexerReplica {
    let essential_schemas = svc::network::essential_schemas(&grounds.devnet);
    let trust = TrustConfig { hosts: HostPolicy::AllowPrivate, essential_schemas, wait_limit: None, patience: None };
    let late = IndexerConfig {
        trust,
        start_height: Some(start),
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let replica = IndexerReplica::launch(late).await;
    let newest = *grounds.devnet.node.watch_heights().borrow();
    await_indexed(&replica.origin, newest).await;
    await_verdicts(&replica.origin, newest).await;
    replica
}

/// Asserts that an answer has exactly the members of the contract.
fn assert_not_indexed(answer: &ReadResponse, oldest: u64, words: &str) {
    let text = answer.body["error"].as_str().unwrap_or_else(|| panic!("{words}: {}", answer.body));
    let expected = json!({"error": text, "code": 410, "reason": "HEIGHT_NOT_INDEXED", "oldest_block_height": oldest});
    assert_eq!((answer.status, answer.body.to_string()), (410, expected.to_string()), "{words}");
    assert!(text.ends_with(&format!("the oldest indexed height is {oldest}")), "{words}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_below_the_oldest_height_is_410_with_that_height() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let newest = produce_blocks(&grounds, 3).await;
    let oldest = newest - 2;
    let late = launch_late(&grounds, oldest).await;
    let mut refused = 0;
    for endpoint in read_endpoints().expect("the table of reads") {
        for height in [0, 1, oldest - 1] {
            let answer = send_sample(&late.origin, endpoint, &grounds, Some(height)).await;
            if endpoint.has_height() {
                assert_not_indexed(&answer, oldest, &format!("{} at {height}", endpoint.operation));
                refused += 1;
            } else {
                assert_ne!(answer.status, 410, "{}: {}", endpoint.operation, answer.body);
            }
        }
        // The whole index has these heights, and the late one has its own.
        for (origin, height) in [(&grounds.indexer_origin(), oldest - 1), (&late.origin, oldest)] {
            let answer = send_sample(origin, endpoint, &grounds, Some(height)).await;
            // The first buckets of the late index begin below its oldest block.
            let has_sums = endpoint.operation.starts_with("stats.getStats") && origin == &late.origin;
            assert!(answer.status != 410 || has_sums, "{} at {height}: {}", endpoint.operation, answer.body);
        }
    }
    assert!(refused > 150, "{refused} reads");

    let get = async |path: &str| read_at(&late.origin, path, None).await;
    for height in [1, oldest - 1] {
        let path = format!("/v4/indexer/version?block_height={height}");
        assert_not_indexed(&get(&path).await, oldest, &path);
    }
    assert_eq!(get(&format!("/v4/indexer/version?block_height={oldest}")).await.status, 200);

    // Pages that begin with everything begin with the oldest block, and name it.
    for (path, begins) in [
        ("/v4/indexer/events?limit=5".to_owned(), true),
        ("/v4/indexer/events?after_block_height=0".to_owned(), true),
        (format!("/v4/indexer/events?after_block_height={}", oldest - 1), false),
        ("/v4/verifiable-trust/changes?fromBlock=0".to_owned(), true),
        ("/v4/verifiable-trust/changes?fromBlock=1".to_owned(), true),
        (format!("/v4/verifiable-trust/changes?fromBlock={oldest}"), false),
    ] {
        let page = read_ok(&late.origin, &path).await;
        let named = if begins { json!(oldest) } else { Value::Null };
        assert_eq!(page["oldest_block_height"], named, "{path}: {page}");
        let whole = read_ok(&grounds.indexer_origin(), &path).await;
        assert_eq!(whole.get("oldest_block_height"), None, "{path}");
    }
    for path in [
        "/v4/indexer/events?after_block_height=1".to_owned(),
        format!("/v4/indexer/events?after_block_height={}", oldest - 2),
        format!("/v4/indexer/events?cursor={}.0", oldest - 1),
        "/v4/verifiable-trust/changes?fromBlock=2".to_owned(),
        format!("/v4/verifiable-trust/changes?fromBlock={}", oldest - 1),
        format!("/v4/verifiable-trust/dids?cursor={}.1", oldest - 1),
        "/v4/stats/stats?entity_type=GLOBAL&timestamp_from=2020-01-01T00:00:00Z&timestamp_until=2030-01-01T00:00:00Z"
            .to_owned(),
        "/v4/stats/get?granularity=MONTH&timestamp=2020-01-01T00:00:00Z&entity_type=GLOBAL".to_owned(),
    ] {
        assert_not_indexed(&get(&path).await, oldest, &path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_from_before_the_start_is_asked_of_the_node() {
    let grounds = start_chain_and_indexer("marketplace").await;
    let node = &grounds.devnet.node;
    store_digests(&grounds.devnet, 1..2).await;
    let origin = grounds.indexer_origin();
    let start = produce_blocks(&grounds, 3).await;
    let late = launch_late(&grounds, start).await;
    // Of every service: the digests of its credentials are older than the index.
    let judged = async || read_ok(&late.origin, "/v4/indexer/status").await["trust"]["dids_to_judge"] == 0;
    poll_until("all DIDs are judged", async || {
        produce_blocks(&grounds, 1).await;
        judged().await
    })
    .await;
    for name in ["harbor", "ferry"] {
        let did = did(&grounds, name);
        let [own, other] = [resolve(&late.origin, &did).await, resolve(&origin, &did).await];
        assert_eq!((&own["trusted"], &own["reasons"]), (&json!(true), &other["reasons"]), "{name}");
    }

    let known = "/v4/di/get/sha256-AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE%3D";
    let unknown = "/v4/di/get/sha256-AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI%3D";
    let newest = *node.watch_heights().borrow();
    await_indexed(&late.origin, newest).await;
    await_indexed(&origin, newest).await;
    let whole = read_ok(&origin, known).await;
    assert_eq!(whole["digest"]["digest"], "sha256-AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    for (at, kept_states) in [(None, 0), (Some(start), 0), (Some(start), 1)] {
        // The newest state tells the same, once the node has pruned that of the height.
        node.update_faults(|faults| faults.kept_states = kept_states);
        let found = read_at(&late.origin, known, at).await;
        assert_eq!((found.status, &found.body["digest"]), (200, &whole["digest"]), "{at:?}: {}", found.body);
        assert_eq!(read_at(&late.origin, unknown, at).await.status, 404, "{at:?}");
    }
    node.update_faults(|faults| {
        faults.kept_states = 0;
        let methods = vec!["abci_query".to_owned()];
        faults.fail_methods = Some(RpcFailure { times: 1_000, methods, data: "scripted".to_owned() });
    });
    for path in [known, unknown] {
        assert_not_indexed(&read_at(&late.origin, path, None).await, start, path);
    }
    // An index with all blocks asks no node.
    assert_eq!(read_at(&origin, unknown, None).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_without_the_genesis_does_not_begin_and_says_so() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let document = grounds.devnet.node.export_genesis().expect("exported");
    let other = super::genesis::chain_with_genesis(document).await;
    let methods = vec!["genesis_chunked".to_owned()];
    other.node.update_faults(|faults| {
        faults.fail_methods = Some(RpcFailure { times: 1_000, methods, data: "no genesis here".to_owned() });
    });
    let replica = IndexerReplica::launch(IndexerConfig::new(other.node.origin(), "sqlite::memory:")).await;
    poll_until("the status names the genesis", async || {
        let status = read_ok(&replica.origin, "/v4/indexer/status").await;
        let message = status["last_error"]["message"].as_str().unwrap_or_default();
        message.starts_with("block 1: the genesis document cannot be read") && status["is_crawling"] == false
    })
    .await;
    assert_eq!(reqwest::get(format!("{}/healthz", replica.origin)).await.expect("answered").status(), 503);
    assert_eq!(read_ok(&replica.origin, "/v4/indexer/block-height").await["height"], 0);
    other.node.update_faults(|faults| faults.fail_methods = None);
    await_indexed(&replica.origin, *other.node.watch_heights().borrow()).await;
}
