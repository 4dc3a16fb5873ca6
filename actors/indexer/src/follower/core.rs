//! The order of fetches and writes, and the node's announcements of heights. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::json;
use svc_net::websocket::{Reading, StreamProtocol};
use svc_wire::comet_rpc::{self, CometEvent, RpcResponse};

/// Blocks that are fetched at a time.
pub(super) const MAX_IN_FETCH: usize = 48;
/// Blocks that are fetched, or in fetch, ahead of the written ones: enough that the fetches go on while a transaction is written.
pub(super) const MAX_FETCH_AHEAD: u64 = 256;
/// Blocks of one transaction.
pub(super) const MAX_BATCH: usize = 64;

/// Interval of status polls. They find new heights while the WebSocket is silent or down.
pub(super) const STATUS_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Status polls between two questions for the version of the node's application: an upgrade has to be noticed within a minute.
const POLLS_OF_A_VERSION: u32 = 10;

/// The count of status polls.
#[derive(Debug, Default)]
pub(super) struct StatusPolls(u32);

impl StatusPolls {
    /// Counts a poll. Returns whether it also asks the node for its version: always after the end of a connection, since an upgrade ends it.
    pub(super) fn next_asks_version(&mut self, has_new_connection: bool) -> bool {
        self.0 = self.0.wrapping_add(1);
        has_new_connection || self.0.is_multiple_of(POLLS_OF_A_VERSION)
    }
}

/// An effect that the actor performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowerEffect<B> {
    /// Fetches the block of a height.
    Fetch(u64),
    /// Writes fetched blocks in one transaction.
    Write(Vec<B>),
}

/// The follower's decisions; `B` is a fetched block.
#[derive(Debug)]
pub struct FollowerCore<B> {
    committed: u64,
    tip: u64,
    heights_in_fetch: BTreeSet<u64>,
    /// All heights up to this one are fetched, or in fetch.
    requested_height: u64,
    fetched_blocks: BTreeMap<u64, B>,
    is_writing: bool,
    /// True from a failure to the next fetched block: one block at a time is fetched, since many requests to a node
    /// that has just restarted would keep the circuit breaker open.
    is_throttled: bool,
    /// True from a height that no node has until the next retry: nothing is fetched and written meanwhile.
    is_paused: bool,
    /// True until a node is known to have the history of the store.
    is_stopped: bool,
    /// Number of the fetches that count: it grows when all of them are forgotten.
    generation: u64,
}

impl<B: Clone> FollowerCore<B> {
    /// Continues after the block `committed`.
    pub fn new(committed: u64) -> Self {
        Self {
            committed,
            tip: committed,
            heights_in_fetch: BTreeSet::new(),
            requested_height: committed,
            fetched_blocks: BTreeMap::new(),
            is_writing: false,
            is_throttled: false,
            is_paused: false,
            is_stopped: false,
            generation: 0,
        }
    }

    /// Number of the fetches that count.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Records that no node is known to have the history of the store: nothing is fetched and written until [`Self::resume`].
    pub fn stop(&mut self) {
        self.is_stopped = true;
        // The fetches of now end in vain.
        self.generation += 1;
    }

    /// Whether no node is known to have the history of the store.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Records that a node has the history of the store, and forgets blocks and heights of other nodes.
    pub fn resume(&mut self) {
        self.is_stopped = false;
        self.heights_in_fetch.clear();
        self.fetched_blocks.clear();
        self.requested_height = self.committed;
        self.tip = self.committed;
        self.generation += 1;
    }

    /// Newest height that is written.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Newest height that the node is known to have.
    pub fn tip(&self) -> u64 {
        self.tip
    }

    /// Records the height of a node's status, also where a status or header before it was higher.
    pub fn tip_stated(&mut self, height: u64) -> Vec<FollowerEffect<B>> {
        self.tip = self.committed.max(height);
        self.advance()
    }

    /// Records a height of the node. The heights between it and the last one are fetched too.
    pub fn tip_seen(&mut self, height: u64) -> Vec<FollowerEffect<B>> {
        self.tip = self.tip.max(height);
        self.advance()
    }

    /// Records a fetched block.
    pub fn block_fetched(&mut self, height: u64, block: B) -> Vec<FollowerEffect<B>> {
        self.heights_in_fetch.remove(&height);
        self.is_throttled = false;
        if height > self.committed {
            self.fetched_blocks.insert(height, block);
        }
        self.advance()
    }

    /// Records a failed fetch; the next call of [`Self::advance`] repeats it. After a failure that needs another node only
    /// [`Self::retry`] does.
    pub fn fetch_failed(&mut self, height: u64, needs_another_node: bool) {
        self.heights_in_fetch.remove(&height);
        self.requested_height = self.requested_height.min(height.saturating_sub(1));
        self.is_throttled = true;
        self.is_paused |= needs_another_node;
    }

    /// Records that no node has the state which the next block needs.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// The delay after a failure is over.
    pub fn retry(&mut self) -> Vec<FollowerEffect<B>> {
        self.is_paused = false;
        self.advance()
    }

    /// Records that the first `count` of the current blocks are written, and that the others are not; the next call of
    /// [`Self::advance`] goes on with these.
    pub fn blocks_written(&mut self, count: usize) {
        self.is_writing = false;
        self.committed += count as u64;
        self.fetched_blocks = self.fetched_blocks.split_off(&(self.committed + 1));
    }

    /// Whether the next block is about to join the ready ones: far behind, a full transaction costs as much as a small one.
    fn is_worth_waiting(&self, ready: usize) -> bool {
        let is_far_behind = self.tip.saturating_sub(self.committed) > MAX_IN_FETCH as u64;
        let is_coming = self.heights_in_fetch.contains(&(self.committed + 1 + ready as u64));
        ready < MAX_BATCH && is_far_behind && is_coming && !self.is_throttled
    }

    /// Returns all effects that can be performed now.
    pub fn advance(&mut self) -> Vec<FollowerEffect<B>> {
        let mut effects = Vec::new();
        if self.is_paused || self.is_stopped {
            return effects;
        }
        let next = self.committed + 1;
        if !self.is_writing {
            let ready = (next..).map_while(|height| self.fetched_blocks.get(&height).cloned());
            let batch: Vec<B> = ready.take(MAX_BATCH).collect();
            if !batch.is_empty() && !self.is_worth_waiting(batch.len()) {
                self.is_writing = true;
                effects.push(FollowerEffect::Write(batch));
            }
        }
        let first = next.max(self.requested_height + 1);
        for height in first..=self.tip.min(self.committed + MAX_FETCH_AHEAD) {
            let limit = if self.is_throttled { 1 } else { MAX_IN_FETCH };
            if self.heights_in_fetch.len() >= limit {
                break;
            }
            self.requested_height = height;
            if !self.fetched_blocks.contains_key(&height) && self.heights_in_fetch.insert(height) {
                effects.push(FollowerEffect::Fetch(height));
            }
        }
        effects
    }
}

/// The node's subscription to headers of new blocks; its frames are heights. A text that announces none is ignored: the status of the
/// node shows its height each second anyway.
#[derive(Debug, Clone)]
pub struct HeaderStream;

impl StreamProtocol for HeaderStream {
    type Frame = u64;

    fn requests(&self) -> Vec<String> {
        let query = json!({"query": "tm.event='NewBlockHeader'"});
        vec![comet_rpc::build_request(1, "subscribe", query).to_string()]
    }

    fn read(&mut self, text: &str) -> Result<Reading<u64>, String> {
        let response = serde_json::from_str::<RpcResponse>(text).ok();
        let Some(result) = response.and_then(|response| response.result) else { return Ok(Reading::default()) };
        let height = CometEvent::parse(&result).map(|event| match event {
            CometEvent::NewBlock { header } => header.height,
            CometEvent::Tx { height, .. } => height,
        });
        Ok(Reading { frame: height, is_confirmed: true, ..Reading::default() })
    }
}
