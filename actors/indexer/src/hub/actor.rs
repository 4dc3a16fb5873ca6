//! The actor around the hub's decisions.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent, Reply, ws};
use svc_otel::metrics::{self, BlockStage};
use svc_wire::event::{BlockMessage, ServerMessage};
use tokio::sync::mpsc;

use super::{
    Control, Join, Queue,
    core::{Subscriptions, text},
};
use crate::store::{Store, iso_millis};

/// What the hub is told.
pub enum Msg {
    /// A block is in the store.
    BlockProcessed(Arc<BlockMessage>),
    /// Blocks the hub was not told of, from the store.
    Found(Result<Vec<BlockMessage>, String>),
    /// A connection arrives.
    Join(Reply<Join>),
    /// A connection subscribes or unsubscribes.
    Control(u64, Control, Reply<()>),
    /// A connection is gone.
    Leave(u64),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::BlockProcessed(_) => "block_processed",
            Self::Found(_) => "found",
            Self::Join(_) => "join",
            Self::Control(..) => "control",
            Self::Leave(_) => "leave",
        }
    }
}

/// What a hub is made from.
pub struct Args {
    pub store: Store,
    pub block_interval: Duration,
    /// First height of an empty store.
    pub start: u64,
    /// The next connection's number. No incarnation gives one again: a farewell to a hub that has died must not reach another
    /// connection of its successor.
    pub next_id: AtomicU64,
    /// Bytes that may wait for one connection.
    pub max_buffered_bytes: usize,
}

/// The hub's end of a connection.
struct Lane {
    frames: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

pub struct State {
    args: Arc<Args>,
    interval_ms: u64,
    height: u64,
    time: String,
    lanes: HashMap<u64, Lane>,
    subscriptions: Subscriptions,
    /// Blocks that came before one that is still missing.
    waiting: BTreeMap<u64, Arc<BlockMessage>>,
    is_searching: bool,
}

pub struct Hub;

/// Messages a connection may be behind; bytes are the bound that counts, but for a very long silence.
const QUEUE: usize = 16_384;
/// Blocks looked up at once, and blocks kept waiting meanwhile.
const SEARCH: u64 = 64;

impl Behaviour for Hub {
    const KIND: &'static str = "hub";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(_: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let checkpoint = args.store.checkpoint().await.map_err(|error| Failure(error.to_string()))?;
        Ok(State {
            interval_ms: u64::try_from(args.block_interval.as_millis()).unwrap_or(u64::MAX),
            args: Arc::clone(args),
            height: checkpoint.height.max(args.start.saturating_sub(1)),
            time: iso_millis(checkpoint.time),
            lanes: HashMap::new(),
            subscriptions: Subscriptions::default(),
            waiting: BTreeMap::new(),
            is_searching: false,
        })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::BlockProcessed(block) => {
                // A hub that started after this block was written knows it from the checkpoint.
                if block.block > state.height {
                    state.waiting.insert(block.block, block);
                    while state.waiting.len() as u64 > SEARCH {
                        state.waiting.pop_last();
                    }
                }
                state.tell_waiting(context);
            }
            Msg::Found(found) => {
                state.is_searching = false;
                match found {
                    Ok(blocks) if !blocks.is_empty() => {
                        state.waiting.extend(blocks.into_iter().map(|block| (block.block, Arc::new(block))));
                        state.tell_waiting(context);
                    }
                    Ok(_) => tracing::warn!(height = state.height + 1, "a block to tell is not in the store"),
                    Err(error) => tracing::warn!(error, "blocks to tell cannot be read, trying again with the next"),
                }
            }
            Msg::Join(reply) => {
                let id = state.args.next_id.fetch_add(1, Ordering::Relaxed);
                let (frames, receiver) = mpsc::channel(QUEUE);
                let bytes = Arc::new(AtomicUsize::new(0));
                state.lanes.insert(id, Lane { frames, bytes: Arc::clone(&bytes) });
                let ready = ServerMessage::Ready {
                    block: state.height + 1,
                    block_time: state.time.clone(),
                    block_interval_ms: state.interval_ms,
                };
                state.push(id, &ws::text_frame(&text(&ready)));
                let queue = Queue { frames: receiver, bytes };
                reply.send(Join { id, queue });
                state.count();
            }
            Msg::Control(id, control, reply) => {
                match control {
                    Control::Subscribe(filter) if state.lanes.contains_key(&id) => {
                        state.subscriptions.set(id, filter);
                        let subscribed =
                            ServerMessage::Subscribed { block: state.height + 1, block_time: state.time.clone() };
                        state.push(id, &ws::text_frame(&text(&subscribed)));
                    }
                    Control::Subscribe(_) => {}
                    Control::Unsubscribe => state.subscriptions.remove(id),
                }
                reply.send(());
                state.count();
            }
            Msg::Leave(id) => {
                state.forget(id);
                state.count();
            }
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "height": state.height, "connections": state.lanes.len(), "subscriptions": state.subscriptions.len(),
            "filters": state.subscriptions.filters(),
        })
    }
}

impl State {
    /// Tells every block that is next in turn, and looks for one that is missing.
    fn tell_waiting(&mut self, context: &Context<Msg>) {
        while let Some(block) = self.waiting.remove(&(self.height + 1)) {
            self.tell(&block);
        }
        let height = self.height;
        self.waiting.retain(|waiting, _| *waiting > height);
        let Some(first) = self.waiting.keys().next().copied() else { return };
        if self.is_searching {
            return;
        }
        self.is_searching = true;
        let (store, mailbox) = (self.args.store.clone(), context.mailbox());
        let last = first.min(height + SEARCH) - 1;
        context.spawn(async move {
            let found = store.block_messages(height + 1, last).await;
            mailbox.send(Msg::Found(found.map_err(|error| error.to_string())));
        });
    }

    fn tell(&mut self, block: &BlockMessage) {
        let started = Instant::now();
        self.forget_departed();
        self.height = block.block;
        self.time.clone_from(&block.block_time);
        for answer in self.subscriptions.answers(block) {
            let frame = ws::text_frame(&answer.text);
            for id in answer.members {
                self.push(id, &frame);
            }
        }
        metrics::indexer_stage(BlockStage::Tell, started.elapsed());
    }

    fn push(&mut self, id: u64, frame: &Bytes) {
        let Some(lane) = self.lanes.get(&id) else { return };
        // As in the reference the bound is looked at before, so the queue may exceed it by one message.
        let has_room = lane.bytes.load(Ordering::Relaxed) <= self.args.max_buffered_bytes;
        // Counted before it can be taken out.
        lane.bytes.fetch_add(frame.len(), Ordering::Relaxed);
        if has_room && lane.frames.try_send(frame.clone()).is_ok() {
            return;
        }
        if !lane.frames.is_closed() {
            tracing::warn!(connection = id, "subscriber is too slow, its connection is closed");
        }
        self.forget(id);
    }

    /// A connection whose farewell found no room is gone all the same.
    fn forget_departed(&mut self) {
        let departed: Vec<u64> =
            self.lanes.iter().filter(|(_, lane)| lane.frames.is_closed()).map(|(id, _)| *id).collect();
        for id in departed {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        self.lanes.remove(&id);
        self.subscriptions.remove(id);
    }

    fn count(&self) {
        metrics::subscribers(self.lanes.len(), self.subscriptions.filters());
    }
}
