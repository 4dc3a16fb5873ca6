//! The actor around the decisions of the subscription.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::{
    block_subscription::{BlockPatience, BlockSubscription, PageError},
    websocket::LinkEvent,
};
use svc_otel::metrics;
use svc_wire::{
    block_subscription::{SubscriptionEffect, SubscriptionPhase, SubscriptionScope},
    event_stream::StreamMessage,
};

use super::{Args, Msg};

/// State of a subscription.
pub struct State {
    args: Arc<Args>,
    subscription: BlockSubscription,
    /// Origin that the connection leads to.
    connected_origin: String,
    /// Height of the connection. It counts once the indexer is known to follow the node's chain.
    stated_height: u64,
}

/// The actor that owns the WebSocket to the indexer.
pub struct IndexerSubscription;

/// Time between two comparisons of the indexers.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(2);
/// The same while the indexer in use could not be compared with the node, so that its heights do not count.
const UNVERIFIED_INTERVAL: Duration = Duration::from_millis(500);
/// Indexers announce an interval and send their blocks in bursts, so that twice the interval alone would end good connections; pings end
/// dead ones earlier.
const BLOCK_PATIENCE: BlockPatience = BlockPatience { initial: None, fixed: None, least: Duration::from_secs(60) };

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
            BLOCK_PATIENCE,
            processed,
            context.mailbox(),
            Msg::Link,
        );
        context.send_after(COMPARISON_INTERVAL, Msg::CompareEndpoints);
        Ok(State { args: Arc::clone(args), subscription, connected_origin: String::new(), stated_height: 0 })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Link(event) => state.receive(context, event),
            Msg::PageRead { epoch, page } => state.subscription.on_page(epoch, page),
            Msg::CompareEndpoints => {
                state.choose_endpoint(context);
                let is_followed = state.args.indexer.guard().is_followed(&state.connected_origin);
                let interval = if is_followed { COMPARISON_INTERVAL } else { UNVERIFIED_INTERVAL };
                context.send_after(interval, Msg::CompareEndpoints);
                Vec::new()
            }
            Msg::EndpointChosen => {
                state.follow_choice();
                Vec::new()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let (processed, is_live) =
            (state.subscription.processed_height(), state.subscription.phase() == SubscriptionPhase::Live);
        state.args.position.with(|position| (position.processed, position.is_live) = (processed, is_live));
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
                self.connected_origin = self.args.indexer.endpoints().current().origin().to_owned();
                self.stated_height = 0;
                self.choose_endpoint(context);
            }
            Some(LinkEvent::Frame { frame, .. }) => {
                self.args.position.with(|position| position.last_event_at = Some(wall_clock::now_rfc3339()));
                // Of an indexer without the promise, the height of `ready` may be ahead of its reads.
                let is_early = matches!(frame, StreamMessage::Ready { .. })
                    && !self.args.indexer.guard().commits_before_ready(&self.connected_origin);
                let mut effects = self.subscription.on_message(frame);
                effects.retain(|effect| !is_early || !matches!(effect, SubscriptionEffect::PublishHeight { .. }));
                return effects;
            }
            Some(LinkEvent::Down { .. }) => {
                // Another server may accept the next connection, also at the same origin.
                self.args.indexer.guard().doubt(&std::mem::take(&mut self.connected_origin));
                self.choose_endpoint(context);
            }
            Some(LinkEvent::Ready { .. }) | None => {}
        }
        Vec::new()
    }

    fn choose_endpoint(&self, context: &ActorContext<Msg>) {
        let (indexer, mailbox) = (self.args.indexer.clone(), context.mailbox());
        context.spawn(async move {
            indexer.choose_endpoint().await;
            mailbox.send(Msg::EndpointChosen);
        });
    }

    fn follow_choice(&mut self) {
        let current = self.args.indexer.endpoints().current();
        // Events and reads must come from the same indexer.
        if self.connected_origin != current.origin() {
            self.subscription.reconnect("another indexer is used");
        } else if current.left_out().is_some() {
            self.subscription.reconnect("the indexer is left out");
        }
        self.count_height();
    }

    /// Advances the barrier, unless the indexer may be one of another chain.
    fn count_height(&self) {
        if self.stated_height > 0 && self.args.indexer.guard().is_followed(&self.connected_origin) {
            metrics::record_ws_last_block("indexer", self.stated_height);
            self.args.barrier.advance(self.stated_height);
        }
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: SubscriptionEffect) {
        match effect {
            SubscriptionEffect::ReadPage { after, cursor } => {
                let (args, mailbox, epoch) = (Arc::clone(&self.args), context.mailbox(), self.subscription.epoch());
                context.spawn(async move {
                    let page = args
                        .indexer
                        .events(&SubscriptionScope::Corporation(args.corporation_id), after, cursor.as_deref())
                        .await;
                    mailbox.send(Msg::PageRead { epoch, page: page.map_err(PageError::from) });
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
