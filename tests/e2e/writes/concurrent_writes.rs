//! Concurrent calls use consecutive sequences, so that a block contains many of them.

use std::collections::HashSet;

use crate::e2e::{
    callers::secrets::spawn_server,
    harness::{CREATE_ECOSYSTEM, ecosystem_arguments, into_arguments, network_config, start_network},
};

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writes_over_one_connection_are_indexed_within_four_blocks() {
    // Four blocks leave the writes their time on a machine that does other work too.
    let world = start_network(network_config(3000)).await;
    let mut heights = world.network.devnet.node.watch_heights();
    heights.changed().await.expect("a block");
    let start = world.height();
    let calls = (0..64).map(|index| {
        world.client.call_tool(CREATE_ECOSYSTEM, into_arguments(ecosystem_arguments(format!("parallel-{index}"))))
    });
    let answers = futures::future::join_all(calls).await;
    let end = world.height();

    let mut hashes = HashSet::new();
    for answer in answers {
        let result = answer.expect("a result");
        let content = result.structured_content.expect("structured");
        assert_eq!(result.is_error, Some(false), "{content:#}");
        assert_eq!(content["indexer_synced"], true);
        let height = content["block_height"].as_u64().expect("a height");
        assert!(height <= start + 4, "included at {height}, begun at {start}");
        hashes.insert(content["tx_hash"].to_string());
    }
    assert_eq!(hashes.len(), 64);
    assert!(end <= start + 4, "all answered at {end}, begun at {start}");
    assert_eq!(world.ecosystems_on_chain().len(), 64);
    assert_eq!(world.operator_txs_in_blocks(), 64, "none failed, none was sent twice");
}

/// A server that boots on a chain with a history writes before it has seen a block.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_write_after_a_boot_uses_the_height_of_the_chain() {
    // Without events the server knows the height by its boot: blocks that come too fast would leave the height of its first timeout behind.
    let world = start_network(network_config(200)).await;
    while world.height() < 100 {
        world.network.devnet.node.produce_block().expect("made");
    }
    world.network.devnet.node.update_faults(|faults| faults.stall_websockets = true);
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || spawn_server(&rpc, &indexer, &[])).await.expect("joins");
    let client = svc::mcp_client::McpClient::connect(&served.url, served.token()).await.expect("connects");
    let call = client.call_tool(CREATE_ECOSYSTEM, into_arguments(ecosystem_arguments("first")));
    let unstall = async {
        world.wait_until("it is in a block", async || world.operator_txs_in_blocks() > 0).await;
        world.network.devnet.node.update_faults(|faults| faults.stall_websockets = false);
    };
    let (answer, ()) = tokio::join!(call, unstall);
    let answer = answer.expect("answered");
    assert_eq!(answer.is_error, Some(false), "{answer:?}");
    client.close().await;
    served.terminate();
}
