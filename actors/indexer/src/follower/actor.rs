//! The actor around the follower's decisions.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent,
    link::{Epoch, Link, LinkConfig, LinkEvent},
    upstream::NodeClient,
};
use svc_wire::{
    comet::{self, Notification, Response},
    event::BlockMessage,
    instant,
    schema::Registry,
};

use super::{
    FollowerState,
    core::{Effect, Progress},
    ingest::{self, Sources},
};
use crate::{facts::BlockFacts, hub, store::Store};

/// What the follower is told; all of it by its own tasks.
pub enum Msg {
    /// The node's WebSocket reports.
    Link(LinkEvent),
    /// The node has this height.
    Tip(u64),
    /// A block was fetched, or was not.
    Fetched(u64, Result<Box<BlockFacts>, String>),
    /// The block being written was written, or was not.
    Written(Result<BlockMessage, String>),
    /// Look at the status, and try again what failed.
    Look,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Tip(_) => "tip",
            Self::Fetched(..) => "fetched",
            Self::Written(_) => "written",
            Self::Look => "look",
        }
    }
}

/// What a follower is made from.
pub struct Args {
    pub node: NodeClient,
    pub registry: Arc<Registry>,
    pub store: Store,
    pub hub: Handle<hub::Msg>,
    pub rpc: String,
}

pub struct State {
    args: Arc<Args>,
    link: Link,
    progress: Progress<Arc<BlockFacts>>,
    last_error: Option<String>,
}

pub struct Follower;

/// How often the status is looked at beside the WebSocket, and how soon a failure is tried again.
const LOOK: Duration = Duration::from_secs(1);

impl Behaviour for Follower {
    const KIND: &'static str = "follower";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let checkpoint = args.store.checkpoint().await.map_err(|error| Failure(error.to_string()))?;
        let mailbox = context.mailbox();
        let link = Link::open(LinkConfig::new("rpc", &args.rpc, "/websocket"), move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_when_room(Msg::Link(event)).await }
        });
        context.after(Duration::ZERO, Msg::Look);
        Ok(State { args: Arc::clone(args), link, progress: Progress::new(checkpoint.height), last_error: None })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let effects = match message {
            Msg::Link(LinkEvent::Up(epoch)) => {
                state.subscribe(epoch);
                Vec::new()
            }
            Msg::Link(LinkEvent::Text(_, text)) => match height_of(&text) {
                Some(height) => state.progress.tip_seen(height),
                None => Vec::new(),
            },
            Msg::Link(LinkEvent::Down(..)) => Vec::new(),
            Msg::Tip(height) => state.progress.tip_seen(height),
            Msg::Fetched(height, Ok(facts)) => state.progress.fetched(height, Arc::new(*facts)),
            Msg::Fetched(height, Err(error)) => {
                state.failed(format!("block {height}: {error}"));
                state.progress.fetch_failed(height);
                Vec::new()
            }
            Msg::Written(Ok(block)) => {
                state.last_error = None;
                tracing::debug!(height = block.block, events = block.events.len(), "block is indexed");
                // A hub that is restarting reads the checkpoint itself when it is back.
                let _ = state.args.hub.tell(hub::Msg::BlockProcessed(Arc::new(block)));
                state.progress.written()
            }
            Msg::Written(Err(error)) => {
                state.failed(format!("block {}: {error}", state.progress.committed() + 1));
                state.progress.write_failed();
                Vec::new()
            }
            Msg::Look => {
                state.look(context);
                context.after(LOOK, Msg::Look);
                state.progress.advance()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let picture = FollowerState {
            committed: state.progress.committed(),
            tip: state.progress.tip(),
            last_error: state.last_error.clone(),
        };
        serde_json::to_value(picture).unwrap_or_default()
    }
}

impl State {
    fn subscribe(&self, epoch: Epoch) {
        let request = comet::request(1, "subscribe", json!({"query": "tm.event='NewBlockHeader'"}));
        if !self.link.send(epoch, request.to_string()) {
            self.link.reconnect(epoch, "the subscription could not be sent");
        }
    }

    fn failed(&mut self, error: String) {
        tracing::warn!(error, "block is not indexed, trying again");
        self.last_error = Some(error);
    }

    fn look(&self, context: &Context<Msg>) {
        let (node, mailbox) = (self.args.node.clone(), context.mailbox());
        context.spawn(async move {
            if let Ok(status) = node.status().await {
                mailbox.send(Msg::Tip(status.sync_info.latest_block_height));
            }
        });
    }

    fn perform(&self, context: &Context<Msg>, effect: Effect<Arc<BlockFacts>>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            Effect::Fetch(height) => {
                context.spawn(async move {
                    let fetched = ingest::fetch(&args.node, height).await;
                    mailbox.send(Msg::Fetched(height, fetched.map(Box::new).map_err(|error| error.to_string())));
                });
            }
            Effect::Write(facts) => {
                context.spawn(async move {
                    let sources =
                        Sources { node: &args.node, store: &args.store, namespace: args.registry.namespace() };
                    let written = async {
                        let block = sources.gather(&facts).await?;
                        args.store.write(&block).await?;
                        Ok::<_, ingest::IngestError>(block)
                    };
                    let outcome = written.await.map(|block| BlockMessage {
                        block: facts.height,
                        block_time: instant::iso_millis(&facts.time),
                        events: block.events,
                    });
                    mailbox.send(Msg::Written(outcome.map_err(|error| error.to_string())));
                });
            }
        }
    }
}

fn height_of(frame: &str) -> Option<u64> {
    let response: Response = serde_json::from_str(frame).ok()?;
    match Notification::read(&response.result?)? {
        Notification::NewBlock { header } => Some(header.height),
        Notification::Tx { height, .. } => Some(height),
    }
}
