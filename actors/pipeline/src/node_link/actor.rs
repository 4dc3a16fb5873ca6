//! The actor around the decisions of the node link.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
use svc_otel::metrics;
use tokio::time::Instant;

use super::{
    Args, Msg,
    core::{FrameMeaning, NodeLinkCore},
};

/// State of a node link.
pub struct State {
    args: Arc<Args>,
    core: NodeLinkCore,
    link: WebSocketLink,
    last_block: Option<Instant>,
}

/// The actor that owns the node's WebSocket.
pub struct NodeLink;

/// Time between two status checks. While the WebSocket is down they are the only source of heights.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

impl ActorBehaviour for NodeLink {
    const KIND: &'static str = "node_link";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let mailbox = context.mailbox();
        let config = LinkConfig::with_endpoints("rpc", args.node.endpoints().clone(), "/websocket");
        let link = WebSocketLink::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_with_backpressure(Msg::Link(event)).await }
        });
        context.send_after(STATUS_INTERVAL, Msg::CheckStatus);
        Ok(State { args: Arc::clone(args), core: NodeLinkCore::default(), link, last_block: None })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::Link(LinkEvent::Up { epoch }) => {
                let args = &state.args;
                let requests = state.core.on_connected(epoch, args.node.origin(), &args.address);
                for request in requests {
                    if !state.link.send(epoch, request.to_string()) {
                        state.link.reconnect(epoch, "the subscriptions could not be sent");
                    }
                }
            }
            Msg::Link(LinkEvent::Text { epoch, text }) => state.receive(epoch, &text),
            Msg::Link(LinkEvent::Down { .. }) => {
                state.core.on_disconnected();
                state.args.clock.with(|clock| clock.is_connected = false);
                // Another node may accept the next connection.
                state.select_node(context);
            }
            Msg::StatusHeight(height) => state.record_block(height),
            Msg::CheckStatus => state.check_status(context),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        state.args.clock.with(
            |clock| json!({"connected": clock.is_connected, "height": clock.height, "interval_ms": clock.interval_ms}),
        )
    }
}

impl State {
    fn receive(&mut self, epoch: ConnectionEpoch, text: &str) {
        self.args.clock.with(|clock| clock.last_event_at = Some(wall_clock::now_rfc3339()));
        match self.core.on_text(text) {
            FrameMeaning::Included { height, hash, result } => self.args.confirmer.tx_seen(height, hash, result),
            FrameMeaning::Block { height } => self.record_block(height),
            FrameMeaning::Acknowledged => {}
            FrameMeaning::Subscribed => {
                self.args.clock.with(|clock| clock.is_connected = true);
                self.args.confirmer.look_up_all();
                // A node that was restarted, or another node, may lack a transaction in flight.
                self.args.signer.doubt();
            }
            FrameMeaning::Broken(reason) => self.link.reconnect(epoch, reason),
        }
    }

    fn check_status(&mut self, context: &ActorContext<Msg>) {
        let check = self.core.on_status_check(self.args.node.origin());
        if let Some(epoch) = check.reconnect {
            self.link.reconnect(epoch, "another node is used");
        }
        if check.compares_nodes {
            self.select_node(context);
        }
        if !self.args.clock.with(|clock| clock.is_connected) {
            let (node, mailbox) = (self.args.node.clone(), context.mailbox());
            context.spawn(async move {
                if let Ok(status) = node.status().await {
                    mailbox.send(Msg::StatusHeight(status.sync_info.latest_block_height));
                }
            });
        }
        context.send_after(STATUS_INTERVAL, Msg::CheckStatus);
    }

    fn select_node(&self, context: &ActorContext<Msg>) {
        let node = self.args.node.clone();
        context.spawn(async move { node.select_current().await });
    }

    fn record_block(&mut self, height: u64) {
        let now = Instant::now();
        let is_new = self.args.clock.with(|clock| {
            let is_new = height > clock.height;
            clock.block_seen(height, self.last_block.map(|last| now.duration_since(last)));
            is_new
        });
        if is_new {
            self.last_block = Some(now);
            metrics::record_ws_last_block("rpc", height);
            self.args.confirmer.block_seen(height);
            self.args.signer.block_seen();
        }
    }
}
