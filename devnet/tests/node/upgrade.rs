//! Planned upgrades: the node halts at their height, with its servers, and goes on as the later generation.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use svc_devnet::{
    Devnet, DevnetConfig,
    node::{Node, NodeError},
};
use svc_ledger::UpgradePlan;
use svc_wire::proto_registry::NodeGeneration;

use super::harness::{WebSocketClient, broadcast, call_ok, config, payment, post_control, query};

/// A pause that no test waits for: the test starts the node, as an operator does.
const ENDLESS: Duration = Duration::from_secs(3_600);
/// Longest wait for an event.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn launch(change: impl FnOnce(&mut DevnetConfig)) -> Devnet {
    let mut config = DevnetConfig { upgrade_pause: ENDLESS, ..config("corporation") };
    change(&mut config);
    Devnet::launch(config).await.expect("starts")
}

fn height(node: &Node) -> u64 {
    *node.watch_heights().borrow()
}

async fn await_halt(node: &Node, is_halted: bool) {
    let mut halts = node.watch_halts();
    let waited = tokio::time::timeout(TIMEOUT, halts.wait_for(|halt| halt.is_some() == is_halted)).await;
    waited.expect("in time").expect("the node is there");
}

/// Waits until nothing listens at the address of the node.
async fn await_refusal(node: &Node) {
    let address = node.origin().replace("http://", "");
    let refused = async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, refused).await.expect("in time");
}

async fn plan_of(devnet: &Devnet) -> Value {
    let path = "/cosmos.upgrade.v1beta1.Query/CurrentPlan";
    let types = ["cosmos.upgrade.v1beta1.QueryCurrentPlanRequest", "cosmos.upgrade.v1beta1.QueryCurrentPlanResponse"];
    query(devnet, devnet, path, types, json!({})).await["plan"].clone()
}

async fn applied_at(devnet: &Devnet, name: &str) -> Value {
    let path = "/cosmos.upgrade.v1beta1.Query/AppliedPlan";
    let types = ["cosmos.upgrade.v1beta1.QueryAppliedPlanRequest", "cosmos.upgrade.v1beta1.QueryAppliedPlanResponse"];
    query(devnet, devnet, path, types, json!({"name": name})).await["height"].clone()
}

/// Makes blocks until the node halts for its upgrade.
fn produce_until_halt(node: &Node) -> UpgradePlan {
    loop {
        match node.produce_block() {
            Ok(_) => {}
            Err(NodeError::UpgradeNeeded(plan)) => return plan,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_halts_at_its_upgrade_and_goes_on_with_other_descriptors_from_the_same_state() {
    let devnet = launch(|_| {}).await;
    let node = &devnet.node;
    let (first, wanted) = (height(node), height(node) + 3);
    for (body, status) in [
        (json!({"generation": "N3", "height": first}), 400),
        (json!({"generation": "N0", "height": wanted}), 400),
        (json!({"generation": "N4", "height": wanted}), 400),
        (json!({"generation": "N9", "height": wanted}), 400),
        (json!({"generation": "N3", "height": wanted}), 200),
    ] {
        let (found, answer) = post_control(&devnet, "/upgrade", body.clone()).await;
        assert_eq!(found, status, "{body}: {answer}");
    }
    let plan = plan_of(&devnet).await;
    assert_eq!((&plan["name"], &plan["height"]), (&json!("n3"), &json!(wanted.to_string())));
    let version = call_ok(&devnet, "abci_info", json!({})).await["response"]["version"].clone();
    let mut socket = WebSocketClient::connect(&devnet).await;
    node.update_faults(|faults| faults.hold_inclusion = true);
    let waiting = payment(&devnet, 0, 5);
    broadcast(&devnet, &waiting).await;
    let plan = produce_until_halt(node);
    assert_eq!((plan.height, height(node)), (wanted, wanted - 1));
    let state = node.read_core(|core| core.app_hash_hex());

    await_halt(node, true).await;
    assert_eq!(socket.next().await, None, "connections end");
    await_refusal(node).await;
    assert!(matches!(node.produce_block(), Err(NodeError::UpgradeNeeded(_))), "no block is made");
    let (status, answer) = post_control(&devnet, "/blocks", json!({})).await;
    assert!(status == 503 && answer["error"].as_str().is_some_and(|text| text.contains("UPGRADE \"n3\" NEEDED")));

    node.start().expect("starts");
    await_halt(node, false).await;
    assert_eq!(node.read_core(|core| (core.height(), core.app_hash_hex())), (wanted - 1, state));
    let later = call_ok(&devnet, "abci_info", json!({})).await["response"]["version"].clone();
    assert!(later != version && later.as_str().is_some_and(|text| text.ends_with("-n3")), "{version}, {later}");
    let descriptors = node.read_core(|core| NodeGeneration::of_descriptors(&core.chain.registry));
    assert_eq!(descriptors, NodeGeneration::N3);
    // The process has lost its mempool, and takes the same bytes again.
    assert_eq!(node.read_core(|core| core.mempool_txs().len()), 0);
    node.update_faults(|faults| faults.hold_inclusion = false);
    assert_eq!(broadcast(&devnet, &waiting).await["code"], 0);
    let block = node.produce_block().expect("the first block of the release");
    assert_eq!((block.height, block.tx_outcomes.len(), block.tx_outcomes[0].code), (wanted, 1, 0));
    assert_eq!((plan_of(&devnet).await, applied_at(&devnet, "n3").await), (Value::Null, json!(wanted.to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_pause_a_node_with_a_block_time_goes_on_by_itself() {
    let devnet = launch(|config| {
        config.block_time = Some(Duration::from_millis(20));
        config.upgrade_pause = Duration::from_millis(50);
    })
    .await;
    let node = &devnet.node;
    let mut halts = node.watch_halts();
    let wanted = height(node) + 10;
    node.plan_upgrade(NodeGeneration::N1, wanted).expect("planned");
    // The steps of a scenario go on after the upgrade.
    for amount in 0..12 {
        let coins = json!([{"denom": "usvc", "amount": (amount + 1).to_string()}]);
        let send = json!({"from_address": "$member", "to_address": "$member", "amount": coins});
        if devnet.send_messages("member", &[("/cosmos.bank.v1beta1.MsgSend", send)]).await.is_err() {
            // The servers are gone while it asks for its account.
            await_halt(node, false).await;
        }
    }
    let mut heights = node.watch_heights();
    let grown = tokio::time::timeout(TIMEOUT, heights.wait_for(|height| *height > wanted + 2)).await;
    grown.expect("in time").expect("the node is there");
    assert!(halts.has_changed().expect("the node is there"), "it has halted");
    assert_eq!(*halts.borrow_and_update(), None);
    assert_eq!(node.read_core(|core| core.chain.generation), NodeGeneration::N1);
}

async fn launch_at(home: &Path, change: impl FnOnce(&mut DevnetConfig)) -> Result<Devnet, String> {
    let mut config = DevnetConfig { upgrade_pause: ENDLESS, home: Some(home.to_owned()), ..config("corporation") };
    change(&mut config);
    Devnet::launch(config).await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_keeps_plans_and_upgrades_and_its_blocks_lead_to_the_same_state() {
    let home = tempfile::tempdir().expect("a directory");
    let devnet = launch_at(home.path(), |_| {}).await.expect("starts");
    let wanted = height(&devnet.node) + 2;
    devnet.node.plan_upgrade(NodeGeneration::N3, wanted).expect("planned");
    devnet.node.save_snapshot("before").expect("saved");
    drop(devnet);

    // The plan is there without the option, and a process that starts at its height has the later program.
    let devnet = launch_at(home.path(), |_| {}).await.expect("starts");
    assert_eq!(plan_of(&devnet).await["height"], wanted.to_string());
    produce_until_halt(&devnet.node);
    drop(devnet);
    let upgrade = |config: &mut DevnetConfig| {
        config.upgrade = Some(UpgradePlan { generation: NodeGeneration::N3, height: wanted });
    };
    let devnet = launch_at(home.path(), upgrade).await.expect("starts");
    for _ in 0..3 {
        devnet.node.produce_block().expect("made");
    }
    let before = devnet.node.read_core(|core| (core.height(), core.app_hash_hex(), core.chain.generation));
    assert_eq!((before.0, before.2), (wanted + 2, NodeGeneration::N3));
    drop(devnet);

    // The same option is no second upgrade, and the rules of each height are those of its release.
    let devnet = launch_at(home.path(), upgrade).await.expect("starts");
    assert_eq!(devnet.node.read_core(|core| (core.height(), core.app_hash_hex(), core.chain.generation)), before);
    assert_eq!(applied_at(&devnet, "n3").await, wanted.to_string());
    // Before the upgrade the chain has its plan again.
    devnet.node.load_snapshot("before").expect("loaded");
    assert_eq!(devnet.node.read_core(|core| core.chain.generation), NodeGeneration::N0);
    assert_eq!(produce_until_halt(&devnet.node).height, wanted);
    drop(devnet);

    let late = |config: &mut DevnetConfig| {
        config.upgrade = Some(UpgradePlan { generation: NodeGeneration::N3, height: 1 });
    };
    let refused = launch_at(home.path(), late).await.err().expect("refused");
    assert!(refused.contains("comes too late"), "{refused}");
    let other = launch_at(home.path(), |config| config.generation = NodeGeneration::N3).await.err().expect("refused");
    assert!(other.contains("its generation is N0, not N3"), "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_halt_with_their_leader_and_follow_with_the_later_program() {
    let devnet = launch(|_| {}).await;
    let leader = &devnet.node;
    let replica = leader.start_replica(([127, 0, 0, 1], 0).into()).expect("starts");
    let wanted = height(leader) + 2;
    leader.plan_upgrade(NodeGeneration::N3, wanted).expect("planned");
    produce_until_halt(leader);
    await_halt(&replica, true).await;
    await_refusal(&replica).await;
    assert_eq!(height(&replica), wanted - 1);
    for node in [leader, &replica] {
        node.start().expect("starts");
    }
    leader.produce_block().expect("made");
    let late = leader.start_replica(([127, 0, 0, 1], 0).into()).expect("a node that begins behind the upgrade");
    for node in [&replica, &late] {
        let mut heights = node.watch_heights();
        let reached = tokio::time::timeout(TIMEOUT, heights.wait_for(|height| *height >= wanted)).await;
        reached.expect("in time").expect("the node is there");
        assert_eq!(node.read_core(|core| core.app_hash_hex()), leader.read_core(|core| core.app_hash_hex()));
        assert_eq!(node.read_core(|core| core.chain.generation), NodeGeneration::N3);
    }
}
