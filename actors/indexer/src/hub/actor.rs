//! The actor around the hub's decisions.

use std::{
    collections::{BTreeMap, HashMap},
    marker::PhantomData,
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
use svc_wire::event::ServerMessage;
use tokio::sync::mpsc;

use super::{
    Control, HubSettings, Join, Queue, Topic,
    core::{Subscriptions, text},
};
use crate::store::iso_millis;

/// What the hub is told.
pub enum Msg<T: Topic> {
    /// A block is in the store.
    BlockProcessed(Arc<T::Block>),
    /// Blocks the hub was not told of, from the store.
    Found(Result<Vec<T::Block>, String>),
    /// They could not be read.
    LookAgain,
    /// A connection arrives.
    Join(Reply<Join>),
    /// A connection subscribes or unsubscribes.
    Control(u64, Control<T::View>, Reply<()>),
    /// A connection is gone.
    Leave(u64),
}

impl<T: Topic> Intent for Msg<T> {
    fn name(&self) -> &'static str {
        match self {
            Self::BlockProcessed(_) => "block_processed",
            Self::Found(_) => "found",
            Self::LookAgain => "look_again",
            Self::Join(_) => "join",
            Self::Control(..) => "control",
            Self::Leave(_) => "leave",
        }
    }
}

/// What a hub is made from.
pub struct Args<T> {
    pub topic: T,
    pub settings: HubSettings,
    /// The next connection's number. No incarnation gives one again: a farewell to a hub that has died must not reach another
    /// connection of its successor.
    pub next_id: AtomicU64,
}

/// The hub's end of a connection.
struct Lane {
    frames: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

pub struct State<T: Topic> {
    args: Arc<Args<T>>,
    interval_ms: u64,
    height: u64,
    time: String,
    lanes: HashMap<u64, Lane>,
    subscriptions: Subscriptions<T>,
    /// Newest block it was told of.
    tip: u64,
    /// Blocks that came before one that is still missing.
    waiting: BTreeMap<u64, Arc<T::Block>>,
    is_searching: bool,
}

pub struct Hub<T>(PhantomData<fn() -> T>);

/// `ready` and `subscribed`, which are the same in every stream.
type Greeting = ServerMessage<()>;

/// Messages a connection may be behind; bytes are the bound that counts, but for a very long silence.
const QUEUE: usize = 16_384;
/// Blocks looked up at once, and blocks kept waiting meanwhile.
const SEARCH: u64 = 64;
/// How soon a failure is tried again.
const AGAIN: Duration = Duration::from_millis(250);

impl<T: Topic> Behaviour for Hub<T> {
    const KIND: &'static str = T::KIND;
    type Msg = Msg<T>;
    type Args = Args<T>;
    type State = State<T>;

    async fn start(_: &Context<Msg<T>>, args: &Arc<Args<T>>) -> Result<State<T>, Failure> {
        let settings = &args.settings;
        let checkpoint = args.topic.checkpoint().await.map_err(|error| Failure(error.to_string()))?;
        Ok(State {
            interval_ms: u64::try_from(settings.block_interval.as_millis()).unwrap_or(u64::MAX),
            args: Arc::clone(args),
            height: checkpoint.height.max(settings.start.saturating_sub(1)),
            time: iso_millis(checkpoint.time),
            lanes: HashMap::new(),
            subscriptions: Subscriptions::default(),
            tip: 0,
            waiting: BTreeMap::new(),
            is_searching: false,
        })
    }

    async fn handle(context: &Context<Msg<T>>, message: Msg<T>, state: &mut State<T>) -> Result<(), Failure> {
        match message {
            Msg::BlockProcessed(block) => {
                state.tip = state.tip.max(T::height(&block));
                // A hub that started after this block was written knows it from the checkpoint.
                if T::height(&block) > state.height {
                    state.waiting.insert(T::height(&block), block);
                    while state.waiting.len() as u64 > SEARCH {
                        state.waiting.pop_last();
                    }
                }
                state.tell_waiting(context);
            }
            Msg::Found(found) => {
                state.is_searching = false;
                let next = state.height + 1;
                match found {
                    Ok(blocks) if blocks.iter().any(|block| T::height(block) == next) => {
                        state.waiting.extend(blocks.into_iter().map(|block| (T::height(&block), Arc::new(block))));
                        state.tell_waiting(context);
                    }
                    Ok(_) => {
                        tracing::warn!(height = next, "a block to tell is not in the store, looking again");
                        context.after(AGAIN, Msg::LookAgain);
                    }
                    Err(error) => {
                        tracing::warn!(height = next, error, "blocks to tell cannot be read, trying again");
                        context.after(AGAIN, Msg::LookAgain);
                    }
                }
            }
            Msg::LookAgain => state.tell_waiting(context),
            Msg::Join(reply) => {
                let id = state.args.next_id.fetch_add(1, Ordering::Relaxed);
                let (frames, receiver) = mpsc::channel(QUEUE);
                let bytes = Arc::new(AtomicUsize::new(0));
                state.lanes.insert(id, Lane { frames, bytes: Arc::clone(&bytes) });
                let ready = Greeting::Ready {
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
                        if !state.subscriptions.set(id, filter) {
                            tracing::warn!(
                                connection = id,
                                "no room for the DIDs of a subscription, its connection is closed"
                            );
                            state.forget(id);
                        }
                        let subscribed =
                            Greeting::Subscribed { block: state.height + 1, block_time: state.time.clone() };
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

    fn observe(state: &State<T>) -> Value {
        json!({
            "height": state.height, "connections": state.lanes.len(), "subscriptions": state.subscriptions.len(),
            "filters": state.subscriptions.filters(),
        })
    }
}

impl<T: Topic> State<T> {
    /// Tells every block that is next in turn, and looks for one that is missing.
    fn tell_waiting(&mut self, context: &Context<Msg<T>>) {
        while let Some(block) = self.waiting.remove(&(self.height + 1)) {
            self.tell(&block);
        }
        let height = self.height;
        self.waiting.retain(|waiting, _| *waiting > height);
        // Without a block that waits, those are missing for which there was no room.
        let last = self.waiting.keys().next().map_or(self.tip, |first| first - 1).min(height + SEARCH);
        if self.is_searching || last <= height {
            return;
        }
        self.is_searching = true;
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let found = args.topic.blocks(height + 1, last).await;
            mailbox.send(Msg::Found(found.map_err(|error| error.to_string())));
        });
    }

    fn tell(&mut self, block: &T::Block) {
        let started = Instant::now();
        self.forget_departed();
        self.height = T::height(block);
        T::time(block).clone_into(&mut self.time);
        for answer in self.subscriptions.answers(block) {
            let frame = ws::text_frame(&answer.text);
            for id in answer.members {
                self.push(id, &frame);
            }
        }
        metrics::indexer_stage(BlockStage::Tell(T::STREAM), started.elapsed());
    }

    fn push(&mut self, id: u64, frame: &Bytes) {
        let Some(lane) = self.lanes.get(&id) else { return };
        // As in the reference the bound is looked at before, so the queue may exceed it by one message.
        let has_room = lane.bytes.load(Ordering::Relaxed) <= self.args.settings.max_buffered_bytes;
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
        metrics::subscribers(T::STREAM, self.lanes.len(), self.subscriptions.filters());
    }
}
