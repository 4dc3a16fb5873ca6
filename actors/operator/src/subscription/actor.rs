//! The actor around the decisions of the subscription.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
use svc_otel::metrics;
use svc_wire::{
    block_subscription::{SubscriptionCore, SubscriptionEffect, SubscriptionPhase, SubscriptionScope, is_full_page},
    event_stream::StreamMessage,
};
use tokio::task::AbortHandle;

use super::{Args, Msg};

/// State of a subscription.
pub struct State {
    args: Arc<Args>,
    core: SubscriptionCore,
    link: WebSocketLink,
    epoch: ConnectionEpoch,
    silence_timer: Option<AbortHandle>,
    /// Origin that the connection leads to.
    connected_origin: String,
}

/// The actor that owns the WebSocket to the indexer.
pub struct IndexerSubscription;

/// Time between two comparisons of the indexers.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(2);
/// Shortest time without a block that ends a connection whose socket is alive. Indexers announce an interval and send their blocks in
/// bursts, so that twice the interval alone would end good connections; pings end dead ones earlier.
const MIN_BLOCK_SILENCE: Duration = Duration::from_secs(60);

impl ActorBehaviour for IndexerSubscription {
    const KIND: &'static str = "subscription";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let endpoints = args.indexer.endpoints().clone();
        let config = LinkConfig::with_endpoints("indexer", endpoints, "/v4/indexer/subscribe");
        let mailbox = context.mailbox();
        let link = WebSocketLink::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_with_backpressure(Msg::Link(event)).await }
        });
        context.send_after(COMPARISON_INTERVAL, Msg::CompareEndpoints);
        let processed = args.position.with(|position| position.processed);
        Ok(State {
            args: Arc::clone(args),
            core: SubscriptionCore::new(processed),
            link,
            epoch: ConnectionEpoch::default(),
            silence_timer: None,
            connected_origin: String::new(),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Link(event) => state.receive(context, event),
            Msg::PageRead { epoch, .. } if epoch != state.epoch => Vec::new(),
            Msg::PageRead { page: Ok(page), .. } => {
                let is_full = is_full_page(&page);
                let effects = state.core.on_page(page, is_full);
                if let Some(height) = state.core.take_unreadable_block() {
                    tracing::error!(
                        height,
                        "the indexer has no cursor, and a block with more events than a page: the others of this block are lost"
                    );
                }
                effects
            }
            Msg::PageRead { page: Err(error), .. } => {
                tracing::warn!(error, "events could not be read");
                state.core.on_page_failure()
            }
            Msg::SilenceElapsed { epoch } if epoch == state.epoch => state.core.on_silence(),
            Msg::SilenceElapsed { .. } => Vec::new(),
            Msg::CompareEndpoints => {
                state.compare_endpoints(context);
                Vec::new()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let (processed, is_live) = (state.core.processed_height(), state.core.phase() == SubscriptionPhase::Live);
        state.args.position.with(|position| (position.processed, position.is_live) = (processed, is_live));
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "corporation_id": state.args.corporation_id, "phase": format!("{:?}", state.core.phase()),
            "processed": state.core.processed_height(),
        })
    }
}

impl State {
    fn receive(&mut self, context: &ActorContext<Msg>, event: LinkEvent) -> Vec<SubscriptionEffect> {
        match event {
            LinkEvent::Up { epoch } => {
                self.epoch = epoch;
                self.connected_origin = self.args.indexer.endpoints().current().origin().to_owned();
                self.core.on_connected()
            }
            LinkEvent::Text { text, .. } => match serde_json::from_str::<StreamMessage>(&text) {
                Ok(message) => {
                    self.args.position.with(|position| position.last_event_at = Some(wall_clock::now_rfc3339()));
                    self.core.on_message(message)
                }
                Err(_) => {
                    vec![SubscriptionEffect::Reconnect { reason: "the indexer sent a message outside its contract" }]
                }
            },
            LinkEvent::Down { .. } => {
                self.core.on_disconnected();
                // Another indexer may accept the next connection.
                let indexer = self.args.indexer.clone();
                context.spawn(async move { indexer.choose_endpoint().await });
                Vec::new()
            }
        }
    }

    fn compare_endpoints(&self, context: &ActorContext<Msg>) {
        let indexer = self.args.indexer.clone();
        if !indexer.endpoints().has_alternatives() {
            return;
        }
        // Events and reads must come from the same indexer.
        if self.connected_origin != indexer.endpoints().current().origin() {
            self.link.reconnect(self.epoch, "another indexer is used");
        }
        context.spawn(async move { indexer.choose_endpoint().await });
        context.send_after(COMPARISON_INTERVAL, Msg::CompareEndpoints);
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: SubscriptionEffect) {
        match effect {
            SubscriptionEffect::Subscribe => {
                let command = SubscriptionScope::Corporation(self.args.corporation_id).command();
                let text = serde_json::to_string(&command).unwrap_or_default();
                if !self.link.send(self.epoch, text) {
                    self.link.reconnect(self.epoch, "the subscription could not be sent");
                }
            }
            SubscriptionEffect::ReadPage { after, cursor } => {
                let (args, mailbox, epoch) = (Arc::clone(&self.args), context.mailbox(), self.epoch);
                context.spawn(async move {
                    let page = args
                        .indexer
                        .events(&SubscriptionScope::Corporation(args.corporation_id), after, cursor.as_deref())
                        .await;
                    mailbox.send(Msg::PageRead { epoch, page: page.map_err(|error| error.to_string()) });
                });
            }
            SubscriptionEffect::Deliver { events } => {
                for event in &events {
                    tracing::debug!(event_type = event.event_type, height = event.block_height, "registry event");
                }
                self.args.refresher.registry_changed();
            }
            SubscriptionEffect::PublishHeight { height } => {
                metrics::record_ws_last_block("indexer", height);
                self.args.barrier.advance(height);
            }
            SubscriptionEffect::Reconnect { reason } => self.link.reconnect(self.epoch, reason),
            SubscriptionEffect::ArmSilenceTimer { interval_ms } => {
                if let Some(timer) = self.silence_timer.take() {
                    timer.abort();
                }
                let silence = Duration::from_millis(interval_ms.saturating_mul(2)).max(MIN_BLOCK_SILENCE);
                self.silence_timer = Some(context.send_after(silence, Msg::SilenceElapsed { epoch: self.epoch }));
            }
        }
    }
}
