//! The shell of the trust watch.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_net::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
use svc_wire::{event_stream::StreamMessage, trust_stream::TrustMessage};

use super::{Args, Msg};

/// State of the watch.
pub(crate) struct State {
    args: Arc<Args>,
    link: WebSocketLink,
    epoch: ConnectionEpoch,
    is_subscribed: bool,
}

/// The actor that watches the trust stream.
pub(crate) struct TrustWatch;

impl ActorBehaviour for TrustWatch {
    const KIND: &'static str = "trust_watch";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let mailbox = context.mailbox();
        let path = "/v4/verifiable-trust/subscribe";
        let config = LinkConfig::with_endpoints("trust_stream", args.indexer.clone(), path);
        let link = WebSocketLink::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_with_backpressure(Msg::Link(event)).await }
        });
        let epoch = ConnectionEpoch::default();
        Ok(State { args: Arc::clone(args), link, epoch, is_subscribed: false })
    }

    async fn handle(_: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let Msg::Link(event) = message;
        match event {
            LinkEvent::Up { epoch } => state.epoch = epoch,
            LinkEvent::Down { .. } => state.is_subscribed = false,
            LinkEvent::Text { text, epoch } => {
                if epoch == state.epoch {
                    state.receive(&text).await;
                }
            }
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"is_subscribed": state.is_subscribed})
    }
}

impl State {
    async fn receive(&mut self, text: &str) {
        match serde_json::from_str::<TrustMessage>(text) {
            Ok(StreamMessage::Ready { .. }) => {
                let subscribe = json!({"action": "subscribe", "channels": {"trust": true}});
                if !self.link.send(self.epoch, subscribe.to_string()) {
                    self.link.reconnect(self.epoch, "the subscription could not be sent");
                }
            }
            // A decision of before may miss a change of before.
            Ok(StreamMessage::Subscribed { .. }) => {
                self.is_subscribed = true;
                self.args.gate.forget_all();
            }
            Ok(StreamMessage::Block(block)) => {
                for change in &block.changes {
                    self.args.gate.forget(&change.did).await;
                }
            }
            Ok(StreamMessage::Unknown) => {}
            Err(_) => self.link.reconnect(self.epoch, "the indexer sent a message outside its contract"),
        }
    }
}
