//! The actor around the decisions of the node link.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_net::{
    upstream::{BlockHead, ConfirmedHeight},
    websocket::{LinkConfig, LinkEvent, WebSocketLink},
};
use svc_otel::metrics;
use tokio::time::Instant;

use super::{
    Args, Msg,
    core::{NodeFrame, NodeLinkCore, NodeStream, STATUS_INTERVAL},
};
use crate::{
    chain::head::select_node,
    history::{HeardBlock, check_running, settle_dispute},
    known_history::HistoryCheck,
};

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
        metrics::record_chain_change(args.journal.has_chain_changed());
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
            Msg::HistoryChecked(check) => state.record_comparison(context, check),
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
                    NodeFrame::Included { height, hash, result } => {
                        self.core.on_inclusion(height);
                        self.args.confirmer.tx_seen(height, hash, result);
                    }
                    NodeFrame::Block { head, parent } => {
                        let is_continued = self.args.journal.is_continued_by(head.height, &parent);
                        self.compare_history(context, HeardBlock { height: Some(head.height), is_continued });
                        self.record_block(context, head);
                    }
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
        if check.pins_block {
            self.pin_known(context);
        }
        let has_headers = self.args.clock.with(|clock| clock.is_connected && !clock.is_quiet(Instant::now()));
        if check.compares_history && (!has_headers || self.args.journal.has_chain_changed()) {
            self.compare_history(context, HeardBlock { height: None, is_continued: false });
        }
        if !has_headers {
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

    /// Compares the known blocks with the node.
    fn compare_history(&mut self, context: &ActorContext<Msg>, heard: HeardBlock) {
        // Nodes with different blocks are in dispute: none of them shows that the chain has changed, or has not.
        if self.args.node.dispute().is_some() {
            let journal = self.args.journal.clone();
            context.spawn(async move { journal.forget_unpinned().await });
            return;
        }
        // While the chain has another history the clock asks, and not each block: every known block is read.
        if heard.height.is_some() && !heard.is_continued && self.args.journal.has_chain_changed() {
            return;
        }
        if !self.core.begin_comparison() {
            return;
        }
        let plausible_height = self.args.clock.with(|clock| clock.plausible_height(Instant::now()));
        let (node, journal, mailbox) = (self.args.node.clone(), self.args.journal.clone(), context.mailbox());
        context.spawn(async move {
            let check = check_running(&journal, &node, heard, plausible_height).await;
            mailbox.send(Msg::HistoryChecked(check));
        });
    }

    fn record_comparison(&mut self, context: &ActorContext<Msg>, check: HistoryCheck) {
        let journal = &self.args.journal;
        if journal.record_check(check) {
            let change = journal.chain_change();
            metrics::record_chain_change(change.is_some());
            match change {
                Some(change) => {
                    tracing::error!(
                        height = change.height,
                        pinned = change.pinned,
                        found = change.found,
                        agreed = change.agreed,
                        "the chain has another history than the journal: nothing is signed until a person rebases the journal"
                    );
                    // The next process finds the change too.
                    self.pin_known(context);
                }
                None => {
                    tracing::warn!("the node has the blocks of the journal again: writes go on");
                    self.args.confirmer.look_up_all();
                    self.args.signer.doubt();
                }
            }
        }
        let known = self.args.journal.known_block().map_or(0, |known| known.height);
        if self.core.pins_inclusion(known) {
            self.pin_known(context);
        }
        if self.core.end_comparison() {
            self.compare_history(context, HeardBlock { height: None, is_continued: false });
        }
    }

    fn pin_known(&self, context: &ActorContext<Msg>) {
        let journal = self.args.journal.clone();
        context.spawn(async move { journal.pin_known().await });
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
