//! A node that goes back: its chain loses blocks and makes others. Then a person rebases the journal and rolls the index back.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use svc_devnet::node::Node;
use svc_wire::tx;

use crate::{
    STARTUP_TIMEOUT, SoakServers, fault_injector::start_node, index_reader::IndexReader, wait_until,
    writer_pool::WriterPool,
};

/// Blocks that the chain loses each time.
pub const LOST_BLOCKS: u64 = 20;
/// The code of a write while a person has not decided about the other history.
const CHAIN_CHANGED: &str = "CHAIN_CHANGED";

/// Transactions of the blocks that the chain has lost: their heights by hash.
#[derive(Debug, Default)]
pub struct LostTransactions(BTreeMap<String, BTreeSet<u64>>);

impl LostTransactions {
    fn add(&mut self, node: &Node, above: u64) {
        node.read_core(|core| {
            for block in core.blocks().iter().filter(|block| block.height > above) {
                for bytes in &block.txs {
                    self.0.entry(tx::tx_hash(bytes)).or_default().insert(block.height);
                }
            }
        });
    }

    /// Whether a lost block had the transaction.
    pub fn has(&self, hash: &str) -> bool {
        self.0.contains_key(hash)
    }

    /// Whether a lost block of that height had the transaction.
    pub fn has_at(&self, hash: &str, height: u64) -> bool {
        self.0.get(hash).is_some_and(|heights| heights.contains(&height))
    }
}

/// Takes the newest blocks from the chain under writes that go on, has tool server and indexer notice it, and then does as a person is asked
/// to do. Blocks up to `first` stay. Returns the words of each step that has not gone well.
pub async fn lose_blocks(
    node: &Node,
    servers: &SoakServers,
    writers: &WriterPool,
    index: &IndexReader,
    (first, lost): (u64, &mut LostTransactions),
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut heights = node.watch_heights();
    let newest = *heights.wait_for(|height| *height >= first + LOST_BLOCKS).await.expect("the chain goes on");
    let to = newest - LOST_BLOCKS;
    index.begin_another_history();
    // It makes no block while those that it loses are read.
    node.stop();
    lost.add(node, to);
    node.go_back(to).expect("goes back");
    start_node(node).await;
    let refusals = writers.count_answers(CHAIN_CHANGED);
    let noticed = wait_until(async || {
        let is_stopped = servers.indexer.status("/healthz").await == Some(503);
        is_stopped && writers.count_answers(CHAIN_CHANGED) > refusals
    });
    if !noticed.await {
        problems.push(format!(
            "no CHAIN_CHANGED or no stop of the indexer {STARTUP_TIMEOUT:?} after the chain went back to {to}"
        ));
    }
    let height = to.to_string();
    for (server, signal, words) in [
        (&servers.tools, Signal::KILL, ["journal", "rebase", "--to", &height]),
        (&servers.indexer, Signal::TERM, ["indexer", "rollback", "--to", &height]),
    ] {
        let ended = server.run_while_down(signal, server.command_with_settings(&words)).await;
        if !ended.status.success() {
            problems.push(format!("{words:?}: {}", String::from_utf8_lossy(&ended.stderr)));
        }
    }
    if !servers.is_up().await {
        problems.push("the tool server did not come up after its journal was rebased".to_owned());
    }
    problems
}
