//! Several nodes and several indexers: one is used, the others when it fails.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::NetworkConfig;
use svc_devnet::{DevnetConfig, node::Node};

use super::super::harness::{CREATE, World, config, ecosystem, world};

/// Blocks of a chain that goes on while the listener of its first node is down.
struct Beat(tokio::task::JoinHandle<()>);

impl Beat {
    fn of(node: &Node) -> Self {
        let node = node.clone();
        Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                node.produce().expect("a block");
            }
        }))
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn two_nodes() -> (World, Beat) {
    let settings = NetworkConfig {
        devnet: DevnetConfig { block_time: None, ..DevnetConfig::default() },
        replicas: 1,
        ..NetworkConfig::default()
    };
    let world = world(settings).await;
    let beat = Beat::of(&world.network.devnet.node);
    (world, beat)
}

async fn status(world: &World) -> Value {
    world.ok("svc.wallet.getStatus", json!({})).await
}

async fn until_on(world: &World, kind: &str, origin: &str) {
    world.until("the other one is used", async || status(world).await["endpoints"][kind]["current"] == origin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_in_the_middle_of_writes_is_replaced_and_nothing_is_done_twice() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.replicas[0]);
    let answer = world.call(CREATE, ecosystem("before")).await;
    world.assert_happened("before", &answer);
    // It is in the first node's mempool, and that node is gone before a block has it.
    first.faults(|faults| (faults.hold_inclusion, faults.no_gossip) = (true, true));
    let die = async {
        world.until_waiting(1).await;
        first.stop();
        until_on(&world, "rpc", &second.origin()).await;
        first.faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call(CREATE, ecosystem("between")), die);
    world.assert_happened("between", &answer);
    let answer = world.call(CREATE, ecosystem("after")).await;
    world.assert_happened("after", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_behind_is_not_believed_and_the_write_waits_for_it() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.replicas[0]);
    first.faults(|faults| faults.no_gossip = true);
    second.faults(|faults| faults.lag_blocks = 10_000);
    for name in ["one", "two"] {
        let answer = world.call(CREATE, ecosystem(name)).await;
        world.assert_happened(name, &answer);
    }
    first.stop();
    until_on(&world, "rpc", &second.origin()).await;
    // The node has not seen the two: its sequence is used already, and nothing is signed by its word. The indexer is ahead.
    let catch_up = async {
        world.blocks(5).await;
        assert_eq!(world.states().await, ["included"; 2], "nothing was signed");
        second.faults(|faults| faults.lag_blocks = 0);
    };
    let (answer, ()) = tokio::join!(world.call(CREATE, ecosystem("three")), catch_up);
    world.assert_happened("three", &answer);
    assert_eq!(world.states().await, ["included"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_node_never_makes_a_pending_transaction_expire() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.replicas[0]);
    second.faults(|faults| faults.lag_blocks = 10_000);
    first.faults(|faults| faults.lose_events = u32::MAX);
    let stop = async {
        while world.times_on_chain("hidden") == 0 {
            tokio::task::yield_now().await;
        }
        first.stop();
        until_on(&world, "rpc", &second.origin()).await;
        world.blocks(30).await;
        second.faults(|faults| faults.lag_blocks = 0);
    };
    let (answer, ()) = tokio::join!(world.call(CREATE, ecosystem("hidden")), stop);
    world.assert_happened("hidden", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_node_in_use_does_not_pass_on_is_given_to_the_others() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.replicas[0]);
    first.stop();
    until_on(&world, "rpc", &second.origin()).await;
    first.start().expect("starts again");
    second.faults(|faults| faults.no_gossip = true);
    let answer = world.call(CREATE, ecosystem("kept-back")).await;
    world.assert_happened("kept-back", &answer);
    assert_eq!(world.states().await, ["included"]);
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_restarts_in_the_middle_of_writes_loses_none() {
    let world = world(config(100)).await;
    let node = &world.network.devnet.node;
    let writes = (0..20).map(|index| world.call(CREATE, ecosystem(format!("restart-{index}"))));
    let restart = async {
        world.blocks(1).await;
        node.stop();
        node.start().expect("starts again");
    };
    let (answers, ()) = tokio::join!(futures::future::join_all(writes), restart);
    let mut happened = 0;
    for (index, answer) in answers.iter().enumerate() {
        let name = format!("restart-{index}");
        if answer.is_error {
            assert_eq!(answer.content["stage"], "upstream", "{:#}", answer.content);
            assert_eq!(world.times_on_chain(&name), 0, "what was refused was not sent");
        } else {
            world.assert_happened(&name, answer);
            happened += 1;
        }
    }
    assert_eq!(world.operator_txs_in_blocks(), happened);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_writes_go_on_with_another_indexer() {
    let mut settings = config(100);
    settings.more_indexers = 1;
    let mut world = world(settings).await;
    world.ok(CREATE, ecosystem("one")).await;
    let other = world.network.more_indexer_origins()[0].clone();
    world.network.stop_indexer();
    let read = world.ok("svc.idx.es.getEcosystem", json!({"id": 1})).await;
    assert_eq!(read["ecosystem"]["did"], "did:web:one.example", "{read:#}");
    until_on(&world, "indexer", &other).await;
    world
        .until("writes are synced", async || {
            let name = format!("w-{}", world.height());
            world.call(CREATE, ecosystem(name)).await.content["indexer_synced"] == true
        })
        .await;
}
