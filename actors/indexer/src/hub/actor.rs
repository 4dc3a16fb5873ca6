//! The actor around the hub's decisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent, Reply};
use svc_wire::{
    event::{BlockMessage, ServerMessage},
    instant,
};
use tokio::sync::mpsc;

use super::{
    Join, Outgoing,
    core::{Filter, Subscriptions, text},
};
use crate::store::Store;

/// What the hub is told.
pub enum Msg {
    /// A block is in the store.
    BlockProcessed(Arc<BlockMessage>),
    /// A connection arrives.
    Join(Reply<Join>),
    /// A connection subscribes, anew or again.
    Subscribe(u64, Filter),
    /// A connection wants no more blocks.
    Unsubscribe(u64),
    /// A connection is gone.
    Leave(u64),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::BlockProcessed(_) => "block_processed",
            Self::Join(_) => "join",
            Self::Subscribe(..) => "subscribe",
            Self::Unsubscribe(_) => "unsubscribe",
            Self::Leave(_) => "leave",
        }
    }
}

/// What a hub is made from.
pub struct Args {
    pub store: Store,
    pub block_interval: Duration,
}

pub struct State {
    interval_ms: u64,
    height: u64,
    time: String,
    next_id: u64,
    connections: HashMap<u64, mpsc::Sender<Outgoing>>,
    subscriptions: Subscriptions,
}

pub struct Hub;

/// Messages a connection may be behind. At one message a block this is minutes on a live chain.
const QUEUE: usize = 256;

impl Behaviour for Hub {
    const KIND: &'static str = "hub";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(_: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let checkpoint = args.store.checkpoint().await.map_err(|error| Failure(error.to_string()))?;
        let time = instant::parse_rfc3339(&checkpoint.time).map(|time| instant::iso_millis(&time));
        Ok(State {
            interval_ms: u64::try_from(args.block_interval.as_millis()).unwrap_or(u64::MAX),
            height: checkpoint.height,
            time: time.unwrap_or_else(|| instant::iso_millis(&instant::from_nanos(0))),
            next_id: 0,
            connections: HashMap::new(),
            subscriptions: Subscriptions::default(),
        })
    }

    async fn handle(_: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::BlockProcessed(block) => state.tell_block(&block),
            Msg::Join(reply) => {
                state.next_id += 1;
                let (sender, queue) = mpsc::channel(QUEUE);
                state.connections.insert(state.next_id, sender);
                let ready = ServerMessage::Ready {
                    block: state.height + 1,
                    block_time: state.time.clone(),
                    block_interval_ms: state.interval_ms,
                };
                state.push(state.next_id, text(&ready));
                reply.send(Join { id: state.next_id, queue });
            }
            Msg::Subscribe(id, filter) => {
                state.subscriptions.set(id, filter);
                let subscribed = ServerMessage::Subscribed { block: state.height + 1, block_time: state.time.clone() };
                state.push(id, text(&subscribed));
            }
            Msg::Unsubscribe(id) => state.subscriptions.remove(id),
            Msg::Leave(id) => state.forget(id),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "height": state.height, "connections": state.connections.len(), "subscriptions": state.subscriptions.len(),
        })
    }
}

impl State {
    fn tell_block(&mut self, block: &BlockMessage) {
        // A hub that started after this block was written knows it from the checkpoint.
        if block.block <= self.height {
            return;
        }
        self.height = block.block;
        self.time.clone_from(&block.block_time);
        for (id, text) in self.subscriptions.answers(block) {
            self.push(id, text);
        }
    }

    fn push(&mut self, id: u64, text: Arc<str>) {
        let Some(queue) = self.connections.get(&id) else { return };
        if queue.try_send(Outgoing::Text(text)).is_err() {
            tracing::warn!(connection = id, "subscriber is too slow, its connection is closed");
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        self.connections.remove(&id);
        self.subscriptions.remove(id);
    }
}
