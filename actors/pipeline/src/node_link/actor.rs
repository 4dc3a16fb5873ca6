//! The actor around the decisions of the node link.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::{
    upstream::{BlockHead, ConfirmedHeight},
    websocket::{LinkConfig, LinkEvent, WebSocketLink},
};
use svc_otel::metrics;
use svc_wire::comet_rpc::SyncInfo;
use tokio::time::Instant;

use super::{
    Args, Msg,
    core::{NodeFrame, NodeLinkCore, NodeStream, STATUS_INTERVAL},
};
use crate::{chain::head::select_node, history::settle_dispute, journal::store::BlockPin};

/// State of a node link.
pub struct State {
    args: Arc<Args>,
    core: NodeLinkCore,
    link: WebSocketLink,
    /// Whether the log says that the chain is quiet.
    is_quiet: bool,
    /// Whether a connection has ended since the last one began.
    was_down: bool,
}

/// The actor that owns the node's WebSocket.
pub struct NodeLink;

impl ActorBehaviour for NodeLink {
    const KIND: &'static str = "node_link";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let config = LinkConfig::with_endpoints("rpc", args.node.endpoints().clone(), "/websocket");
        let link = WebSocketLink::open(config, NodeStream::new(&args.address), context.mailbox(), Msg::Link);
        context.send_after(STATUS_INTERVAL, Msg::CheckStatus);
        let state =
            State { args: Arc::clone(args), core: NodeLinkCore::default(), link, is_quiet: false, was_down: false };
        if !args.release.is_current(&args.node) {
            state.verify_release(context);
        }
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::Link(event) => state.receive(context, event),
            Msg::StatusRead(head) => state.compare_status(context, head),
            Msg::CheckStatus => state.check_status(context),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let is_quiet = state.is_quiet;
        state.args.clock.with(|clock| {
            let interval_ms = clock.interval().map(|interval| interval.as_secs_f64() * 1_000.0);
            json!({
                "connected": clock.is_connected, "height": clock.height, "interval_ms": interval_ms, "quiet": is_quiet,
            })
        })
    }
}

impl State {
    fn receive(&mut self, context: &ActorContext<Msg>, event: LinkEvent<NodeFrame>) {
        match self.link.accept(event) {
            Some(LinkEvent::Up { origin, .. }) => {
                self.core.on_connected(&origin);
                // Right after the end of a connection the process may have answered that was about to end.
                if std::mem::take(&mut self.was_down) {
                    self.args.release.doubt();
                    self.verify_release(context);
                }
            }
            Some(LinkEvent::Ready { .. }) => {
                self.args.clock.with(|clock| clock.is_connected = true);
                self.args.confirmer.look_up_all();
                // A node that was restarted, or another node, may lack a transaction in flight.
                self.args.signer.doubt();
                // Another node may have another price.
                self.refresh_price(context);
            }
            Some(LinkEvent::Frame { frame, .. }) => {
                self.args.clock.with(|clock| clock.last_event_at = Some(wall_clock::now_rfc3339()));
                match frame {
                    NodeFrame::Included { height, hash, result } => self.args.confirmer.tx_seen(height, hash, result),
                    NodeFrame::Block(head) => self.record_block(context, head),
                    NodeFrame::Acknowledged => {}
                }
            }
            Some(LinkEvent::Down { .. }) => {
                self.core.on_disconnected();
                self.was_down = true;
                self.args.clock.with(|clock| clock.is_connected = false);
                // Another node may accept the next connection, or another release of this one.
                self.args.release.doubt();
                self.verify_release(context);
                self.select_node(context);
            }
            Some(LinkEvent::Silent { .. }) | None => {}
        }
    }

    fn check_status(&mut self, context: &ActorContext<Msg>) {
        let check = self.core.on_status_check(self.args.node.origin());
        if check.reconnects {
            self.link.reconnect("another node is used");
        }
        if check.compares_nodes {
            self.select_node(context);
        }
        if check.compares_nodes || !self.args.release.is_current(&self.args.node) {
            self.verify_release(context);
        }
        if check.asks_price {
            self.refresh_price(context);
        }
        // A block that other nodes deny must not pin the chain.
        if check.pins_block && self.args.node.dispute().is_none() {
            let plausible_height = self.args.clock.with(|clock| clock.plausible_height(Instant::now()));
            let (node, journal) = (self.args.node.clone(), self.args.journal.clone());
            context.spawn(async move {
                if let Ok(status) = node.status().await {
                    let SyncInfo { latest_block_height: height, latest_block_hash: hash, .. } = status.sync_info;
                    if height <= plausible_height {
                        journal.pin_block(&BlockPin { height, hash }).await;
                    }
                }
            });
        }
        if self.args.clock.with(|clock| !clock.is_connected || clock.is_quiet(Instant::now())) {
            let (node, mailbox) = (self.args.node.clone(), context.mailbox());
            context.spawn(async move {
                if let Ok(status) = node.status().await
                    && let Some(head) = BlockHead::of_status(&status.sync_info)
                {
                    mailbox.send(Msg::StatusRead(head));
                }
            });
        }
        context.send_after(STATUS_INTERVAL, Msg::CheckStatus);
    }

    fn verify_release(&self, context: &ActorContext<Msg>) {
        let (node, release) = (self.args.node.clone(), self.args.release.clone());
        context.spawn(async move { release.verify(&node).await });
    }

    fn refresh_price(&self, context: &ActorContext<Msg>) {
        let (node, prices) = (self.args.node.clone(), self.args.prices.clone());
        context.spawn(async move { prices.refresh(&node).await });
    }

    fn select_node(&self, context: &ActorContext<Msg>) {
        let (node, clock, journal) = (self.args.node.clone(), self.args.clock.clone(), self.args.journal.clone());
        context.spawn(async move {
            select_node(&node, &clock).await;
            settle_dispute(&node, &journal).await;
        });
    }

    /// The node has answered a status request.
    fn compare_status(&mut self, context: &ActorContext<Msg>, head: BlockHead) {
        let (is_connected, known_height) = self.args.clock.with(|clock| (clock.is_connected, clock.height));
        if !is_connected {
            self.link.wake();
        } else if self.core.on_status(known_height, &head) {
            self.link.reconnect(format!("the node has block {} and sent no header of it", head.height));
        } else if !std::mem::replace(&mut self.is_quiet, true) {
            tracing::info!(height = known_height, "the chain is quiet: the node answers and has no newer block");
        }
        self.record_block(context, head);
    }

    fn record_block(&mut self, context: &ActorContext<Msg>, head: BlockHead) {
        let (height, now) = (head.height, Instant::now());
        let plausible_height = self.args.clock.with(|clock| clock.plausible_height(now));
        if !self.args.node.endpoints().has_alternatives() {
            // With one node there is nothing to compare it with.
            let confirmed = ConfirmedHeight { height, is_newest: true };
            self.args.clock.with(|clock| clock.confirm(confirmed, now));
        } else if height > plausible_height {
            let origin = self.args.node.origin();
            tracing::warn!(
                origin,
                height,
                plausible_height,
                "the node states a height that no other node confirms yet"
            );
            return self.select_node(context);
        }
        if self.args.clock.with(|clock| clock.block_seen(head, now)) {
            self.is_quiet = false;
            metrics::record_ws_last_block("rpc", height);
            self.args.confirmer.block_seen(height);
            self.args.signer.block_seen();
        }
    }
}
