//! The actor that owns the link.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Retained,
    link::{Epoch, Link, LinkConfig, LinkEvent},
    upstream::NodeClient,
    wall,
};
use svc_otel::metrics;
use svc_wire::comet::{self, Notification, Response};
use tokio::time::Instant;

use super::Clock;
use crate::{confirmer, signer};

/// What the node link is told.
pub enum Msg {
    /// The WebSocket reports.
    Link(LinkEvent),
    /// The node's status was looked at.
    Height(u64),
    /// Look at the status if the WebSocket is down.
    Look,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Height(_) => "height",
            Self::Look => "look",
        }
    }
}

/// What a node link is made from.
pub struct Args {
    pub node: NodeClient,
    pub address: String,
    pub clock: Retained<Clock>,
    pub confirmer: Handle<confirmer::Msg>,
    pub signer: Handle<signer::Msg>,
}

pub struct State {
    args: Arc<Args>,
    link: Link,
    last_block: Option<Instant>,
    /// Subscriptions the node has acknowledged on this connection.
    acknowledged: u8,
    /// The connection, and where it leads.
    open: Option<(Epoch, String)>,
    looks: u64,
}

pub struct NodeLink;

/// Ids of the two subscribe requests.
const TXS: u64 = 1;
const BLOCKS: u64 = 2;
/// How often the status is looked at while the WebSocket is down.
const LOOK: Duration = Duration::from_secs(1);
/// Looks between two comparisons with the other nodes, if there are any.
const CHOOSE_EVERY: u64 = 5;

impl Behaviour for NodeLink {
    const KIND: &'static str = "node_link";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let mailbox = context.mailbox();
        let link = Link::open(LinkConfig::over("rpc", args.node.endpoints().clone(), "/websocket"), move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_when_room(Msg::Link(event)).await }
        });
        context.after(LOOK, Msg::Look);
        Ok(State { args: Arc::clone(args), link, last_block: None, acknowledged: 0, open: None, looks: 0 })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::Link(LinkEvent::Up(epoch)) => {
                state.open = Some((epoch, state.args.node.origin().to_owned()));
                state.subscribe(epoch);
            }
            Msg::Link(LinkEvent::Text(epoch, text)) => state.read(epoch, &text),
            Msg::Link(LinkEvent::Down(..)) => {
                (state.acknowledged, state.open) = (0, None);
                state.args.clock.with(|clock| clock.is_connected = false);
                // The next attempt may better lead elsewhere.
                let node = state.args.node.clone();
                context.spawn(async move { node.choose().await });
            }
            Msg::Height(height) => state.block_seen(height),
            Msg::Look => {
                if let Some((epoch, origin)) = &state.open
                    && origin != state.args.node.origin()
                {
                    state.link.reconnect(*epoch, "another node is used");
                }
                state.looks += 1;
                if state.looks.is_multiple_of(CHOOSE_EVERY) {
                    // A node that stalls or falls behind keeps its WebSocket.
                    let node = state.args.node.clone();
                    context.spawn(async move { node.choose().await });
                }
                if !state.args.clock.with(|clock| clock.is_connected) {
                    let (node, mailbox) = (state.args.node.clone(), context.mailbox());
                    context.spawn(async move {
                        if let Ok(status) = node.status().await {
                            mailbox.send(Msg::Height(status.sync_info.latest_block_height));
                        }
                    });
                }
                context.after(LOOK, Msg::Look);
            }
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
    fn subscribe(&mut self, epoch: Epoch) {
        self.acknowledged = 0;
        // The slash ends the address, so that no longer address matches.
        let txs = format!("tm.event='Tx' AND tx.acc_seq CONTAINS '{}/'", self.args.address);
        let blocks = "tm.event='NewBlockHeader'".to_owned();
        for (id, query) in [(TXS, txs), (BLOCKS, blocks)] {
            let request = comet::request(id, "subscribe", json!({ "query": query }));
            if !self.link.send(epoch, request.to_string()) {
                self.link.reconnect(epoch, "the subscriptions could not be sent");
            }
        }
    }

    fn read(&mut self, epoch: Epoch, text: &str) {
        self.args.clock.with(|clock| clock.last_event_at = Some(wall::now_text()));
        let Ok(response) = serde_json::from_str::<Response>(text) else {
            self.link.reconnect(epoch, "the node sent something that is not JSON-RPC");
            return;
        };
        if let Some(error) = response.error {
            self.link.reconnect(epoch, format!("the node refused a subscription: {error}"));
            return;
        }
        match response.result.as_ref().and_then(Notification::read) {
            Some(Notification::Tx { height, hash, result }) => {
                confirmer::notify(
                    &self.args.confirmer,
                    confirmer::Msg::TxSeen { height, hash, result: Box::new(result) },
                );
            }
            Some(Notification::NewBlock { header }) => self.block_seen(header.height),
            // An acknowledgement. Only after both can no inclusion pass unseen.
            None => {
                self.acknowledged += 1;
                if self.acknowledged == 2 {
                    self.args.clock.with(|clock| clock.is_connected = true);
                    confirmer::notify(&self.args.confirmer, confirmer::Msg::LookAllUp);
                    // A node that was restarted, or another one, may not have what is in flight.
                    signer::notify(&self.args.signer, signer::Msg::Doubt);
                }
            }
        }
    }

    fn block_seen(&mut self, height: u64) {
        let now = Instant::now();
        let is_new = self.args.clock.with(|clock| {
            let is_new = height > clock.height;
            clock.block_seen(height, self.last_block.map(|last| now.duration_since(last)));
            is_new
        });
        if is_new {
            self.last_block = Some(now);
            metrics::ws_last_block("rpc", height);
            confirmer::notify(&self.args.confirmer, confirmer::Msg::BlockSeen(height));
            signer::notify(&self.args.signer, signer::Msg::BlockSeen);
        }
    }
}
