//! A chain that begins with the state of another one: no event announces the state of a genesis.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;
use svc_devnet::{Devnet, DevnetConfig};
use svc_indexer::{IndexerConfig, verify_index};

use super::{IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, produce_blocks, read_ok, start_chain_and_indexer};

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_the_genesis_is_in_the_index_from_its_first_block_on() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let newest = produce_blocks(&grounds, 1).await;
    let (state, time) = grounds.devnet.node.read_core(|core| {
        let time = core.latest().map(|block| block.time.seconds).unwrap_or_default();
        (core.state().clone(), time)
    });
    let config = DevnetConfig {
        block_time: None,
        scenario: "empty".to_owned(),
        initial_state: Some(Arc::new(state)),
        ..DevnetConfig::default()
    };
    let other = Devnet::launch(config).await.expect("starts");
    let began = other.node.read_core(|core| core.latest().map(|block| block.time.seconds).unwrap_or_default());
    // Participants begin and end with time: both chains have the same.
    other.node.advance_clock(Duration::from_secs(u64::try_from(time - began - 1).expect("later")));
    other.node.produce_block().expect("a block");

    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let config = IndexerConfig::new(other.node.origin(), database);
    let replica = IndexerReplica::launch(config.clone()).await;
    let height = *other.node.watch_heights().borrow();
    await_indexed(&replica.origin, height).await;
    await_indexed(&grounds.indexer_origin(), newest).await;
    // The sums over earlier blocks and the heights are those of each chain.
    let without_heights = |mut body: Value| {
        if let Some(object) = body.as_object_mut() {
            object.retain(|key, _| key != "block_height");
        }
        body
    };
    for path in [
        "/v4/corporation/list?gf_data=all",
        "/v4/corporation/get/1",
        "/v4/delegation/operator-authorizations",
        "/v4/delegation/vs-operator-authorizations",
        "/v4/exchange-rate/list",
        "/v4/group/get/1",
        "/v4/trust-deposit/get/2",
        "/v4/trust-deposit/params",
        "/v4/di/get/sha256-47DEQpj8HBSa%2B%2FTImW%2B5JCeuQeRkm5NMpJWZG3hSuFU%3D",
        "/v4/participant/participant-session/6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        "/v4/stats/count-participants?entity_kind=0&role_type=0",
    ] {
        let [own, other] = [read_ok(&grounds.indexer_origin(), path).await, read_ok(&replica.origin, path).await];
        assert_eq!(without_heights(own), without_heights(other), "{path}");
    }
    // The store numbers fee grants as it finds them.
    let grants = async |origin: &str| {
        let body = read_ok(origin, "/v4/delegation/fee-grants?limit=100").await;
        let pair = |one: &Value| (one["grantor_corporation_id"].to_string(), one["grantee"].to_string());
        body["fee_grants"].as_array().expect("a list").iter().map(pair).collect::<BTreeSet<_>>()
    };
    let (own, taken) = (grants(&grounds.indexer_origin()).await, grants(&replica.origin).await);
    assert!(own == taken && own.len() > 5, "{own:?} {taken:?}");
    let found = verify_index(&config, Some(1)).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
    assert!(found.entities > 60, "{} entities", found.entities);
}
