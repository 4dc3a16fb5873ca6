//! The shell of the trust watch.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_net::websocket::{LinkConfig, LinkEvent, WebSocketLink};

use super::{Args, Msg, core::TrustStream};

/// State of the watch.
pub(crate) struct State {
    args: Arc<Args>,
    link: WebSocketLink,
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
        let path = "/v4/verifiable-trust/subscribe";
        let config = LinkConfig::with_endpoints("trust_stream", args.indexer.clone(), path);
        let link = WebSocketLink::open(config, TrustStream, context.mailbox(), Msg::Link);
        Ok(State { args: Arc::clone(args), link, is_subscribed: false })
    }

    async fn handle(_: &ActorContext<Msg>, Msg::Link(event): Msg, state: &mut State) -> Result<(), ActorFailure> {
        match state.link.accept(event) {
            // A verdict that was cached before the subscription may be stale: a change of that time was not announced.
            Some(LinkEvent::Ready { .. }) => {
                state.is_subscribed = true;
                state.args.gate.forget_all();
            }
            Some(LinkEvent::Frame { frame, .. }) => {
                for change in &frame.changes {
                    state.args.gate.forget(&change.did).await;
                }
            }
            Some(LinkEvent::Down { .. }) => state.is_subscribed = false,
            Some(LinkEvent::Up { .. } | LinkEvent::Silent { .. }) | None => {}
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"is_subscribed": state.is_subscribed})
    }
}
