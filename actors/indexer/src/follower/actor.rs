//! The shell of the follower: fetches and writes blocks, follows the node's WebSocket, and polls its status.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::{
    upstream::{BlockHead, ConfirmedHeight},
    websocket::{LinkConfig, LinkEvent, WebSocketLink},
};
use svc_otel::metrics::{self, BlockStage};
use svc_wire::{event_stream::BlockMessage, timestamp};
use tokio::time::Instant;

use super::{
    Args, FollowerState, LastError, Msg,
    batch::write_blocks,
    core::{FollowerCore, FollowerEffect, HeaderStream, STATUS_POLL_INTERVAL, StatusPolls},
    fetch::fetch_block,
    node_answers::{NodeSilence, StatedHeights, block_age},
    node_histories::{compare_status, settle_dispute},
};
use crate::{
    ingest::{FetchedBlock, HistoryMismatch, IngestError, start_of_empty_store},
    store::IndexStoreError,
};

pub struct State {
    args: Arc<Args>,
    link: WebSocketLink,
    core: FollowerCore<Arc<FetchedBlock>>,
    is_retry_scheduled: bool,
    /// Whether the nodes are being compared with the store.
    is_comparing: bool,
    /// Whether they were compared since the start, or since a mismatch.
    has_compared: bool,
    /// Whether the connection has ended since the node was last asked for its version.
    has_new_connection: bool,
    polls: StatusPolls,
    /// The last new block, or the last moment without one to take in.
    moved_at: Instant,
    heights: StatedHeights,
    silence: NodeSilence,
    /// Height of the block of `last_error`.
    failed_height: Option<u64>,
    /// Time of the newest block of the store, nanoseconds since the epoch; `None` without one.
    newest_time: Option<i128>,
}

pub struct Follower;

/// Delay of a retry after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// The same for a height that no node has any more, for a genesis that no node serves, and for a list that may be cut.
const LONG_RETRY_DELAY: Duration = Duration::from_secs(5);

impl ActorBehaviour for Follower {
    const KIND: &'static str = "follower";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let checkpoint = args.store.checkpoint().await.map_err(|error| ActorFailure(error.to_string()))?;
        let config = LinkConfig::with_endpoints("rpc", args.node.endpoints().clone(), "/websocket");
        let link = WebSocketLink::open(config, HeaderStream, context.mailbox(), Msg::Link);
        context.send_after(Duration::ZERO, Msg::PollStatus);
        let mut core = FollowerCore::new(checkpoint.height.max(args.start_height.get().saturating_sub(1)));
        // Until the nodes are compared with the store.
        core.stop();
        Ok(State {
            args: Arc::clone(args),
            link,
            core,
            is_comparing: false,
            has_compared: false,
            is_retry_scheduled: false,
            has_new_connection: false,
            polls: StatusPolls::default(),
            moved_at: Instant::now(),
            heights: StatedHeights::default(),
            silence: NodeSilence::new(Instant::now()),
            failed_height: None,
            newest_time: Some(checkpoint.time).filter(|_| checkpoint.height > 0),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Link(event) => match state.link.accept(event) {
                Some(LinkEvent::Up { .. }) => {
                    state.poll_status(context);
                    state.core.advance()
                }
                Some(LinkEvent::Frame { frame: height, .. }) => state.header_seen(height),
                Some(LinkEvent::Down { .. }) => {
                    state.has_new_connection = true;
                    Vec::new()
                }
                Some(LinkEvent::Ready { .. } | LinkEvent::Silent { .. }) | None => Vec::new(),
            },
            Msg::StatusRead { head, confirmed } => state.status_read(head, confirmed),
            Msg::StatusFailed { error } => {
                tracing::debug!(error, "no node has answered with its status");
                Vec::new()
            }
            Msg::HistoriesCompared { stop, is_new } => state.histories_compared(stop, is_new),
            Msg::Fetched { generation, .. } if generation != state.core.generation() => Vec::new(),
            Msg::Fetched { height, result: Ok(fetched), .. } => state.core.block_fetched(height, Arc::new(*fetched)),
            Msg::Fetched { height, result: Err(error), .. } => {
                if let Some(start) = state.later_start(&error) {
                    return Err(state.begin_anew(start));
                }
                metrics::record_indexer_failure(BlockStage::Fetch);
                state.record_failure(height, &error);
                state.core.fetch_failed(height, needs_another_node(&error));
                state.schedule_retry(context, retry_delay(&error));
                Vec::new()
            }
            Msg::Written { blocks, error } => {
                state.core.blocks_written(blocks.len());
                state.publish(blocks);
                match error {
                    // The reason of the stop stays.
                    _ if state.core.is_stopped() => Vec::new(),
                    None => {
                        state.clear_failure();
                        state.core.advance()
                    }
                    Some(IngestError::OtherHistory { mismatch, origin }) => {
                        state.args.histories.leave_out(&state.args.node, &origin, &mismatch);
                        state.core.stop();
                        state.has_compared = false;
                        state.poll_status(context);
                        Vec::new()
                    }
                    // The pages are not those that the block was fetched with: they are read again.
                    Some(IngestError::Store(error @ IndexStoreError::StartMoved)) => {
                        return Err(ActorFailure(error.to_string()));
                    }
                    Some(error) => {
                        if let Some(start) = state.later_start(&error) {
                            return Err(state.begin_anew(start));
                        }
                        metrics::record_indexer_failure(BlockStage::Write);
                        state.record_failure(state.core.committed() + 1, &error);
                        if needs_another_node(&error) {
                            state.core.pause();
                        }
                        state.schedule_retry(context, retry_delay(&error));
                        Vec::new()
                    }
                }
            }
            Msg::StartPageWritten { progress } => {
                state.moved_at = Instant::now();
                metrics::record_start_page(progress.entries);
                tracing::debug!(
                    pages = progress.pages,
                    entries = progress.entries,
                    "a page of the first entities is written"
                );
                Vec::new()
            }
            Msg::PollStatus => {
                state.note_time();
                state.poll_status(context);
                context.send_after(STATUS_POLL_INTERVAL, Msg::PollStatus);
                Vec::new()
            }
            Msg::Retry => {
                state.is_retry_scheduled = false;
                state.core.retry()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let observed = FollowerState {
            committed: state.core.committed(),
            tip: state.core.tip(),
            block_age_seconds: state.block_age(),
            is_stuck: state.core.tip() > state.core.committed() && state.moved_at.elapsed() > state.args.stuck_after(),
            last_error: state.args.last_error.with(|error| error.clone()),
        };
        serde_json::to_value(observed).unwrap_or_default()
    }
}

fn retry_delay(error: &IngestError) -> Duration {
    if needs_another_node(error) { LONG_RETRY_DELAY } else { RETRY_DELAY }
}

/// Whether only another configuration can help, or a node that comes back.
fn needs_another_node(error: &IngestError) -> bool {
    matches!(error, IngestError::Pruned(_) | IngestError::Genesis(_) | IngestError::CutList(_))
}

impl State {
    /// Returns the height at which an empty store begins, where no node has the one that was chosen any more. A configured one stays.
    fn later_start(&self, error: &IngestError) -> Option<u64> {
        let IngestError::Pruned(pruned) = error else { return None };
        let is_gone = pruned.is_empty && pruned.oldest > self.args.start_height.get();
        (is_gone && !self.args.is_start_configured).then(|| start_of_empty_store(pruned.oldest, self.core.tip()))
    }

    /// Has every actor begin with another height. The entities that were written for the earlier one are removed.
    fn begin_anew(&self, start: u64) -> ActorFailure {
        let pruned = self.args.start_height.get();
        tracing::warn!(start, pruned, "no node has the state of the first height any more: the index begins later");
        self.args.start_height.move_to(start);
        self.args.hub.restart();
        self.args.trust_evaluator.restart();
        ActorFailure(format!("the index begins with height {start}"))
    }

    /// Hands blocks that are in the store to the hub and the trust evaluator.
    fn publish(&mut self, blocks: Vec<BlockMessage>) {
        let (Some(newest), tip) = (blocks.last().map(|block| block.block), self.core.tip()) else { return };
        self.moved_at = Instant::now();
        let time =
            |block: &BlockMessage| timestamp::parse_rfc3339(&block.block_time).as_ref().map(timestamp::unix_nanos);
        let times: Vec<i128> = blocks.iter().filter_map(time).collect();
        self.newest_time = times.last().copied().or(self.newest_time);
        self.args.block_interval.record_blocks(times);
        self.args.messages.blocks_written(newest);
        metrics::record_indexer_progress(newest, tip, Duration::ZERO);
        for block in &blocks {
            tracing::debug!(height = block.block, tip, events = block.events.len(), "block is indexed");
            metrics::record_indexer_events(block.events.iter().map(|event| event.payload.module.as_str()));
        }
        // The hub reads a block that it did not receive from the store: at its start, or before the next block.
        let _ = self.args.hub.publish_blocks(blocks);
        self.args.trust_evaluator.block_stored(newest);
    }

    /// A header of a new block has come from the node in use.
    fn header_seen(&mut self, height: u64) -> Vec<FollowerEffect<Arc<FetchedBlock>>> {
        self.note_answer();
        let is_believed = self.heights.believes(height, self.is_only_node(), Instant::now());
        if is_believed { self.core.tip_seen(height) } else { Vec::new() }
    }

    /// The node in use has answered with its newest block.
    fn status_read(
        &mut self,
        head: BlockHead,
        confirmed: Option<ConfirmedHeight>,
    ) -> Vec<FollowerEffect<Arc<FetchedBlock>>> {
        self.note_answer();
        let (height, now) = (head.height, Instant::now());
        if !self.heights.record(head, confirmed, self.is_only_node(), now) {
            let (origin, plausible) = (self.args.node.origin(), self.heights.plausible_height(now));
            tracing::warn!(origin, height, plausible, "the node states a height that no other node confirms yet");
            return Vec::new();
        }
        if height <= self.core.committed() {
            self.moved_at = Instant::now();
        }
        let effects = self.core.tip_stated(height);
        // A height that the node does not state any more has not failed.
        if self.failed_height.is_some_and(|failed| failed > self.core.tip()) {
            self.clear_failure();
        }
        effects
    }

    fn is_only_node(&self) -> bool {
        !self.args.node.endpoints().has_alternatives()
    }

    /// A node has answered.
    fn note_answer(&mut self) {
        if self.silence.end(Instant::now()) {
            tracing::info!("a node answers again");
            metrics::record_nodes_away(false);
            // The reason of another stop stays.
            if !self.core.is_stopped() {
                self.clear_failure();
            }
        }
    }

    /// The age of the newest block moves by the clock, and so do the silence of the nodes and the time without a new block.
    fn note_time(&mut self) {
        let (committed, tip) = (self.core.committed(), self.core.tip());
        let idle = if tip > committed { self.moved_at.elapsed() } else { Duration::ZERO };
        metrics::record_indexer_progress(committed, tip, idle);
        if let Some(age) = self.block_age() {
            metrics::record_block_age(age);
        }
        let limit = self.args.away_after();
        if !self.silence.check(Instant::now(), limit) {
            return;
        }
        metrics::record_nodes_away(true);
        // The reason of another stop stays.
        if !self.core.is_stopped() {
            let message = format!("no node has answered for {} s", limit.as_secs_f64());
            tracing::error!(reason = message, "the indexer has stopped");
            let error = LastError { message, timestamp: wall_clock::now_rfc3339() };
            self.args.last_error.with(|last| *last = Some(error));
        }
    }

    /// Seconds since the newest block that is written.
    fn block_age(&self) -> Option<u64> {
        self.newest_time.map(|time| block_age(time, timestamp::unix_nanos(&wall_clock::now())))
    }

    /// Forgets the failure of the last attempt. While no node answers, the reason of that stop stays.
    fn clear_failure(&mut self) {
        self.failed_height = None;
        if self.silence.is_too_long() {
            return;
        }
        self.args.last_error.with(|error| *error = None);
    }

    fn record_failure(&mut self, height: u64, error: &IngestError) {
        tracing::warn!(height, %error, "block is not indexed; the follower will retry");
        // The reason of the stop stays.
        if self.silence.is_too_long() {
            return;
        }
        self.failed_height = Some(height);
        let message = format!("block {height}: {}", error.public_message());
        let error = LastError { message, timestamp: wall_clock::now_rfc3339() };
        self.args.last_error.with(|last| *last = Some(error));
    }

    /// Goes on with the nodes that have the history of the store, or stops.
    fn histories_compared(
        &mut self,
        stop: Option<HistoryMismatch>,
        is_new: bool,
    ) -> Vec<FollowerEffect<Arc<FetchedBlock>>> {
        self.is_comparing = false;
        if is_new {
            self.note_answer();
        }
        match stop {
            Some(mismatch) => {
                self.core.stop();
                self.failed_height = None;
                let error = LastError { message: mismatch.to_string(), timestamp: wall_clock::now_rfc3339() };
                // The time is that of the stop.
                self.args.last_error.with(|last| {
                    if last.as_ref().is_none_or(|last| last.message != error.message) {
                        tracing::error!(reason = error.message, "the indexer has stopped");
                        *last = Some(error);
                    }
                });
            }
            None if is_new || !self.has_compared || self.core.is_stopped() => {
                self.clear_failure();
                if self.args.histories.has_left_out() {
                    // Heights of a node that is left out do not count.
                    self.link.reconnect("a node with another history is left out");
                }
                self.core.resume();
            }
            None => {}
        }
        self.has_compared = true;
        self.core.advance()
    }

    fn schedule_retry(&mut self, context: &ActorContext<Msg>, delay: Duration) {
        if !self.is_retry_scheduled {
            self.is_retry_scheduled = true;
            context.send_after(delay, Msg::Retry);
        }
    }

    fn poll_status(&mut self, context: &ActorContext<Msg>) {
        let (args, node, mailbox) = (Arc::clone(&self.args), self.args.node.clone(), context.mailbox());
        let has_new_connection = std::mem::take(&mut self.has_new_connection);
        let compares = !self.is_comparing && (!self.has_compared || args.histories.has_left_out());
        self.is_comparing |= compares;
        let plausible = self.heights.plausible_height(Instant::now());
        let may_have_other_messages = self.polls.next_asks_version(has_new_connection);
        context.spawn(async move {
            if may_have_other_messages {
                args.messages.refresh(&args.node, has_new_connection).await;
            }
            let stop = if compares { Some(args.histories.look(&node, &args.store).await) } else { None };
            // With several nodes the best one is followed from now on.
            let confirmed = node.select_current(Some(plausible)).await;
            if let Some(stop) = stop {
                mailbox.send(Msg::HistoriesCompared { stop, is_new: false });
            }
            let current = node.pinned();
            settle_dispute(&node, &args.store).await;
            let status = match current.status().await {
                Ok(status) => status,
                Err(error) => {
                    mailbox.send(Msg::StatusFailed { error: error.to_string() });
                    return;
                }
            };
            match compare_status(&status, &args.store).await {
                // The chain went back, or another one began.
                Some(mismatch) => {
                    args.histories.leave_out(&node, current.origin(), &mismatch);
                    let stop = args.histories.look(&node, &args.store).await;
                    node.select_current(Some(plausible)).await;
                    mailbox.send(Msg::HistoriesCompared { stop, is_new: true });
                }
                None => {
                    mailbox.send(match BlockHead::of_status(&status.sync_info) {
                        Some(head) => Msg::StatusRead { head, confirmed },
                        None => {
                            let time = status.sync_info.latest_block_time;
                            Msg::StatusFailed { error: format!("the newest block of the node has the time {time:?}") }
                        }
                    });
                }
            }
        });
    }

    fn perform(&self, context: &ActorContext<Msg>, effect: FollowerEffect<Arc<FetchedBlock>>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            FollowerEffect::Fetch(height) => {
                let (has_successor, generation) = (height < self.core.tip(), self.core.generation());
                context.spawn(async move {
                    let started = Instant::now();
                    let on_page = |progress| {
                        mailbox.send(Msg::StartPageWritten { progress });
                    };
                    let fetched = fetch_block(&args, height, has_successor, &on_page).await;
                    metrics::record_indexer_stage(BlockStage::Fetch, started.elapsed());
                    mailbox.send(Msg::Fetched { height, generation, result: fetched.map(Box::new) });
                });
            }
            FollowerEffect::Write(fetched) => {
                context.spawn(async move {
                    let (blocks, error) = write_blocks(&args, &fetched).await;
                    mailbox.send(Msg::Written { blocks, error });
                });
            }
        }
    }
}
