//! The actor around the follower's decisions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Retained,
    link::{Epoch, Link, LinkConfig, LinkEvent},
    upstream::NodeClient,
    wall,
};
use svc_otel::{
    metrics::{self, BlockStage},
    trace,
};
use svc_wire::{
    comet::{self, Notification, Response},
    event::BlockMessage,
    schema::Registry,
};
use tracing::{Instrument, Span};

use super::{
    FollowerState, LastError, Source,
    core::{Effect, Progress},
    discover,
};
use crate::{
    block::{self, Knowledge},
    gather::{self, Fetched, Gatherer, IngestError},
    hub::HubHandle,
    store::{Store, iso_millis},
    trust,
};

/// What the follower is told; all of it by its own tasks.
pub enum Msg {
    /// The node's WebSocket reports.
    Link(LinkEvent),
    /// The node has this height.
    Tip(u64),
    /// A block was fetched, or was not.
    Fetched(u64, Result<Box<Fetched>, IngestError>),
    /// The block being written was written, or was not.
    Written(Result<BlockMessage, IngestError>),
    /// Look at the status.
    Look,
    /// Try again what failed.
    Again,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Tip(_) => "tip",
            Self::Fetched(..) => "fetched",
            Self::Written(_) => "written",
            Self::Look => "look",
            Self::Again => "again",
        }
    }
}

/// What a follower is made from.
pub struct Args {
    pub node: NodeClient,
    pub registry: Arc<Registry>,
    pub knowledge: Knowledge,
    pub store: Store,
    pub hub: HubHandle,
    /// Judges what a block triggers.
    pub arbiter: Handle<trust::Msg>,
    pub rpc: String,
    /// First height, if the store is empty; the next one otherwise.
    pub start: u64,
    /// Why the last attempt failed, until one succeeds; read by whoever answers.
    pub last_error: Retained<Option<LastError>>,
}

pub struct State {
    args: Arc<Args>,
    link: Link,
    progress: Progress<Arc<Fetched>>,
    is_trying_again: bool,
}

pub struct Follower;

/// How often the status is looked at beside the WebSocket.
const LOOK: Duration = Duration::from_secs(1);
/// How soon a failure is tried again.
const AGAIN: Duration = Duration::from_millis(250);

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
        Ok(State {
            args: Arc::clone(args),
            link,
            progress: Progress::new(checkpoint.height.max(args.start.saturating_sub(1))),
            is_trying_again: false,
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let effects = match message {
            Msg::Link(LinkEvent::Up(epoch)) => {
                state.subscribe(epoch);
                state.look(context);
                state.progress.advance()
            }
            Msg::Link(LinkEvent::Text(_, text)) => match height_of(&text) {
                Some(height) => state.progress.tip_seen(height),
                None => Vec::new(),
            },
            Msg::Link(LinkEvent::Down(..)) => Vec::new(),
            Msg::Tip(height) => state.progress.tip_seen(height),
            Msg::Fetched(height, Ok(fetched)) => state.progress.fetched(height, Arc::new(*fetched)),
            Msg::Fetched(height, Err(error)) => {
                metrics::indexer_failure(BlockStage::Fetch);
                state.failed(height, &error);
                state.progress.fetch_failed(height);
                state.try_again(context);
                Vec::new()
            }
            Msg::Written(Ok(block)) => {
                state.args.last_error.with(|error| *error = None);
                let tip = state.progress.tip();
                tracing::debug!(height = block.block, tip, events = block.events.len(), "block is indexed");
                let modules = block.events.iter().map(|event| event.payload.module.as_str());
                metrics::indexer_block(block.block, tip, modules);
                // A hub that is restarting reads the checkpoint itself, and one without room finds the block in the store.
                let height = block.block;
                let _ = state.args.hub.processed(block);
                // One that is restarting looks at the checkpoint, and one without room hears of the next block.
                let _ = state.args.arbiter.tell(trust::Msg::Processed(height));
                state.progress.written()
            }
            Msg::Written(Err(error)) => {
                metrics::indexer_failure(BlockStage::Write);
                state.failed(state.progress.committed() + 1, &error);
                state.progress.write_failed();
                state.try_again(context);
                Vec::new()
            }
            Msg::Look => {
                state.look(context);
                context.after(LOOK, Msg::Look);
                Vec::new()
            }
            Msg::Again => {
                state.is_trying_again = false;
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
            last_error: state.args.last_error.with(|error| error.clone()),
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

    fn failed(&mut self, height: u64, error: &IngestError) {
        tracing::warn!(height, %error, "block is not indexed, trying again");
        let message = format!("block {height}: {}", error.public());
        let error = LastError { message, timestamp: wall::now_text() };
        self.args.last_error.with(|last| *last = Some(error));
    }

    fn try_again(&mut self, context: &Context<Msg>) {
        if !self.is_trying_again {
            self.is_trying_again = true;
            context.after(AGAIN, Msg::Again);
        }
    }

    fn look(&self, context: &Context<Msg>) {
        let (node, mailbox) = (self.args.node.clone(), context.mailbox());
        context.spawn(async move {
            if let Ok(status) = node.status().await {
                mailbox.send(Msg::Tip(status.sync_info.latest_block_height));
            }
        });
    }

    fn perform(&self, context: &Context<Msg>, effect: Effect<Arc<Fetched>>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            Effect::Fetch(height) => {
                context.spawn(async move {
                    let started = Instant::now();
                    let fetched = fetch(&args, height).await;
                    metrics::indexer_stage(BlockStage::Fetch, started.elapsed());
                    mailbox.send(Msg::Fetched(height, fetched.map(Box::new)));
                });
            }
            Effect::Write(fetched) => {
                let span = trace::block_span(fetched.facts.height);
                let write = async move {
                    let written = write(&args, &fetched).await;
                    mailbox.send(Msg::Written(written));
                };
                context.spawn(write.instrument(span));
            }
        }
    }
}

/// Fetches a block, and from the node whatever it names itself.
async fn fetch(args: &Args, height: u64) -> Result<Fetched, IngestError> {
    let block = args.node.block(height).await?;
    let results = args.node.block_results(height).await?;
    let mut facts = block::read(&block, &results, &args.knowledge).ok_or(IngestError::Time(height))?;
    let source = Source { node: &args.node, registry: &args.registry };
    // An empty store that begins in the middle of a chain has to find what was there before.
    if height == args.start && height > 1 && args.store.checkpoint().await?.height == 0 {
        discover(source, &mut facts).await?;
    }
    let readings = gather::read_all(source, facts.touched.keys().cloned().collect(), height).await?;
    Ok(Fetched { facts, readings })
}

async fn write(args: &Args, fetched: &Fetched) -> Result<BlockMessage, IngestError> {
    let source = Source { node: &args.node, registry: &args.registry };
    let gatherer = Gatherer { source, store: &args.store, knowledge: &args.knowledge };
    let started = Instant::now();
    let block = gatherer.gather(fetched).await?;
    metrics::indexer_stage(BlockStage::Gather, started.elapsed());
    trace::record_block(&Span::current(), block.events.len(), block.changes.len());
    let started = Instant::now();
    args.store.write(&block).await?;
    metrics::indexer_stage(BlockStage::Write, started.elapsed());
    Ok(BlockMessage { block: block.height, block_time: iso_millis(block.time), events: block.events })
}

fn height_of(frame: &str) -> Option<u64> {
    let response: Response = serde_json::from_str(frame).ok()?;
    match Notification::read(&response.result?)? {
        Notification::NewBlock { header } => Some(header.height),
        Notification::Tx { height, .. } => Some(height),
    }
}
