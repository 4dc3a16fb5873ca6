//! Tests of a home: a chain resumes with the same blocks, results and hashes, and can be reset to a snapshot.

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, DevnetError, node::NodeError};

use super::harness::{broadcast, call_ok, config, devnet, devnet_at, payment, post_control};

/// Returns all answers of a node about its chain.
async fn chain_answers(devnet: &Devnet) -> Vec<Value> {
    let mut all = vec![call_ok(devnet, "genesis", json!({})).await];
    for height in 1..=devnet.node.read_core(|core| core.height()) {
        for method in ["block", "block_results", "commit"] {
            all.push(call_ok(devnet, method, json!({"height": height.to_string()})).await);
        }
    }
    all
}

async fn pay(devnet: &Devnet, amount: u64) {
    broadcast(devnet, &payment(devnet, 0, amount)).await;
    devnet.node.produce_block().expect("made");
}

#[tokio::test]
async fn two_runs_are_byte_equal_even_if_one_was_interrupted() {
    let straight = devnet("corporation").await;
    for amount in 1..=4 {
        pay(&straight, amount).await;
    }
    let home = tempfile::tempdir().expect("a directory");
    let interrupted = devnet_at(home.path(), "corporation").await;
    pay(&interrupted, 1).await;
    pay(&interrupted, 2).await;
    // The mempool is lost with the process, as on any node without a mempool log.
    broadcast(&interrupted, &payment(&interrupted, 0, 99)).await;
    drop(interrupted);
    let resumed = devnet_at(home.path(), "corporation").await;
    assert_eq!(resumed.node.read_core(|core| core.mempool_txs().len()), 0);
    assert_eq!(resumed.operator_slot, straight.operator_slot);
    pay(&resumed, 3).await;
    pay(&resumed, 4).await;
    assert_eq!(chain_answers(&resumed).await, chain_answers(&straight).await);
    let hash = |devnet: &Devnet| devnet.node.read_core(|core| (core.app_hash_hex(), core.state().hash()));
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
    assert!(svc_devnet::node::reset_home(home.path()).expect("reset"));
    assert!(!svc_devnet::node::reset_home(home.path()).expect("nothing left"));
    let fresh = launch(&|config| config.scenario = "empty".into()).await.expect("starts");
    assert_eq!(fresh.node.read_core(|core| core.height()), 1);
}

#[tokio::test]
async fn snapshots_take_the_chain_back_by_name() {
    let home = tempfile::tempdir().expect("a directory");
    let devnet = devnet_at(home.path(), "empty").await;
    pay(&devnet, 1).await;
    let (_, saved) = post_control(&devnet, "/snapshots/clean", json!({})).await;
    pay(&devnet, 2).await;
    pay(&devnet, 3).await;
    let (status, loaded) = post_control(&devnet, "/snapshots/clean/load", json!({})).await;
    assert_eq!((status, &loaded["height"], &loaded["app_hash"]), (200, &saved["height"], &saved["app_hash"]));
    // The chain continues from the snapshot, on disk too; the snapshot survives a restart.
    pay(&devnet, 4).await;
    let after = devnet.node.read_core(|core| (core.height(), core.app_hash_hex()));
    drop(devnet);
    let devnet = devnet_at(home.path(), "empty").await;
    assert_eq!(devnet.node.read_core(|core| (core.height(), core.app_hash_hex())), after);
    let (_, loaded) = post_control(&devnet, "/snapshots/clean/load", json!({})).await;
    assert_eq!(loaded["app_hash"], saved["app_hash"]);
    assert!(matches!(devnet.node.load_snapshot("none"), Err(NodeError::NoSnapshot(_))));
    let memory = super::harness::devnet("empty").await;
    memory.node.save_snapshot("s").expect("saved");
    memory.node.produce_block().expect("made");
    memory.node.load_snapshot("s").expect("loaded");
    assert_eq!(memory.node.read_core(|core| core.height()), 1);
}

#[tokio::test]
async fn a_chain_that_goes_back_makes_other_blocks_on_disk_too() {
    let home = tempfile::tempdir().expect("a directory");
    let devnet = devnet_at(home.path(), "empty").await;
    for amount in 1..=3 {
        pay(&devnet, amount).await;
    }
    let hashes = |devnet: &svc_devnet::Devnet| {
        devnet.node.read_core(|core| core.blocks().iter().map(|block| block.hash.clone()).collect::<Vec<_>>())
    };
    let (before, newest) = (hashes(&devnet), devnet.node.read_core(|core| core.height()));
    let (status, back) = post_control(&devnet, "/back", json!({"to": newest - 2})).await;
    assert_eq!((status, &back["height"]), (200, &json!(newest - 2)), "{back}");
    for _ in 0..2 {
        devnet.node.produce_block().expect("made");
    }
    let after = hashes(&devnet);
    let kept = before.len() - 2;
    assert_eq!((&after[..kept], after.len()), (&before[..kept], before.len()));
    assert!(after[kept..].iter().zip(&before[kept..]).all(|(new, old)| new != old), "{after:?}");
    drop(devnet);
    let devnet = devnet_at(home.path(), "empty").await;
    assert_eq!(hashes(&devnet), after);
    let (status, refused) = post_control(&devnet, "/back", json!({"to": newest + 1})).await;
    assert_eq!(
        (status, &refused["error"]),
        (400, &json!(format!("the chain has {newest} blocks, not {}", newest + 1)))
    );
    post_control(&devnet, "/back", json!({"to": 0})).await;
    devnet.node.produce_block().expect("the first block of another history");
    assert_ne!(hashes(&devnet)[0], before[0]);
}
