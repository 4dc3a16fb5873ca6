//! Tests of replicas: following, gossip, lag.

use serde_json::{Value, json};
use svc_devnet::{
    Devnet,
    node::{Node, NodeError},
};

use super::harness::{WebSocketClient, base64, broadcast, call, call_ok, devnet, payment, sequence};

fn replica(devnet: &Devnet) -> Node {
    devnet.node.start_replica(([127, 0, 0, 1], 0).into()).expect("starts")
}

/// Produces a block and waits until these nodes have it.
async fn produce(devnet: &Devnet, followers: &[&Node]) -> u64 {
    let height = devnet.node.produce_block().expect("made").height;
    reached(height, followers).await;
    height
}

async fn reached(height: u64, followers: &[&Node]) {
    for node in followers {
        node.watch_heights().wait_for(|newest| *newest >= height).await.expect("runs");
    }
}

fn waiting(node: &Node) -> Vec<String> {
    node.read_core(|core| core.mempool_txs().map(|bytes| svc_wire::tx::tx_hash(bytes)).collect())
}

fn is_included(devnet: &Devnet, hash: &str) -> bool {
    devnet.node.read_core(|core| core.find_tx(hash).is_some())
}

async fn status_height(node: &Node) -> Value {
    call_ok(node, "status", json!({})).await["sync_info"]["latest_block_height"].clone()
}

#[tokio::test]
async fn a_replica_has_the_same_answers_and_survives_a_stop_of_the_leader() {
    let devnet = devnet("corporation").await;
    let early = payment(&devnet, 0, 1);
    broadcast(&devnet, &early).await;
    let replica = replica(&devnet);
    assert_eq!(waiting(&replica), std::slice::from_ref(&early.hash), "it learns of what waits");
    let height = produce(&devnet, &[&replica]).await;
    assert!(waiting(&replica).is_empty());
    for at in 1..=height {
        for method in ["block", "block_results", "commit"] {
            let params = json!({"height": at.to_string()});
            assert_eq!(
                call_ok(&replica, method, params.clone()).await,
                call_ok(&devnet, method, params).await,
                "{method} {at}"
            );
        }
    }
    let status = call_ok(&replica, "status", json!({})).await;
    assert_eq!(status, call_ok(&devnet, "status", json!({})).await);
    assert_eq!(status["sync_info"]["catching_up"], false);
    assert!(matches!(replica.produce_block(), Err(NodeError::Replica)));
    devnet.node.stop();
    assert_eq!(status_height(&replica).await, height.to_string());
    let late = payment(&devnet, 0, 2);
    assert_eq!(broadcast(&replica, &late).await["code"], 0);
    produce(&devnet, &[&replica]).await;
    assert!(is_included(&devnet, &late.hash));

    devnet.node.start().expect("starts");
    replica.stop();
    let height = devnet.node.produce_block().expect("made").height;
    assert!(replica.read_core(|core| core.height()) < height, "a stopped replica follows nobody");
    replica.start().expect("starts");
    reached(height, &[&replica]).await;
    assert_eq!(status_height(&replica).await, height.to_string());
}

#[tokio::test]
async fn transactions_are_gossiped_both_ways_unless_gossip_is_off() {
    let devnet = devnet("empty").await;
    let (first, second) = (replica(&devnet), replica(&devnet));
    let mut socket = WebSocketClient::connect(&first).await;
    socket.call("subscribe", json!({"query": "tm.event='Tx'"})).await;
    let tx = payment(&devnet, 0, 1);
    assert_eq!(broadcast(&first, &tx).await["code"], 0);
    for node in [&devnet.node, &first, &second] {
        assert_eq!(waiting(node), std::slice::from_ref(&tx.hash));
        let error = call(node, "broadcast_tx_sync", json!({"tx": base64(&tx.bytes)})).await.expect_err("known");
        assert_eq!(error["data"], "tx already exists in cache");
    }
    produce(&devnet, &[&first, &second]).await;
    assert!(is_included(&devnet, &tx.hash));
    assert_eq!(socket.next().await.expect("told")["result"]["events"]["tx.hash"], json!([tx.hash]));

    let tx = payment(&devnet, 0, 2);
    let commit = call(&first, "broadcast_tx_commit", json!({"tx": base64(&tx.bytes)}));
    let make = async {
        while waiting(&devnet.node).is_empty() {
            tokio::task::yield_now().await;
        }
        devnet.node.produce_block().expect("made").height
    };
    let (answer, height) = tokio::join!(commit, make);
    assert_eq!(answer.expect("committed")["height"], height.to_string());
    reached(height, &[&first, &second]).await;

    first.update_faults(|faults| faults.no_gossip = true);
    devnet.node.update_faults(|faults| faults.no_gossip = true);
    let (here, there) = (payment(&devnet, 0, 3), payment(&devnet, 0, 4));
    broadcast(&first, &here).await;
    broadcast(&devnet, &there).await;
    assert_eq!((waiting(&first), waiting(&devnet.node)), (vec![here.hash.clone()], vec![there.hash.clone()]));
    produce(&devnet, &[&first, &second]).await;
    assert!(is_included(&devnet, &there.hash) && !is_included(&devnet, &here.hash));
    for node in [&first, &second] {
        assert!(waiting(node).is_empty(), "its sequence is used");
    }
}

#[tokio::test]
async fn a_lagging_replica_answers_from_an_old_height() {
    let devnet = devnet("empty").await;
    let replica = replica(&devnet);
    devnet.node.update_faults(|faults| faults.no_gossip = true);
    replica.update_faults(|faults| faults.lag_blocks = 2);
    let mut socket = WebSocketClient::connect(&replica).await;
    socket.call("subscribe", json!({"query": "tm.event='NewBlockHeader'"})).await;
    let (used, stale) = (payment(&devnet, 0, 1), payment(&devnet, 0, 2));
    let before = sequence(&devnet, &devnet).await;
    devnet.node.produce_block().expect("made");
    broadcast(&devnet, &used).await;
    devnet.node.produce_block().expect("made");
    let newest = devnet.node.produce_block().expect("made").height;
    reached(newest - 2, &[&replica]).await;
    assert_eq!(status_height(&replica).await, (newest - 2).to_string());
    assert_eq!(call_ok(&replica, "status", json!({})).await["sync_info"]["catching_up"], true);
    assert_eq!((sequence(&devnet, &devnet).await, sequence(&replica, &devnet).await), (before + 1, before));
    assert_eq!(broadcast(&replica, &stale).await["code"], 0);
    assert_eq!((waiting(&replica), waiting(&devnet.node)), (vec![stale.hash.clone()], vec![]));
    let newest = devnet.node.produce_block().expect("made").height;
    replica.update_faults(|faults| faults.lag_blocks = 0);
    for height in newest - 3..=newest {
        let told = socket.next().await.expect("told");
        assert_eq!(told["result"]["data"]["value"]["header"]["height"], height.to_string());
    }
    assert!(is_included(&devnet, &used.hash) && !is_included(&devnet, &stale.hash));
    assert_eq!((waiting(&replica), sequence(&replica, &devnet).await), (vec![], before + 1));
    assert_eq!(broadcast(&replica, &stale).await["code"], 32);
}

#[tokio::test]
async fn a_replica_follows_its_leader_back_to_a_snapshot() {
    let devnet = devnet("empty").await;
    let replica = replica(&devnet);
    devnet.node.save_snapshot("clean").expect("saved");
    broadcast(&devnet, &payment(&devnet, 0, 1)).await;
    produce(&devnet, &[&replica]).await;
    let left = produce(&devnet, &[&replica]).await;
    let mut heights = replica.watch_heights();
    devnet.node.load_snapshot("clean").expect("loaded");
    heights.wait_for(|newest| *newest < left).await.expect("runs");
    broadcast(&devnet, &payment(&devnet, 0, 2)).await;
    produce(&devnet, &[&replica]).await;
    let hash = |node: &Node| node.read_core(|core| (core.height(), core.app_hash_hex()));
    assert_eq!(hash(&replica), hash(&devnet.node));
}
