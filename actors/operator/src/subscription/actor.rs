//! The actor around the decisions of the subscription.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::{
    block_subscription::{BlockPatience, BlockSubscription, PageError},
    upstream::{UpstreamEndpoints, read_event_page, read_indexed_height},
    websocket::LinkEvent,
};
use svc_otel::metrics;
use svc_wire::{
    block_subscription::{SubscriptionEffect, SubscriptionPhase, SubscriptionScope},
    event_stream::StreamMessage,
};

use tokio::time::Instant;

use super::{Args, Msg};

/// State of a subscription.
pub struct State {
    args: Arc<Args>,
    subscription: BlockSubscription,
    /// Whether there is a connection.
    is_connected: bool,
    /// Height of the connection. It counts once the indexer is known to follow the node's chain.
    stated_height: u64,
    /// Whether the indexer is below the height that it had reached: its index was rolled back, or is a new one.
    has_fallen: bool,
}

/// The actor that owns the WebSocket to the indexer.
pub struct IndexerSubscription;

/// Time between two comparisons of the indexers.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(2);
/// The same while the indexer in use could not be compared with the node, so that its heights do not count.
const UNVERIFIED_INTERVAL: Duration = Duration::from_millis(500);

impl ActorBehaviour for IndexerSubscription {
    const KIND: &'static str = "subscription";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let processed = args.position.with(|position| position.processed);
        let subscription = BlockSubscription::open(
            args.indexer.endpoints().clone(),
            SubscriptionScope::Corporation(args.corporation_id),
            BlockPatience::new(None),
            processed,
            context.mailbox(),
            Msg::Link,
        );
        context.send_after(COMPARISON_INTERVAL, Msg::CompareEndpoints);
        Ok(State { args: Arc::clone(args), subscription, is_connected: false, stated_height: 0, has_fallen: false })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Link(event) => state.receive(context, event),
            Msg::PageRead { epoch, page } => state.subscription.on_page(epoch, page),
            Msg::HeightRead { epoch, height } => {
                // The next connection begins at the lower height.
                let is_low = height.as_ref().is_ok_and(|height| state.is_below_processed(*height));
                if is_low && state.subscription.is_current(epoch) {
                    state.subscription.reconnect("the indexer is below the height that it had reached");
                }
                state.subscription.on_height(epoch, height)
            }
            Msg::CompareEndpoints => {
                state.choose_endpoint(context);
                let is_followed =
                    state.is_connected && state.args.indexer.guard().is_followed(state.connected_origin());
                let interval = if is_followed { COMPARISON_INTERVAL } else { UNVERIFIED_INTERVAL };
                context.send_after(interval, Msg::CompareEndpoints);
                Vec::new()
            }
            Msg::EndpointChosen { better } => {
                state.follow_choice(better);
                Vec::new()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let is_silent = state.subscription.is_silent();
        let is_live = state.subscription.phase() == SubscriptionPhase::Live && !is_silent;
        state.args.position.with(|position| {
            position.processed = state.subscription.processed_height();
            (position.is_live, position.is_silent) = (is_live, is_silent);
        });
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "corporation_id": state.args.corporation_id, "phase": format!("{:?}", state.subscription.phase()),
            "processed": state.subscription.processed_height(),
        })
    }
}

impl State {
    fn receive(&mut self, context: &ActorContext<Msg>, event: LinkEvent<StreamMessage>) -> Vec<SubscriptionEffect> {
        match self.subscription.accept(event) {
            Some(LinkEvent::Up { .. }) => {
                (self.is_connected, self.stated_height) = (true, 0);
                self.choose_endpoint(context);
            }
            Some(LinkEvent::Frame { frame, .. }) => {
                self.args.position.with(|position| position.last_event_at = Some(wall_clock::now_rfc3339()));
                // The announced block is the next one.
                if let StreamMessage::Ready { block, .. } = frame
                    && self.is_below_processed(block.saturating_sub(1))
                {
                    self.begin_again(block);
                }
                let has_promise = self.args.indexer.guard().commits_before_ready(self.connected_origin());
                return self.subscription.on_message(frame, has_promise);
            }
            Some(LinkEvent::Silent { .. }) => return self.subscription.on_silence(),
            Some(LinkEvent::Down { .. }) => {
                // Another server may accept the next connection, also at the same origin.
                if std::mem::take(&mut self.is_connected) {
                    self.args.indexer.guard().doubt(self.connected_origin());
                }
                self.stated_height = 0;
                self.choose_endpoint(context);
            }
            Some(LinkEvent::Ready { .. }) | None => {}
        }
        Vec::new()
    }

    /// Origin of the indexer that the last connection leads to.
    fn connected_origin(&self) -> &str {
        self.subscription.indexer().current().origin()
    }

    fn choose_endpoint(&self, context: &ActorContext<Msg>) {
        let (indexer, mailbox) = (self.args.indexer.clone(), context.mailbox());
        let plausible = self.args.clock.with(|clock| clock.plausible_height(Instant::now()));
        context.spawn(async move {
            let better = indexer.find_better(Some(plausible)).await;
            mailbox.send(Msg::EndpointChosen { better });
        });
    }

    fn follow_choice(&mut self, better: Option<UpstreamEndpoints>) {
        match better {
            Some(better) => {
                self.stated_height = 0;
                self.subscription.switch_to(&better);
            }
            None => self.subscription.follow_current(),
        }
        self.count_height();
    }

    fn is_below_processed(&self, height: u64) -> bool {
        self.subscription.processed_height().is_some_and(|processed| height < processed)
    }

    /// Follows an index that was rolled back, or is a new one. Its heights count again from there, and the corporation is read once more.
    fn begin_again(&mut self, block: u64) {
        let processed = self.subscription.processed_height();
        tracing::warn!(
            block,
            processed,
            "the indexer is below the height that it had reached: it is followed from there"
        );
        self.subscription.begin_after(None);
        self.has_fallen = true;
        self.args.refresher.registry_changed();
    }

    /// Moves the barrier, unless the indexer may be one of another chain.
    fn count_height(&mut self) {
        if self.stated_height > 0 && self.args.indexer.guard().is_followed(self.connected_origin()) {
            metrics::record_ws_last_block("indexer", self.stated_height);
            if std::mem::take(&mut self.has_fallen) {
                self.args.barrier.fall_back(self.stated_height);
            }
            self.args.barrier.advance(self.stated_height);
        }
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: SubscriptionEffect) {
        match effect {
            SubscriptionEffect::ReadPage { after, cursor } => {
                let (mailbox, epoch) = (context.mailbox(), self.subscription.epoch());
                let indexer = self.subscription.indexer().clone();
                let scope = SubscriptionScope::Corporation(self.args.corporation_id);
                context.spawn(async move {
                    let page = read_event_page(indexer.current(), &scope, after, cursor.as_deref()).await;
                    mailbox.send(Msg::PageRead { epoch, page: page.map_err(PageError::from) });
                });
            }
            SubscriptionEffect::ReadHeight => {
                let (mailbox, epoch) = (context.mailbox(), self.subscription.epoch());
                let indexer = self.subscription.indexer().clone();
                context.spawn(async move {
                    let height = read_indexed_height(indexer.current()).await;
                    mailbox.send(Msg::HeightRead { epoch, height: height.map_err(|error| error.to_string()) });
                });
            }
            SubscriptionEffect::Deliver { events } => {
                for event in &events {
                    tracing::debug!(event_type = event.event_type, height = event.block_height, "registry event");
                }
                self.args.refresher.registry_changed();
            }
            SubscriptionEffect::PublishHeight { height } => {
                self.stated_height = self.stated_height.max(height);
                self.count_height();
            }
            SubscriptionEffect::MissBlocks { first, last } => {
                tracing::warn!(first, last, "the indexer begins with a later block: the corporation is read again");
                self.args.refresher.registry_changed();
            }
            SubscriptionEffect::LoseEvents { height } => tracing::error!(
                height,
                "the indexer has no cursor, and a block with more events than a page: the others of this block are lost"
            ),
            SubscriptionEffect::Reconnect { reason } => self.subscription.reconnect(reason),
        }
    }
}
