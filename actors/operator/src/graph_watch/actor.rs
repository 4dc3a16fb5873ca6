//! The actor that owns the WebSocket to the graph.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::websocket::{LinkConfig, LinkEvent, WebSocketLink};
use svc_otel::metrics;

use super::{
    Args, Msg,
    core::{GraphStream, MIN_LIVENESS},
};

/// State of a watch.
pub struct State {
    args: Arc<Args>,
    link: WebSocketLink,
}

/// The actor that follows the graph.
pub struct GraphWatch;

impl ActorBehaviour for GraphWatch {
    const KIND: &'static str = "graph_watch";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let mut config = LinkConfig::new("graph", &args.origin, "/v4/graph/blocks/subscribe");
        config.liveness_timeout = MIN_LIVENESS;
        let link = WebSocketLink::open(config, GraphStream, context.mailbox(), Msg::Link);
        Ok(State { args: Arc::clone(args), link })
    }

    async fn handle(_: &ActorContext<Msg>, Msg::Link(event): Msg, state: &mut State) -> Result<(), ActorFailure> {
        match state.link.accept(event) {
            Some(LinkEvent::Frame { frame: height, .. }) => state.advance(height),
            Some(LinkEvent::Down { .. }) => state.args.position.with(|position| position.is_live = false),
            Some(LinkEvent::Up { .. } | LinkEvent::Ready { .. } | LinkEvent::Silent { .. }) | None => {}
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let position = state.args.position.with(|position| position.clone());
        json!({"connected": position.is_live, "height": position.processed})
    }
}

impl State {
    fn advance(&self, height: u64) {
        self.args.position.with(|position| {
            position.is_live = true;
            position.processed = Some(height);
            position.last_event_at = Some(wall_clock::now_rfc3339());
        });
        metrics::record_ws_last_block("graph", height);
        self.args.barrier.advance(height);
    }
}
