//! The actor that owns the WebSocket to the graph.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
use svc_otel::metrics;

use super::{
    Args, Msg,
    core::{GraphProgress, MIN_LIVENESS, read_message},
};

/// State of a watch.
pub struct State {
    args: Arc<Args>,
    link: WebSocketLink,
    epoch: ConnectionEpoch,
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
        let mailbox = context.mailbox();
        let link = WebSocketLink::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_with_backpressure(Msg::Link(event)).await }
        });
        Ok(State { args: Arc::clone(args), link, epoch: ConnectionEpoch::default() })
    }

    async fn handle(_: &ActorContext<Msg>, Msg::Link(event): Msg, state: &mut State) -> Result<(), ActorFailure> {
        match event {
            LinkEvent::Up { epoch } => state.epoch = epoch,
            LinkEvent::Text { text, .. } => match read_message(&text) {
                GraphProgress::Reached { height, liveness } => {
                    if let Some(liveness) = liveness {
                        state.link.set_liveness_timeout(liveness);
                    }
                    state.advance(height);
                }
                GraphProgress::Ignored => {}
                GraphProgress::Broken => {
                    state.link.reconnect(state.epoch, "the graph sent a message outside its contract");
                }
            },
            LinkEvent::Down { .. } => state.args.position.with(|position| position.is_live = false),
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
