//! Indexers that send nothing, send in bursts, or name blocks that they do not have yet.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::LocalNetworkConfig;
use svc_devnet::DevnetConfig;
use svc_operator::Operator;

use super::{
    super::harness::{TestNetwork, network_config, poll_until, start_network},
    foreign_indexers::{Disguise, IndexProxy, Passage, operator_config, operator_key, write},
};

/// Blocks come each 100 ms, so that twice the announced interval is less than the shortest silence, which is a second.
async fn start(disguise: Disguise) -> (TestNetwork, IndexProxy, Operator) {
    start_in(network_config(100), disguise).await
}

async fn start_in(config: LocalNetworkConfig, disguise: Disguise) -> (TestNetwork, IndexProxy, Operator) {
    let world = start_network(config).await;
    let (proxy, origin) = IndexProxy::start(world.network.indexer_origin(), disguise).await;
    let operator = Operator::boot(operator_config(&world, &[&origin]), operator_key()).await.expect("boots");
    (world, proxy, operator)
}

async fn link(operator: &Operator) -> Value {
    operator.status().await["indexer_ws"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocks_that_an_indexer_does_not_send_are_read_and_the_connection_is_renewed() {
    let (_world, proxy, operator) = start(Disguise::default()).await;
    assert!(write(&operator, "before").await.indexer_synced);
    let connections = proxy.connections();
    proxy.set_passage(Passage::None);
    for name in ["one", "two"] {
        let receipt = write(&operator, name).await;
        assert!(receipt.indexer_synced && receipt.indexer_height >= receipt.block_height, "{receipt:?}");
    }
    assert!(proxy.connections() > connections, "it connects again");
    proxy.set_passage(Passage::All);
    assert!(write(&operator, "after").await.indexer_synced);
    operator.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_that_nothing_comes_from_an_indexer_without_newer_blocks() {
    let config = LocalNetworkConfig {
        devnet: DevnetConfig { block_time: None, ..DevnetConfig::default() },
        ..LocalNetworkConfig::default()
    };
    let (world, proxy, operator) = start_in(config, Disguise::default()).await;
    poll_until("nothing comes", async || link(&operator).await["silent"] == true).await;
    assert_eq!(link(&operator).await["connected"], false);
    let connections = proxy.connections();
    world.network.devnet.node.produce_block().expect("a block");
    let is_live = async || {
        let link = link(&operator).await;
        (&link["silent"], &link["connected"]) == (&json!(false), &json!(true))
    };
    poll_until("blocks arrive", is_live).await;
    poll_until("nothing comes", async || link(&operator).await["silent"] == true).await;
    assert_eq!(proxy.connections(), connections, "the connection goes on");
    operator.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_indexer_that_sends_in_bursts_keeps_its_connection() {
    let (_world, proxy, operator) = start(Disguise::default()).await;
    assert!(write(&operator, "before").await.indexer_synced);
    let connections = proxy.connections();
    // Each burst comes after three times the silence.
    proxy.set_passage(Passage::Bursts(30));
    for name in ["one", "two"] {
        poll_until("nothing comes", async || link(&operator).await["silent"] == true).await;
        let receipt = write(&operator, name).await;
        assert!(receipt.indexer_synced && receipt.indexer_height >= receipt.block_height, "{receipt:?}");
    }
    assert_eq!(proxy.connections(), connections);
    operator.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_an_indexer_of_another_make_only_names_does_not_count() {
    let (world, proxy, operator) = start(Disguise { hides_blocks: true, lead: 10_000, ..Disguise::default() }).await;
    for name in ["one", "two"] {
        let receipt = write(&operator, name).await;
        assert!(receipt.indexer_synced, "{receipt:?}");
        let height = link(&operator).await["last_height"].as_u64();
        assert!(height.is_some_and(|height| height <= world.height()), "{height:?}");
        // The next connection catches up with pages of events.
        let connections = proxy.connections();
        proxy.lead_to(world.network.indexer_origin());
        poll_until("it connects again", async || proxy.connections() > connections).await;
    }
    operator.shutdown(Duration::from_secs(5)).await;
}
