//! What is on disk: a chain continues with the same blocks, results and hashes, and can be taken back.

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, DevnetError, node::NodeError};

use super::harness::{broadcast, config, devnet, devnet_at, ok, order, payment};

/// Everything a node says about its chain.
async fn told(devnet: &Devnet) -> Vec<Value> {
    let mut all = vec![ok(devnet, "genesis", json!({})).await];
    for height in 1..=devnet.node.inspect(|core| core.height()) {
        for method in ["block", "block_results", "commit"] {
            all.push(ok(devnet, method, json!({"height": height.to_string()})).await);
        }
    }
    all
}

async fn pay(devnet: &Devnet, amount: u64) {
    broadcast(devnet, &payment(devnet, 0, amount)).await;
    devnet.node.produce().expect("made");
}

#[tokio::test]
async fn two_runs_are_byte_equal_also_when_one_was_interrupted() {
    let straight = devnet("corporation").await;
    for amount in 1..=4 {
        pay(&straight, amount).await;
    }
    let home = tempfile::tempdir().expect("a directory");
    let interrupted = devnet_at(home.path(), "corporation").await;
    pay(&interrupted, 1).await;
    pay(&interrupted, 2).await;
    // What waits in the mempool is lost with the process, as on any node without a log of it.
    broadcast(&interrupted, &payment(&interrupted, 0, 99)).await;
    drop(interrupted);
    let resumed = devnet_at(home.path(), "corporation").await;
    assert_eq!(resumed.node.inspect(|core| core.waiting().len()), 0);
    assert_eq!(resumed.seat, straight.seat);
    pay(&resumed, 3).await;
    pay(&resumed, 4).await;
    assert_eq!(told(&resumed).await, told(&straight).await);
    let hash = |devnet: &Devnet| devnet.node.inspect(|core| (core.app_hash_hex(), core.state().hash()));
    assert_eq!(hash(&resumed), hash(&straight));
}

#[tokio::test]
async fn a_home_is_guarded_and_reset() {
    let home = tempfile::tempdir().expect("a directory");
    let first = devnet_at(home.path(), "corporation").await;
    let launch = async |change: &dyn Fn(&mut DevnetConfig)| {
        let mut config = DevnetConfig { home: Some(home.path().to_owned()), ..config("corporation") };
        change(&mut config);
        Devnet::launch(config).await
    };
    assert!(matches!(launch(&|_| {}).await.err(), Some(DevnetError::Node(NodeError::Home(_)))), "it is in use");
    drop(first);
    let other = launch(&|config| config.chain_id = "other-1".into()).await.err().expect("refused");
    assert!(other.to_string().contains("its chain id is svc-devnet-1, not other-1"), "{other}");
    let other = launch(&|config| config.scenario = "empty".into()).await.err().expect("refused");
    assert!(other.to_string().contains("seeded with scenario \"corporation\""), "{other}");
    assert!(svc_devnet::node::reset(home.path()).expect("reset"));
    assert!(!svc_devnet::node::reset(home.path()).expect("nothing left"));
    let fresh = launch(&|config| config.scenario = "empty".into()).await.expect("starts");
    assert_eq!(fresh.node.inspect(|core| core.height()), 1);
}

#[tokio::test]
async fn snapshots_take_the_chain_back_by_name() {
    let home = tempfile::tempdir().expect("a directory");
    let devnet = devnet_at(home.path(), "empty").await;
    pay(&devnet, 1).await;
    let (_, saved) = order(&devnet, "/snapshots/clean", json!({})).await;
    pay(&devnet, 2).await;
    pay(&devnet, 3).await;
    let (status, loaded) = order(&devnet, "/snapshots/clean/load", json!({})).await;
    assert_eq!((status, &loaded["height"], &loaded["app_hash"]), (200, &saved["height"], &saved["app_hash"]));
    // The line goes on from there, on disk too; the snapshot outlives a restart.
    pay(&devnet, 4).await;
    let after = devnet.node.inspect(|core| (core.height(), core.app_hash_hex()));
    drop(devnet);
    let devnet = devnet_at(home.path(), "empty").await;
    assert_eq!(devnet.node.inspect(|core| (core.height(), core.app_hash_hex())), after);
    let (_, loaded) = order(&devnet, "/snapshots/clean/load", json!({})).await;
    assert_eq!(loaded["app_hash"], saved["app_hash"]);
    assert!(matches!(devnet.node.load("none"), Err(NodeError::NoSnapshot(_))));
    let memory = super::harness::devnet("empty").await;
    memory.node.save("s").expect("saved");
    memory.node.produce().expect("made");
    memory.node.load("s").expect("loaded");
    assert_eq!(memory.node.inspect(|core| core.height()), 1);
}
