//! Failover between several nodes and several indexers.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::LocalNetworkConfig;
use svc_devnet::{DevnetConfig, node::Node};

use super::super::harness::{CREATE_ECOSYSTEM, TestNetwork, ecosystem_arguments, network_config, pause, start_network};

/// Makes blocks while the listener of the first node is down.
struct BlockProducer(tokio::task::JoinHandle<()>);

impl BlockProducer {
    fn start(node: &Node) -> Self {
        let node = node.clone();
        Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                node.produce_block().expect("a block");
            }
        }))
    }
}

impl BlockProducer {
    /// Makes each block once a follower has the one before it.
    fn start_in_step(node: &Node, follower: &Node) -> Self {
        let (node, mut followed) = (node.clone(), follower.watch_heights());
        Self(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(100));
            loop {
                ticks.tick().await;
                let height = *node.watch_heights().borrow();
                followed.wait_for(|reached| *reached >= height).await.expect("the follower runs");
                node.produce_block().expect("a block");
            }
        }))
    }
}

impl Drop for BlockProducer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn two_nodes() -> (TestNetwork, BlockProducer) {
    let settings = LocalNetworkConfig {
        devnet: DevnetConfig { block_time: None, ..DevnetConfig::default() },
        extra_nodes: 1,
        ..LocalNetworkConfig::default()
    };
    let world = start_network(settings).await;
    let beat = BlockProducer::start(&world.network.devnet.node);
    (world, beat)
}

async fn status(world: &TestNetwork) -> Value {
    world.call_ok("svc.wallet.getStatus", json!({})).await
}

async fn await_endpoint(world: &TestNetwork, kind: &str, origin: &str) {
    world
        .wait_until("the other one is used", async || status(world).await["endpoints"][kind]["current"] == origin)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_lost_during_writes_is_replaced_and_no_write_executes_twice() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("before")).await;
    world.assert_included_once("before", &answer);
    // The transaction is in the mempool of the first node, which stops before a block includes it.
    first.update_faults(|faults| (faults.hold_inclusion, faults.no_gossip) = (true, true));
    let die = async {
        world.await_mempool_size(1).await;
        first.stop();
        await_endpoint(&world, "rpc", &second.origin()).await;
        first.update_faults(|faults| faults.hold_inclusion = false);
    };
    let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("between")), die);
    world.assert_included_once("between", &answer);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("after")).await;
    world.assert_included_once("after", &answer);
    assert_eq!(world.operator_txs_in_blocks(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_waits_for_a_lagging_node_to_catch_up() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    first.update_faults(|faults| faults.no_gossip = true);
    second.update_faults(|faults| faults.lag_blocks = 10_000);
    for name in ["one", "two"] {
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)).await;
        world.assert_included_once(name, &answer);
    }
    first.stop();
    await_endpoint(&world, "rpc", &second.origin()).await;
    // The node lacks the two transactions, so its sequence is already used and no transaction is signed with it. The indexer is
    // ahead of it.
    let catch_up = async {
        world.await_blocks(5).await;
        assert_eq!(world.transaction_states().await, ["included"; 2], "nothing was signed");
        second.update_faults(|faults| faults.lag_blocks = 0);
    };
    let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("three")), catch_up);
    world.assert_included_once("three", &answer);
    assert_eq!(world.transaction_states().await, ["included"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_node_never_makes_a_pending_transaction_expire() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    second.update_faults(|faults| faults.lag_blocks = 10_000);
    first.update_faults(|faults| faults.lose_events = u32::MAX);
    let stop = async {
        while world.times_on_chain("hidden") == 0 {
            pause().await;
        }
        first.stop();
        await_endpoint(&world, "rpc", &second.origin()).await;
        world.await_blocks(30).await;
        second.update_faults(|faults| faults.lag_blocks = 0);
    };
    let (answer, ()) = tokio::join!(world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("hidden")), stop);
    world.assert_included_once("hidden", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_current_node_does_not_relay_is_sent_to_the_others() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    first.stop();
    await_endpoint(&world, "rpc", &second.origin()).await;
    first.start().expect("starts again");
    second.update_faults(|faults| faults.no_gossip = true);
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("kept-back")).await;
    world.assert_included_once("kept-back", &answer);
    assert_eq!(world.transaction_states().await, ["included"]);
    assert_eq!(world.operator_txs_in_blocks(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_restart_during_writes_loses_none() {
    let world = start_network(network_config(100)).await;
    let node = &world.network.devnet.node;
    let writes =
        (0..20).map(|index| world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(format!("restart-{index}"))));
    let restart = async {
        world.await_blocks(1).await;
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
            world.assert_included_once(&name, answer);
            happened += 1;
        }
    }
    assert_eq!(world.operator_txs_in_blocks(), happened);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_writes_continue_with_another_indexer() {
    let mut settings = network_config(100);
    settings.extra_indexers = 1;
    let mut world = start_network(settings).await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("one")).await;
    let other = world.network.extra_indexer_origins()[0].clone();
    world.network.kill_indexer();
    let read = world.call_ok("svc.idx.es.getEcosystem", json!({"id": 1})).await;
    assert_eq!(read["ecosystem"]["did"], "did:web:one.example", "{read:#}");
    await_endpoint(&world, "indexer", &other).await;
    world
        .wait_until("writes are synced", async || {
            let name = format!("w-{}", world.height());
            world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)).await.content["indexer_synced"] == true
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_used_for_a_height_that_only_it_has() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    second.update_faults(|faults| faults.lies.height_ahead = 100_000);
    world.await_blocks(1).await;
    for name in ["tall-0", "tall-1"] {
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(name)).await;
        world.assert_included_once(name, &answer);
    }
    let used = status(&world).await;
    assert_eq!(used["endpoints"]["rpc"]["current"], first.origin());
    // The node in use lies: the other one replaces it.
    second.update_faults(|faults| faults.lies.height_ahead = 0);
    first.update_faults(|faults| faults.lies.height_ahead = 100_000);
    await_endpoint(&world, "rpc", &second.origin()).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("tall-2")).await;
    world.assert_included_once("tall-2", &answer);
    let height = status(&world).await["rpc_ws"]["last_height"].as_u64();
    assert!(height.is_some_and(|height| height < 100_000), "{height:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_different_blocks_are_named_and_neither_is_written_to() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    second.update_faults(|faults| faults.lies.other_hashes = true);
    let is_disputed = async || status(&world).await["endpoints"]["rpc"]["dispute"].is_string();
    world.wait_until("the blocks are compared", is_disputed).await;
    let error = world.call_error(CREATE_ECOSYSTEM, ecosystem_arguments("disputed"), "UPSTREAM_PROTOCOL_ERROR").await;
    let blocks = &error["details"]["blocks"];
    assert_eq!((&blocks[0]["origin"], &blocks[1]["origin"]), (&json!(first.origin()), &json!(second.origin())));
    assert_ne!(blocks[0]["hash"], blocks[1]["hash"]);
    assert_eq!((&error["retryable"], world.operator_txs_in_blocks()), (&json!(false), 0));
    second.update_faults(|faults| faults.lies.other_hashes = false);
    world.wait_until("they agree", async || status(&world).await["endpoints"]["rpc"]["dispute"].is_null()).await;
    let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("agreed")).await;
    world.assert_included_once("agreed", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_only_one_of_two_nodes_states_decides_nothing() {
    let (world, beat) = two_nodes().await;
    drop(beat);
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    // A node that lags contradicts nothing.
    let _beat = BlockProducer::start_in_step(first, second);
    first.update_faults(|faults| (faults.lies.failed_txs, faults.lies.failed_results) = (true, true));
    let call = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments("contradicted"));
    let stop_lying = async {
        world.wait_until("a block contains it", async || world.times_on_chain("contradicted") == 1).await;
        world.await_blocks(5).await;
        assert_eq!(world.transaction_states().await, ["open"]);
        first.update_faults(|faults| (faults.lies.failed_txs, faults.lies.failed_results) = (false, false));
    };
    let (answer, ()) = tokio::join!(call, stop_lying);
    world.assert_included_once("contradicted", &answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_that_stands_still_takes_nothing_over() {
    let (world, _beat) = two_nodes().await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    second.update_faults(|faults| (faults.lag_blocks, faults.lies.hides_lag) = (10_000, true));
    // It answers and says that it is ready, while the chain goes on.
    for round in 0..3 {
        world.await_blocks(40).await;
        let name = format!("onwards-{round}");
        let answer = world.call_tool(CREATE_ECOSYSTEM, ecosystem_arguments(&name)).await;
        world.assert_included_once(&name, &answer);
    }
    let now = status(&world).await;
    assert_eq!(now["endpoints"]["rpc"]["current"], first.origin());
    let height = now["rpc_ws"]["last_height"].as_u64();
    assert!(height.is_some_and(|height| height + 20 > world.height()), "{height:?} of {}", world.height());
}
