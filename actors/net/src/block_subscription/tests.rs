//! The protocol by a table, then a subscription of an actor over a real socket.

use std::sync::Arc;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use svc_kit::{
    ActorBehaviour, ActorContext, ActorFailure, Handle, impl_actor_message,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use super::*;
use crate::upstream::{UpstreamKind, UpstreamOrigins};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const PATIENCE: BlockPatience = BlockPatience { initial: TEST_TIMEOUT, fixed: None, least: Duration::from_secs(1) };

/// The messages of an indexer over each connection.
type Speech = &'static [fn() -> Value];

fn ready(interval_ms: u64) -> Value {
    json!({"type": "ready", "block": 8, "blockTime": "t", "blockIntervalMs": interval_ms})
}

fn subscribed(block: u64) -> Value {
    json!({"type": "subscribed", "block": block, "blockTime": "t"})
}

fn block(height: u64) -> Value {
    json!({"type": "block", "block": height, "blockTime": "t", "events": []})
}

#[test]
fn the_indexer_announces_the_silence_and_its_blocks_renew_it() {
    let fixed = BlockPatience { fixed: Some(Duration::from_secs(3)), ..PATIENCE };
    for (patience, interval_ms, expected) in [(PATIENCE, 100, 1), (PATIENCE, 5_000, 10), (fixed, 5_000, 3)] {
        let mut stream = BlockStream { scope: SubscriptionScope::Corporation(7), patience, interval_ms: 0 };
        let expected = Some(Patience::Stream(Duration::from_secs(expected)));
        let mut read = |message: Value| stream.read(&message.to_string()).expect("in the contract");
        let reading = read(ready(interval_ms));
        assert_eq!(reading.request.as_deref(), Some(r#"{"action":"subscribe","corporationId":7}"#));
        assert_eq!((reading.patience, reading.is_confirmed), (expected, false));
        let reading = read(subscribed(8));
        assert_eq!((reading.patience, reading.is_confirmed, reading.request), (expected, true, None));
        let reading = read(block(8));
        assert_eq!((reading.patience, reading.is_confirmed, reading.request), (expected, false, None));
        assert_eq!(read(json!({"type": "weather"})), StreamMessage::Unknown.into());
        assert_eq!(stream.read("{}"), Err(OUTSIDE_CONTRACT.to_owned()));
    }
}

/// A message of the test's actor.
enum Msg {
    Link(LinkEvent<StreamMessage>),
    Page(ConnectionEpoch, Result<EventsPage, PageError>),
    Height(Result<u64, String>),
}

impl_actor_message!(Msg { Link, Page, Height });

/// Facts about the test's subscription.
#[derive(Debug, PartialEq)]
enum Fact {
    Up(ConnectionEpoch),
    Effect(SubscriptionEffect),
    Down(String),
    /// Whether nothing comes, after a height.
    Silent(bool),
    /// The phase after a page.
    Page(SubscriptionPhase),
}

struct Args {
    indexer: UpstreamEndpoints,
    patience: BlockPatience,
    facts: mpsc::UnboundedSender<Fact>,
}

struct Subscriber;

impl ActorBehaviour for Subscriber {
    const KIND: &'static str = "subscriber";
    type Msg = Msg;
    type Args = Args;
    type State = (Arc<Args>, BlockSubscription);

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<Self::State, ActorFailure> {
        let scope = SubscriptionScope::Corporation(7);
        let (indexer, mailbox) = (args.indexer.clone(), context.mailbox());
        let subscription = BlockSubscription::open(indexer, scope, args.patience, Some(4), mailbox, Msg::Link);
        Ok((Arc::clone(args), subscription))
    }

    async fn handle(_: &ActorContext<Msg>, message: Msg, state: &mut Self::State) -> Result<(), ActorFailure> {
        let (args, subscription) = state;
        let effects = match message {
            Msg::Link(event) => match subscription.accept(event) {
                Some(LinkEvent::Up { epoch, .. }) => {
                    let _ = args.facts.send(Fact::Up(epoch));
                    Vec::new()
                }
                Some(LinkEvent::Frame { frame, .. }) => subscription.on_message(frame, true),
                Some(LinkEvent::Down { reason, .. }) => {
                    let _ = args.facts.send(Fact::Down(reason));
                    Vec::new()
                }
                Some(LinkEvent::Silent { .. }) => subscription.on_silence(),
                Some(LinkEvent::Ready { .. }) | None => Vec::new(),
            },
            Msg::Height(height) => {
                let effects = subscription.on_height(subscription.epoch(), height);
                let _ = args.facts.send(Fact::Silent(subscription.is_silent()));
                effects
            }
            Msg::Page(epoch, page) => {
                let effects = subscription.on_page(epoch, page);
                let _ = args.facts.send(Fact::Page(subscription.phase()));
                effects
            }
        };
        for effect in effects {
            match effect {
                SubscriptionEffect::Reconnect { reason } => subscription.reconnect(reason),
                effect => {
                    let _ = args.facts.send(Fact::Effect(effect));
                }
            }
        }
        Ok(())
    }

    fn observe(_: &Self::State) -> Value {
        Value::Null
    }
}

/// Starts an indexer that says the same over each connection, and a subscriber.
async fn start(patience: BlockPatience, says: Speech) -> (Supervisor, Handle<Msg>, mpsc::UnboundedReceiver<Fact>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origins = UpstreamOrigins::from(format!("http://{}", listener.local_addr().expect("an address")));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let Ok(mut socket) = accept_async(stream).await else { continue };
            tokio::spawn(async move {
                for message in says {
                    let _ = socket.send(Message::text(message().to_string())).await;
                }
                while let Some(Ok(_)) = socket.next().await {}
            });
        }
    });
    let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins).expect("a client");
    let (facts, heard) = mpsc::unbounded_channel();
    let handle = Handle::new("subscriber", "subscriber", 16);
    let tree = Supervisor::new("root");
    let child = ChildSpec::worker::<Subscriber>(&handle, Args { indexer, patience, facts });
    tree.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    (tree, handle, heard)
}

async fn next(heard: &mut mpsc::UnboundedReceiver<Fact>) -> Fact {
    tokio::time::timeout(TEST_TIMEOUT, heard.recv()).await.expect("in time").expect("the actor lives")
}

fn page() -> Result<EventsPage, PageError> {
    Ok(EventsPage { events: Vec::new(), count: 0, after_block_height: 4, oldest_block_height: None, next_cursor: None })
}

#[tokio::test]
async fn a_page_of_an_earlier_connection_is_dropped() {
    let (_tree, handle, mut heard) = start(PATIENCE, &[|| ready(60_000), || subscribed(8), || block(8)]).await;
    let mut epochs = Vec::new();
    for _ in 0..2 {
        let Fact::Up(epoch) = next(&mut heard).await else { panic!("no connection") };
        epochs.push(epoch);
        assert_eq!(next(&mut heard).await, Fact::Effect(SubscriptionEffect::PublishHeight { height: 7 }));
        assert_eq!(next(&mut heard).await, Fact::Effect(SubscriptionEffect::ReadPage { after: 4, cursor: None }));
        if epochs.len() == 1 {
            handle
                .tell(Msg::Page(epoch, Err(PageError::Failed("the test wants another connection".to_owned()))))
                .expect("delivered");
            assert!(matches!(next(&mut heard).await, Fact::Page(SubscriptionPhase::CatchingUp { target_height: 7 })));
            assert_eq!(next(&mut heard).await, Fact::Down("the events could not be read".to_owned()));
        }
    }
    assert!(epochs[0] < epochs[1]);
    handle.tell(Msg::Page(epochs[0], page())).expect("delivered");
    assert_eq!(next(&mut heard).await, Fact::Page(SubscriptionPhase::CatchingUp { target_height: 7 }), "a late page");
    handle.tell(Msg::Page(epochs[1], page())).expect("delivered");
    assert_eq!(next(&mut heard).await, Fact::Page(SubscriptionPhase::Live));
    assert_eq!(next(&mut heard).await, Fact::Effect(SubscriptionEffect::PublishHeight { height: 7 }));
    assert_eq!(next(&mut heard).await, Fact::Effect(SubscriptionEffect::PublishHeight { height: 8 }));
}

#[tokio::test]
async fn a_silent_indexer_is_asked_for_its_height_and_left_where_it_gives_none() {
    let fixed = BlockPatience { fixed: Some(Duration::from_millis(300)), ..PATIENCE };
    let silent = BlockPatience { initial: Duration::from_millis(300), ..PATIENCE };
    let cases: [(BlockPatience, Speech); 2] = [(fixed, &[|| ready(60_000), || subscribed(8)]), (silent, &[])];
    for (patience, says) in cases {
        let (_tree, handle, mut heard) = start(patience, says).await;
        let mut first = None;
        let mut next_question = async |heard: &mut mpsc::UnboundedReceiver<Fact>| loop {
            match next(heard).await {
                Fact::Up(epoch) => first = Some(epoch),
                Fact::Effect(SubscriptionEffect::ReadHeight) => return,
                // The pages of the first connection.
                Fact::Effect(SubscriptionEffect::ReadPage { .. }) => {
                    handle.tell(Msg::Page(first.expect("a connection"), page())).expect("delivered");
                }
                Fact::Down(reason) => panic!("{reason}"),
                _ => {}
            }
        };
        next_question(&mut heard).await;
        handle.tell(Msg::Height(Ok(4))).expect("delivered");
        // The connection goes on, and after the next patience the indexer is asked again.
        next_question(&mut heard).await;
        handle.tell(Msg::Height(Err("the test has none".to_owned()))).expect("delivered");
        let mut silences = Vec::new();
        loop {
            match next(&mut heard).await {
                Fact::Silent(is_silent) => silences.push(is_silent),
                Fact::Down(reason) => {
                    assert_eq!(reason, "the indexer sends no blocks, and its height could not be read");
                    break;
                }
                _ => {}
            }
        }
        assert_eq!(silences.last(), Some(&true), "it had no newer block");
    }
}

#[tokio::test]
async fn an_indexer_outside_its_contract_is_left() {
    let (_tree, _handle, mut heard) = start(PATIENCE, &[|| json!({"type": "block"})]).await;
    loop {
        if let Fact::Down(reason) = next(&mut heard).await {
            assert_eq!(reason, OUTSIDE_CONTRACT);
            break;
        }
    }
}

#[tokio::test]
async fn a_connection_to_an_indexer_that_is_not_in_use_any_more_is_ended() {
    // The first indexer accepts the connection once the second one is in use.
    let first = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let second = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = |listener: &TcpListener| format!("http://{}", listener.local_addr().expect("an address"));
    let (origin_of_first, origin_of_second) = (origin(&first), origin(&second));
    let origins = UpstreamOrigins::from(&origin_of_first).with_origin(&origin_of_second);
    let indexer = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins).expect("a client");
    let (facts, mut heard) = mpsc::unbounded_channel();
    let handle = Handle::new("subscriber", "subscriber", 16);
    let tree = Supervisor::new("root");
    let args = Args { indexer: indexer.clone(), patience: PATIENCE, facts };
    let child = ChildSpec::worker::<Subscriber>(&handle, args);
    tree.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    let (stream, _) = first.accept().await.expect("a connection");
    indexer.use_origin(&origin_of_second);
    let mut socket = accept_async(stream).await.expect("a handshake");
    assert!(matches!(next(&mut heard).await, Fact::Up(_)));
    assert_eq!(next(&mut heard).await, Fact::Down(REPLACED.to_owned()));
    while let Some(Ok(_)) = socket.next().await {}
    let (stream, _) = second.accept().await.expect("a connection");
    let _socket = accept_async(stream).await.expect("a handshake");
    assert!(matches!(next(&mut heard).await, Fact::Up(_)));
}
