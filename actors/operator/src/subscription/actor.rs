//! The actor around the subscription's decisions.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Retained,
    link::{Epoch, Link, LinkConfig, LinkEvent},
    wall,
};
use svc_otel::metrics;
use svc_wire::event::{ClientMessage, EventsPage, ServerMessage};
use tokio::task::AbortHandle;

use super::{
    Position,
    core::{Core, Effect, Phase},
};
use crate::{
    barrier::{self, Cursor},
    indexer_client::IndexerClient,
    refresher,
};

/// What a subscription is told; all of it by its own tasks.
pub enum Msg {
    /// The WebSocket reports.
    Link(LinkEvent),
    /// A page of a drain came, or did not.
    Drained(Epoch, Result<EventsPage, String>),
    /// Nothing was heard for the time that was set.
    Silent(Epoch),
    /// Compare with the other indexers.
    Look,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Drained(..) => "drained",
            Self::Silent(_) => "silent",
            Self::Look => "look",
        }
    }
}

/// What a subscription is made from.
pub struct Args {
    pub corporation_id: u64,
    pub indexer: IndexerClient,
    pub position: Retained<Position>,
    pub cursor: Retained<Cursor>,
    pub barrier: Handle<barrier::Msg>,
    pub refresher: Handle<refresher::Msg>,
}

pub struct State {
    args: Arc<Args>,
    core: Core,
    link: Link,
    epoch: Epoch,
    alarm: Option<AbortHandle>,
    /// Where the connection leads.
    origin: String,
}

pub struct Subscription;

/// How often an indexer is compared with the others.
const LOOK: Duration = Duration::from_secs(2);
/// The shortest time of silence that counts.
const MIN_LIVENESS: Duration = Duration::from_secs(1);
/// Silence is judged by blocks; the socket's own liveness only ends connections that never speak at all.
const SOCKET_LIVENESS: Duration = Duration::from_secs(90);

impl Behaviour for Subscription {
    const KIND: &'static str = "subscription";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let mut config = LinkConfig::over("indexer", args.indexer.endpoints().clone(), "/v4/indexer/subscribe");
        config.liveness = SOCKET_LIVENESS;
        let mailbox = context.mailbox();
        let link = Link::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_when_room(Msg::Link(event)).await }
        });
        context.after(LOOK, Msg::Look);
        let processed = args.position.with(|position| position.processed);
        Ok(State {
            args: Arc::clone(args),
            core: Core::new(processed),
            link,
            epoch: Epoch::default(),
            alarm: None,
            origin: String::new(),
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let effects = match message {
            Msg::Link(LinkEvent::Up(epoch)) => {
                state.epoch = epoch;
                state.origin = state.args.indexer.endpoints().current().origin().to_owned();
                state.core.connected()
            }
            Msg::Link(LinkEvent::Text(_, text)) => match serde_json::from_str::<ServerMessage>(&text) {
                Ok(message) => {
                    state.args.position.with(|position| position.last_event_at = Some(wall::now_text()));
                    state.core.received(message)
                }
                Err(_) => vec![Effect::Reconnect("the indexer sent something else than its contract")],
            },
            Msg::Link(LinkEvent::Down(..)) => {
                state.core.disconnected();
                // The next attempt may better lead elsewhere.
                let indexer = state.args.indexer.clone();
                context.spawn(async move { indexer.choose().await });
                Vec::new()
            }
            Msg::Drained(epoch, _) if epoch != state.epoch => Vec::new(),
            Msg::Drained(_, Ok(page)) => {
                let is_full = IndexerClient::is_full(&page);
                state.core.drained(page, is_full)
            }
            Msg::Drained(_, Err(error)) => {
                tracing::warn!(error, "events could not be read");
                state.core.drain_failed()
            }
            Msg::Silent(epoch) if epoch == state.epoch => state.core.silent(),
            Msg::Silent(_) => Vec::new(),
            Msg::Look => {
                let indexer = state.args.indexer.clone();
                if indexer.endpoints().has_choice() {
                    // What is told and what is read must come from one and the same.
                    if state.origin != indexer.endpoints().current().origin() {
                        state.link.reconnect(state.epoch, "another indexer is used");
                    }
                    context.spawn(async move { indexer.choose().await });
                    context.after(LOOK, Msg::Look);
                }
                Vec::new()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        let (processed, is_live) = (state.core.processed(), state.core.phase() == Phase::Live);
        state.args.position.with(|position| {
            position.processed = processed;
            position.is_live = is_live;
        });
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "corporation_id": state.args.corporation_id, "phase": format!("{:?}", state.core.phase()),
            "processed": state.core.processed(),
        })
    }
}

impl State {
    fn perform(&mut self, context: &Context<Msg>, effect: Effect) {
        match effect {
            Effect::Subscribe => {
                let message = ClientMessage::Subscribe { dids: None, corporation_id: Some(self.args.corporation_id) };
                let text = serde_json::to_string(&message).unwrap_or_default();
                if !self.link.send(self.epoch, text) {
                    self.link.reconnect(self.epoch, "the subscription could not be sent");
                }
            }
            Effect::Drain { after, cursor } => {
                let (args, mailbox, epoch) = (Arc::clone(&self.args), context.mailbox(), self.epoch);
                context.spawn(async move {
                    let page = args.indexer.events(args.corporation_id, after, cursor.as_deref()).await;
                    mailbox.send(Msg::Drained(epoch, page.map_err(|error| error.to_string())));
                });
            }
            Effect::Deliver(events) => {
                for event in &events {
                    tracing::debug!(event_type = event.event_type, height = event.block_height, "registry event");
                }
                refresher::notify(&self.args.refresher, refresher::Msg::Refresh(refresher::Trigger::Event));
            }
            Effect::Reached(height) => {
                self.args.cursor.with(|cursor| cursor.height = cursor.height.max(height));
                metrics::ws_last_block("indexer", height);
                barrier::notify(&self.args.barrier, height);
            }
            Effect::Reconnect(why) => self.link.reconnect(self.epoch, why),
            Effect::Expect { interval_ms } => {
                if let Some(alarm) = self.alarm.take() {
                    alarm.abort();
                }
                let silence = Duration::from_millis(interval_ms.saturating_mul(2)).max(MIN_LIVENESS);
                self.alarm = Some(context.after(silence, Msg::Silent(self.epoch)));
            }
        }
    }
}
