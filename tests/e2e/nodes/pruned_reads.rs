//! Reads of the node at heights that it has pruned: another node answers, or the error names the oldest height that is left.

use serde_json::json;
use svc::network::LocalNetworkConfig;
use svc_devnet::DevnetConfig;
use svc_wire::address::Address;

use super::super::harness::start_network;

#[tokio::test(flavor = "multi_thread")]
async fn a_pruned_height_is_read_at_another_node_or_named_with_the_oldest_one() {
    let settings = LocalNetworkConfig {
        devnet: DevnetConfig { block_time: None, ..DevnetConfig::default() },
        extra_nodes: 1,
        ..LocalNetworkConfig::default()
    };
    let world = start_network(settings).await;
    let (first, second) = (&world.network.devnet.node, &world.network.extra_nodes[0]);
    for _ in 0..20 {
        first.produce_block().expect("a block");
    }
    let newest = world.height();
    second.watch_heights().wait_for(|height| *height >= newest).await.expect("the second node follows");
    let own = world.network.operator_slot.operator_address.clone();
    let unknown = Address::from_bytes("svc", &[7; 20]).expect("an address").to_string();
    let balance = |height: u64| json!({"address": own, "at_block_height": height});
    let read = async |height: u64| world.call_ok("svc.cosmos.bank.getBalance", balance(height)).await;
    let then = read(newest - 10).await;

    // The node in use has pruned the state and the block, the other one has both.
    first.update_faults(|faults| (faults.kept_states, faults.pruned_below) = (3, newest - 2));
    assert_eq!(read(newest - 10).await, then);
    let block = world.call_ok("svc.cosmos.tendermint.getBlock", json!({"height": newest - 10})).await;
    assert_eq!(block["block"]["header"]["height"], (newest - 10).to_string());
    // That a thing is not there is the answer of the node that has the state.
    let absent = json!({"address": unknown, "at_block_height": newest - 10});
    world.call_error("svc.cosmos.auth.getAccount", absent.clone(), "NOT_FOUND").await;

    second.update_faults(|faults| (faults.kept_states, faults.pruned_below) = (6, newest - 4));
    for (tool, arguments, oldest) in [
        ("svc.cosmos.bank.getBalance", balance(newest - 10), newest - 5),
        ("svc.cosmos.auth.getAccount", absent, newest - 5),
        ("svc.cosmos.tendermint.getBlock", json!({"height": newest - 10}), newest - 4),
    ] {
        let error = world.call_error(tool, arguments, "STATE_PRUNED").await;
        assert_eq!(
            (&error["details"]["oldest_height"], &error["retryable"]),
            (&json!(oldest), &json!(false)),
            "{tool}"
        );
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("SVC_RPC")), "{error:#}");
    }
    read(newest - 5).await;
}
