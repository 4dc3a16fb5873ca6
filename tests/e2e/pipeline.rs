//! Many calls at once go out on consecutive sequences, not one per block.

use std::collections::HashSet;

use super::{
    harness::{CREATE, arguments, config, ecosystem, quick, world},
    secrets::serve,
};

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writes_over_one_connection_are_indexed_within_four_blocks() {
    let world = world(config(1000)).await;
    let mut heights = world.network.devnet.node.heights();
    heights.changed().await.expect("a block");
    let start = world.height();
    let calls = (0..64).map(|index| world.client.call(CREATE, arguments(ecosystem(format!("parallel-{index}")))));
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

/// A server that boots on a chain with a history writes at once, before it has heard of any block.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_write_after_a_boot_counts_from_the_chain_s_height() {
    let world = quick().await;
    while world.height() < 100 {
        world.network.devnet.node.produce().expect("made");
    }
    world.network.devnet.node.faults(|faults| faults.stall_websockets = true);
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || serve(&rpc, &indexer, &[])).await.expect("joins");
    let client = svc::client::Client::connect(&served.url, served.token()).await.expect("connects");
    let call = client.call(CREATE, arguments(ecosystem("first")));
    let unstall = async {
        world.until("it is in a block", async || world.operator_txs_in_blocks() > 0).await;
        world.network.devnet.node.faults(|faults| faults.stall_websockets = false);
    };
    let (answer, ()) = tokio::join!(call, unstall);
    let answer = answer.expect("answered");
    assert_eq!(answer.is_error, Some(false), "{answer:?}");
    client.close().await;
    served.terminate();
}
