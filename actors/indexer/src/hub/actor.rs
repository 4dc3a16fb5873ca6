//! The shell of a hub: holds the connections, loads missing blocks, and sends frames.

use std::{
    collections::HashMap,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_net::websocket::server as websocket_server;
use svc_otel::metrics::{self, BlockStage};
use svc_wire::event_stream::StreamMessage;

use super::{
    Args, Msg,
    connection::{FrameReceiver, FrameSender, HubConnection, frame_queue},
    control_message::ControlMessage,
    core::{BlockSequence, SubscriptionIndex},
    message_json::encode_message,
    topics::HubTopic,
};
use crate::store::iso_millis;

pub struct State<T: HubTopic> {
    args: Arc<Args<T>>,
    block_time: String,
    connections: HashMap<u64, FrameSender>,
    subscriptions: SubscriptionIndex<T>,
    blocks: BlockSequence<Arc<T::Block>>,
}

pub struct Hub<T>(PhantomData<fn() -> T>);

/// `ready` and `subscribed`, which are the same in every stream.
type HandshakeMessage = StreamMessage<()>;

/// Delay of a retry after a failed load.
const RETRY_DELAY: Duration = Duration::from_millis(250);

impl<T: HubTopic> ActorBehaviour for Hub<T> {
    const KIND: &'static str = T::KIND;
    type Msg = Msg<T>;
    type Args = Args<T>;
    type State = State<T>;

    async fn start(_: &ActorContext<Msg<T>>, args: &Arc<Args<T>>) -> Result<State<T>, ActorFailure> {
        let settings = &args.settings;
        let checkpoint = args.topic.checkpoint().await.map_err(|error| ActorFailure(error.to_string()))?;
        Ok(State {
            args: Arc::clone(args),
            block_time: iso_millis(checkpoint.time),
            connections: HashMap::new(),
            subscriptions: SubscriptionIndex::default(),
            blocks: BlockSequence::new(checkpoint.height.max(settings.first_height.get().saturating_sub(1))),
        })
    }

    async fn handle(context: &ActorContext<Msg<T>>, message: Msg<T>, state: &mut State<T>) -> Result<(), ActorFailure> {
        match message {
            Msg::BlocksStored { blocks } => {
                for block in blocks {
                    state.blocks.insert(T::height(&block), block);
                }
                state.publish_pending(context);
            }
            Msg::BlocksLoaded { result } => state.accept_loaded(context, result),
            Msg::Restart => return Err(ActorFailure("the stream begins with another height".to_owned())),
            Msg::RetryLoad => state.publish_pending(context),
            Msg::Join { reply } => {
                let connection = state.args.next_connection.fetch_add(1, Ordering::Relaxed);
                let frames = state.open_connection(connection);
                reply.send(HubConnection { id: connection, frames });
                state.record_subscribers();
            }
            Msg::Control { connection, control, reply } => {
                state.apply_control(connection, control);
                reply.send(());
                state.record_subscribers();
            }
            Msg::Leave { connection } => {
                state.remove_connection(connection);
                state.record_subscribers();
            }
        }
        Ok(())
    }

    fn observe(state: &State<T>) -> Value {
        json!({
            "height": state.blocks.height(), "connections": state.connections.len(),
            "subscriptions": state.subscriptions.len(), "filters": state.subscriptions.filter_count(),
        })
    }
}

impl<T: HubTopic> State<T> {
    fn accept_loaded(&mut self, context: &ActorContext<Msg<T>>, result: Result<Vec<T::Block>, String>) {
        let height = self.blocks.height() + 1;
        let loaded = result
            .map(|blocks| blocks.into_iter().map(|block| (T::height(&block), Arc::new(block))).collect::<Vec<_>>());
        let is_complete = self.blocks.finish_load(loaded.as_deref().unwrap_or_default());
        match loaded {
            Ok(_) if is_complete => return self.publish_pending(context),
            Ok(_) => tracing::warn!(height, "a block to publish is not in the store; the hub will look again"),
            Err(error) => tracing::warn!(height, error, "blocks to publish cannot be read; the hub will retry"),
        }
        context.send_after(RETRY_DELAY, Msg::RetryLoad);
    }

    /// Publishes the blocks that are next in order, and loads missing ones.
    fn publish_pending(&mut self, context: &ActorContext<Msg<T>>) {
        while let Some(block) = self.blocks.pop_next() {
            self.publish_block(&block);
        }
        let Some(missing) = self.blocks.begin_load() else { return };
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let loaded = args.topic.blocks(missing.first, missing.last).await;
            mailbox.send(Msg::BlocksLoaded { result: loaded.map_err(|error| error.to_string()) });
        });
    }

    fn publish_block(&mut self, block: &T::Block) {
        T::time(block).clone_into(&mut self.block_time);
        if self.connections.is_empty() {
            return;
        }
        let started = Instant::now();
        self.remove_closed();
        for delivery in self.subscriptions.encode_deliveries(block) {
            let frame = websocket_server::text_frame(&delivery.text);
            for connection in delivery.connections {
                self.send_frame(connection, &frame);
            }
        }
        metrics::record_indexer_stage(BlockStage::Publish(T::STREAM), started.elapsed());
    }

    fn open_connection(&mut self, connection: u64) -> FrameReceiver {
        let (sender, receiver) = frame_queue();
        self.connections.insert(connection, sender);
        let ready = HandshakeMessage::Ready {
            block: self.blocks.height() + 1,
            block_time: self.block_time.clone(),
            block_interval_ms: u64::try_from(self.args.settings.block_interval.get().as_millis()).unwrap_or(u64::MAX),
        };
        self.send_frame(connection, &websocket_server::text_frame(&encode_message(&ready)));
        receiver
    }

    fn apply_control(&mut self, connection: u64, control: ControlMessage<T::TopicView>) {
        match control {
            ControlMessage::Subscribe(filter) if self.connections.contains_key(&connection) => {
                if !self.subscriptions.set(connection, filter) {
                    tracing::warn!(
                        connection,
                        "the filters of all subscriptions have too many DIDs; the hub closes the connection"
                    );
                    self.remove_connection(connection);
                }
                let subscribed = HandshakeMessage::Subscribed {
                    block: self.blocks.height() + 1,
                    block_time: self.block_time.clone(),
                };
                self.send_frame(connection, &websocket_server::text_frame(&encode_message(&subscribed)));
            }
            ControlMessage::Subscribe(_) => {}
            ControlMessage::Unsubscribe => self.subscriptions.remove(connection),
        }
    }

    fn send_frame(&mut self, connection: u64, frame: &Bytes) {
        let Some(sender) = self.connections.get(&connection) else { return };
        if sender.try_send(frame, self.args.settings.max_buffered_bytes) {
            return;
        }
        if !sender.is_closed() {
            tracing::warn!(connection, "a subscriber is too slow; the hub closes its connection");
        }
        self.remove_connection(connection);
    }

    /// Removes connections that clients have closed: a `leave` is lost when the mailbox is full.
    fn remove_closed(&mut self) {
        let closed: Vec<u64> =
            self.connections.iter().filter(|(_, sender)| sender.is_closed()).map(|(id, _)| *id).collect();
        for connection in closed {
            self.remove_connection(connection);
        }
    }

    fn remove_connection(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.subscriptions.remove(connection);
    }

    fn record_subscribers(&self) {
        metrics::record_subscribers(T::STREAM, self.connections.len(), self.subscriptions.filter_count());
    }
}
