//! A chain that goes back by 5,000 blocks, and a rollback that is killed between its steps.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use svc_indexer::{IndexerConfig, verify_index};

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO,
    another_history::{
        Grounds, assert_names_both, await_stop, hash_at, make_blocks, newest, roll_back_when_free, rollback,
    },
    await_indexed,
    pruned_state::store_digests,
    read_ok,
};

const FAR: u64 = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_by_5000_blocks_that_is_killed_between_its_steps_goes_on_and_ends_as_a_fresh_index() {
    let grounds = Grounds::with_scenario(MARKETPLACE_SCENARIO).await;
    let (node, common) = (grounds.node(), newest(grounds.node()));
    store_digests(&grounds.chain.devnet, 1..4).await;
    make_blocks(node, FAR - (newest(node) - common));
    let replica = grounds.index().await;
    let stored = hash_at(node, common + 1);
    node.go_back(common).expect("goes back");
    make_blocks(node, 1);
    let words = await_stop(&replica.origin).await;
    assert_names_both(&words, common + 1, &stored, &hash_at(node, common + 1));
    drop(replica);
    store_digests(&grounds.chain.devnet, 3..6).await;

    // The first attempts end before they begin: the indexer has not let go of its store.
    let shown = loop {
        let mut running =
            rollback(&grounds, common).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("runs");
        let mut lines = BufReader::new(running.stderr.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("a text");
        running.kill().expect("killed");
        running.wait().expect("ended");
        if !first.contains("stop the indexer first") {
            break first;
        }
    };
    assert!(shown.contains("the index is at block "), "{shown}");
    let left = shown.split("at block ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let left: u64 = left.parse().expect("a height");
    assert!(left > common, "killed after the first step: {shown}");
    let done = roll_back_when_free(&grounds, common);
    assert!(done.status.success(), "{done:?}");

    let replica = grounds.index().await;
    let fresh = IndexerReplica::launch(IndexerConfig::new(node.origin(), "sqlite::memory:")).await;
    await_indexed(&fresh.origin, newest(node)).await;
    let events = format!("/v4/indexer/events?after_block_height={}&limit=500", common - 1);
    for path in [&events, "/v4/indexer/block-height", "/v4/corporation/list"] {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&fresh.origin, path).await, "{path}");
    }
    let found = verify_index(&grounds.config(node.origin()), None).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
}
