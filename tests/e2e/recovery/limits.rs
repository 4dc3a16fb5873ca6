//! Limits that a node cannot move: the messages that are signed, and the fees of a day.

use serde_json::json;

use super::{
    super::harness::{CREATE_ECOSYSTEM, call_tool, network_config, start_network, start_quick_network},
    process_kill::{keyed_arguments, kill, new_files, start_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_a_node_describes_otherwise_are_no_tools_and_the_fields_are_named() {
    let world = start_quick_network().await;
    let node = &world.network.devnet.node;
    node.update_faults(|faults| faults.lies.swapped_fields = true);
    let files = new_files();
    // SVC_LIVE_DESCRIPTORS allows unknown fields and no other ones.
    for live in ["false", "true"] {
        let (served, client) = start_with(&world, &files, &[("SVC_LIVE_DESCRIPTORS", live)]).await;
        let listed = client.list_tools().await.expect("tools");
        assert!(listed.iter().all(|tool| tool.name != CREATE_ECOSYSTEM));
        assert!(listed.iter().any(|tool| tool.name == "svc.ledger.es.updateEcosystem"));
        let refused = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("swapped")).await.content;
        let message = refused["message"].as_str().unwrap_or_default();
        for named in ["ec.v1.MsgCreateEcosystem.did", "ec.v1.MsgCreateEcosystem.language"] {
            assert!(message.contains(named), "{named} in {refused:#}");
        }
        kill(served);
    }
    node.update_faults(|faults| faults.lies.swapped_fields = false);
    let (served, client) = start_with(&world, &files, &[("SVC_LIVE_DESCRIPTORS", "true")]).await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("live")).await;
    world.assert_included_once("live", &answer);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fees_of_a_day_have_a_ceiling_across_processes() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    // A write costs about 3,500: the limit has room for one of them.
    let limit = [("SVC_MAX_FEE_PER_DAY", "6000")];
    let (served, client) = start_with(&world, &files, &limit).await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("paid")).await;
    world.assert_included_once("paid", &answer);
    let refused = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("dear")).await.content;
    assert_eq!(
        (&refused["code"], &refused["stage"]),
        (&json!("FEE_ABOVE_CEILING"), &json!("broadcast")),
        "{refused:#}"
    );
    assert_eq!((&refused["details"]["kind"], &refused["details"]["limit"]), (&json!("fee_per_day"), &json!("6000")));
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("SVC_MAX_FEE_PER_DAY")), "{refused:#}");
    kill(served);
    let (served, client) = start_with(&world, &files, &limit).await;
    let refused = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("dear")).await.content;
    assert_eq!(refused["code"], "FEE_ABOVE_CEILING", "the journal knows the day: {refused:#}");
    kill(served);
    let (served, client) = start_with(&world, &files, &[("SVC_MAX_FEE_PER_DAY", "60000")]).await;
    let answer = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("dear")).await;
    world.assert_included_once("dear", &answer);
    kill(served);
}
