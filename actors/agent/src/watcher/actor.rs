//! The shell of the registry watcher.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_agent_identity::chain_link::ChainError;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_net::{
    block_subscription::{BlockPatience, BlockSubscription, OUTSIDE_CONTRACT, PageError},
    upstream::{read_event_page, read_indexed_height},
    websocket::{ConnectionEpoch, LinkEvent},
};
use svc_otel::metrics;
use svc_wire::{
    block_subscription::{SubscriptionEffect, SubscriptionPhase},
    event_stream::StreamMessage,
};
use tokio::time::sleep;

use super::{
    Args, Msg, WatcherArgs,
    core::{CompleteBlock, EventCollector},
    cursor::{STORE_PAUSE, read_cursor},
    indexer_choice::IndexerChoice,
    proof::{StatedBlock, StoreFailure, is_consistent, prove_and_store},
    reactions::act_on,
    release,
};

/// Time between two looks for an indexer that has to be compared with the node.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(2);
/// Attempts in a row without a proof after which the connection ends, and another indexer may be selected.
const MAX_UNPROVEN: u32 = 10;
/// Blocks that may wait for the store while the watcher counts as live: each one waits for a moment.
const MAX_LIVE_BLOCKS: usize = 3;

/// State of the watcher.
pub struct State {
    args: Arc<Args>,
    subscription: BlockSubscription,
    /// Height from which a subscription begins while nothing is stored.
    first_height: Option<u64>,
    collector: EventCollector,
    /// Selects the indexer.
    choice: IndexerChoice,
    /// Blocks that are being stored.
    storing: Option<Vec<CompleteBlock>>,
    /// A block of the indexer that is still to be compared with the node's, and whether one of this connection was the same.
    stated: Option<StatedBlock>,
    is_same_chain: bool,
    /// Height of a block of this connection that differed.
    other_block: Option<u64>,
    /// Attempts in a row that the node did not prove, and whether there was one in this connection.
    unproven: u32,
    is_doubtful: bool,
    /// A page that is read once the store has caught up.
    held_page: Option<(u64, Option<String>)>,
}

/// The actor that watches the registry.
pub struct RegistryWatcher;

impl ActorBehaviour for RegistryWatcher {
    const KIND: &'static str = "registry_watcher";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let (stored, ids) = read_cursor(&args.watcher.store).await?;
        let before_start = args.watcher.start_height.map(|height| height.saturating_sub(1));
        let subscription = BlockSubscription::open(
            args.watcher.indexer.clone(),
            args.watcher.scope.clone(),
            BlockPatience::new(args.watcher.silence),
            None,
            context.mailbox(),
            Msg::Link,
        );
        args.state.with(|state| state.stored_height = stored);
        release::watch(context, args);
        let choice = IndexerChoice::new(&args.watcher.indexer, &args.watcher.pipeline)?;
        context.mailbox().send(Msg::CompareIndexers);
        Ok(State {
            args: Arc::clone(args),
            subscription,
            first_height: before_start,
            collector: EventCollector::new(stored, ids),
            choice,
            storing: None,
            stated: None,
            is_same_chain: false,
            other_block: None,
            unproven: 0,
            is_doubtful: false,
            held_page: None,
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Link(event) => state.receive(context, event),
            Msg::PageRead { epoch, page } => state.subscription.on_page(epoch, page),
            Msg::HeightRead { epoch, height } => state.subscription.on_height(epoch, height),
            Msg::Stored { epoch, result } => {
                state.finish_store(context, epoch, result);
                Vec::new()
            }
            Msg::StoreAgain => {
                state.storing = None;
                Vec::new()
            }
            Msg::CompareIndexers => {
                state.subscription.follow_current();
                state.compare_indexers(context);
                Vec::new()
            }
            Msg::IndexerFound { better } => {
                state.subscription.switch_to(&better);
                Vec::new()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        if let (SubscriptionPhase::Live, Some(height)) =
            (state.subscription.phase(), state.subscription.processed_height())
        {
            state.collector.complete(height);
            state.first_height = state.first_height.or(Some(height));
        }
        state.store_blocks(context);
        state.publish();
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "phase": format!("{:?}", state.subscription.phase()), "stored": state.collector.cursor(),
            "skipped": state.collector.skipped(),
        })
    }
}

impl State {
    fn receive(&mut self, context: &ActorContext<Msg>, event: LinkEvent<StreamMessage>) -> Vec<SubscriptionEffect> {
        match self.subscription.accept(event) {
            Some(LinkEvent::Up { .. }) => self.begin_again(),
            Some(LinkEvent::Frame { frame, .. }) if is_consistent(&frame) => {
                if !self.is_same_chain && self.stated.is_none() {
                    self.stated = StatedBlock::of(&frame);
                }
                let has_promise = self.choice.commits_before_ready(self.subscription.indexer().current().origin());
                return self.subscription.on_message(frame, has_promise);
            }
            Some(LinkEvent::Frame { .. }) => self.subscription.reconnect(OUTSIDE_CONTRACT),
            Some(LinkEvent::Down { .. }) => {
                self.held_page = None;
                self.replace_indexer(context);
            }
            Some(LinkEvent::Silent { .. }) => return self.subscription.on_silence(),
            Some(LinkEvent::Ready { .. }) | None => {}
        }
        Vec::new()
    }

    /// Compares the indexers with the node once more, and again after a while. One that is left out is replaced.
    fn compare_indexers(&self, context: &ActorContext<Msg>) {
        let (choice, stored, mailbox) = (self.choice.clone(), self.collector.cursor(), context.mailbox());
        context.spawn(async move {
            if let Some(better) = choice.compare(stored).await {
                mailbox.send(Msg::IndexerFound { better });
            }
            sleep(COMPARISON_INTERVAL).await;
            mailbox.send(Msg::CompareIndexers);
        });
    }

    /// The connection to the indexer has ended: another one may be used now.
    fn replace_indexer(&self, context: &ActorContext<Msg>) {
        let (choice, stored, mailbox) = (self.choice.clone(), self.collector.cursor(), context.mailbox());
        let connected = self.subscription.indexer().clone();
        context.spawn(async move {
            if let Some(better) = choice.select(connected, stored).await {
                mailbox.send(Msg::IndexerFound { better });
            }
        });
    }

    /// A connection is open.
    fn begin_again(&mut self) {
        self.collector.begin_again();
        if self.is_doubtful {
            self.first_height = self.before_start();
        }
        (self.stated, self.is_same_chain, self.is_doubtful) = (None, false, false);
        (self.other_block, self.unproven) = (None, 0);
        // A connection begins with the newest stored block, which is read again: an indexer may have further events of it.
        let stored = self.collector.cursor().map(|cursor| cursor.saturating_sub(1));
        self.subscription.begin_after(stored.or(self.first_height));
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: SubscriptionEffect) {
        match effect {
            SubscriptionEffect::ReadHeight => {
                let (mailbox, epoch) = (context.mailbox(), self.subscription.epoch());
                let indexer = self.subscription.indexer().clone();
                context.spawn(async move {
                    let height = read_indexed_height(indexer.current()).await;
                    mailbox.send(Msg::HeightRead { epoch, height: height.map_err(|error| error.to_string()) });
                });
            }
            SubscriptionEffect::ReadPage { after, cursor } => self.held_page = Some((after, cursor)),
            SubscriptionEffect::Deliver { events } => {
                metrics::record_registry_events(events.len());
                let WatcherArgs { handled, resolution, credentials, flows, .. } = &self.args.watcher;
                act_on(&events, handled, resolution, credentials, flows);
                let notifications = self.args.watcher.notifications;
                self.collector.take(events, |event| notifications.id(event));
                if self.collector.is_full() && self.subscription.phase() == SubscriptionPhase::Live {
                    self.subscription.reconnect("the store is slower than the chain");
                }
            }
            SubscriptionEffect::PublishHeight { height } => {
                metrics::record_ws_last_block("indexer", height);
            }
            SubscriptionEffect::Reconnect { reason } => self.subscription.reconnect(reason),
            SubscriptionEffect::MissBlocks { first, last } => {
                tracing::error!(
                    first,
                    last,
                    "the indexer begins with a later block: the events of these blocks are missed, and the registry is read again"
                );
                self.args.watcher.resolution.registry_changed();
                self.args.watcher.credentials.registry_changed();
                self.args.watcher.flows.grants_changed();
            }
            SubscriptionEffect::LoseEvents { height } => {
                tracing::error!(height, "the indexer gives a page of this block only: its other events are lost");
            }
        }
    }

    /// Whether the chain has another history than the agent: nothing is stored until a person rebases the stopped agent.
    fn has_changed(&self) -> bool {
        self.args.watcher.pipeline.journal().chain_change().is_some()
    }

    /// Stores the complete blocks, one transaction at a time, and then reads the next page.
    fn store_blocks(&mut self, context: &ActorContext<Msg>) {
        if self.storing.is_some() || self.has_changed() {
            return;
        }
        let blocks = self.collector.next_blocks();
        if blocks.is_empty() {
            if let Some((after, cursor)) = self.held_page.take() {
                self.read_page(context, after, cursor);
            }
            return;
        }
        // Nothing of an indexer is stored before a block of it was compared with the node's.
        if !self.is_same_chain && self.stated.is_none() {
            return;
        }
        let (args, mailbox, epoch) = (Arc::clone(&self.args), context.mailbox(), self.subscription.epoch());
        let stated = self.stated.clone().filter(|_| !self.is_same_chain);
        self.storing = Some(blocks.clone());
        context.spawn(async move {
            let result = prove_and_store(&args, stated.as_ref(), &blocks).await;
            mailbox.send(Msg::Stored { epoch, result });
        });
    }

    fn finish_store(&mut self, context: &ActorContext<Msg>, epoch: ConnectionEpoch, result: Result<(), StoreFailure>) {
        // The proof of an earlier connection is one of another indexer.
        let is_current = epoch == self.subscription.epoch();
        match result {
            Ok(()) => self.args.watcher.guard.note_write(true),
            Err(StoreFailure::Store(error)) => {
                self.args.watcher.guard.note_write(false);
                tracing::warn!(%error, "events cannot be stored");
                context.send_after(STORE_PAUSE, Msg::StoreAgain);
                return;
            }
            Err(StoreFailure::Unproven(reason)) => {
                tracing::warn!(reason, "events are not stored before the node has proven them");
                context.send_after(STORE_PAUSE, Msg::StoreAgain);
                if is_current {
                    self.note_unproven();
                }
                return;
            }
            Err(StoreFailure::OtherBlock { height, is_own }) => {
                if is_current {
                    self.note_other_block(height, is_own);
                }
                context.send_after(STORE_PAUSE, Msg::StoreAgain);
                return;
            }
            Err(StoreFailure::NodeBehind) => {
                tracing::debug!("events are not stored before the node has their block");
                context.send_after(STORE_PAUSE, Msg::StoreAgain);
                return;
            }
            Err(StoreFailure::OtherHistory { height, known, found }) => {
                tracing::error!(height, known, found, "the node has another block than the events were stored from");
                context.send_after(STORE_PAUSE, Msg::StoreAgain);
                return;
            }
            Err(StoreFailure::Refused) => return,
        }
        if is_current {
            (self.is_same_chain, self.stated) = (true, None);
            (self.other_block, self.unproven, self.is_doubtful) = (None, 0, false);
        }
        let Some(blocks) = self.storing.take() else { return };
        let notifications = self.args.watcher.notifications;
        self.collector.stored(&blocks, |event| notifications.id(event));
        let has_events = blocks.iter().any(|block| !block.events.is_empty());
        if let Some(courier) = self.args.watcher.courier.as_ref().filter(|_| has_events) {
            courier.events_stored();
        }
    }

    /// The node does not prove the indexer's block: it is behind for a moment, or the indexer is one of another chain.
    fn note_unproven(&mut self) {
        (self.unproven, self.is_doubtful) = (self.unproven + 1, true);
        if self.unproven.is_multiple_of(MAX_UNPROVEN) {
            self.subscription.reconnect("the node does not prove the blocks of the indexer");
        }
    }

    /// The indexer and the node have different blocks. A message that is not about its block alone may have another time; two blocks are
    /// another chain.
    fn note_other_block(&mut self, height: u64, is_own: bool) {
        (self.stated, self.is_doubtful) = (None, true);
        let watcher = &self.args.watcher;
        let (indexer, node) = (self.subscription.indexer().current().origin(), watcher.pipeline.node().origin());
        tracing::error!(indexer, node, height, "the indexer and the node have different blocks at a height");
        if !is_own {
            return;
        }
        if self.other_block.is_some_and(|other| other != height) {
            let (indexer, node) = (indexer.to_owned(), node.to_owned());
            watcher.chain.refuse(ChainError::OtherIndexer { indexer, node, height });
        }
        self.other_block = Some(height);
    }

    /// Height below the first one that is wanted, while nothing is stored.
    fn before_start(&self) -> Option<u64> {
        self.args.watcher.start_height.map(|height| height.saturating_sub(1))
    }

    fn read_page(&self, context: &ActorContext<Msg>, after: u64, cursor: Option<String>) {
        let (args, mailbox, epoch) = (Arc::clone(&self.args), context.mailbox(), self.subscription.epoch());
        let indexer = self.subscription.indexer().clone();
        context.spawn(async move {
            let page = read_event_page(indexer.current(), &args.watcher.scope, after, cursor.as_deref()).await;
            mailbox.send(Msg::PageRead { epoch, page: page.map_err(PageError::from) });
        });
    }

    fn publish(&self) {
        let phase = self.subscription.phase();
        // An indexer of which no block was compared with the node's may follow another chain.
        let is_proven = phase == SubscriptionPhase::Live && self.is_same_chain;
        let is_live = is_proven && !self.has_changed() && self.collector.next_blocks().len() <= MAX_LIVE_BLOCKS;
        let was_live = self.args.state.with(|state| {
            state.stored_height = self.collector.cursor();
            state.is_silent = self.subscription.is_silent();
            state.is_connected = phase != SubscriptionPhase::Connecting;
            state.skipped = self.collector.skipped();
            std::mem::replace(&mut state.is_live, is_live)
        });
        if is_live && !was_live {
            // Events may have been missed behind a gap of the index.
            self.args.watcher.flows.read_all();
        }
    }
}
