//! The reconnecting link against servers that misbehave, over real sockets.
#![allow(missing_docs, clippy::expect_used)]

use std::{future::Future, time::Duration};

use futures::{SinkExt, StreamExt};
use svc_kit::{
    backoff::Backoff,
    link::{Epoch, Link, LinkConfig, LinkEvent},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

const PATIENCE: Duration = Duration::from_secs(20);
const QUICK: Backoff =
    Backoff { initial: Duration::from_millis(10), max: Duration::from_millis(10), factor: 1.0, jitter: 0.2 };

/// A server that treats each connection as `behave` says.
async fn server<F: Future<Output = ()> + Send + 'static>(
    behave: impl Fn(u32, WebSocketStream<TcpStream>) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        for count in 0.. {
            let (stream, _) = listener.accept().await.expect("a connection");
            if let Ok(socket) = accept_async(stream).await {
                tokio::spawn(behave(count, socket));
            }
        }
    });
    origin
}

fn open(origin: &str, liveness: Duration) -> (Link, mpsc::Receiver<LinkEvent>) {
    let (sender, events) = mpsc::channel(4);
    let mut config = LinkConfig::new("test", origin, "/");
    config.backoff = QUICK;
    config.liveness = liveness;
    let link = Link::open(config, move |event| {
        let sender = sender.clone();
        async move { sender.send(event).await.is_ok() }
    });
    (link, events)
}

async fn next(events: &mut mpsc::Receiver<LinkEvent>) -> LinkEvent {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("in time").expect("the link lives")
}

async fn up(events: &mut mpsc::Receiver<LinkEvent>) -> Epoch {
    loop {
        if let LinkEvent::Up(epoch) = next(events).await {
            return epoch;
        }
    }
}

async fn down(events: &mut mpsc::Receiver<LinkEvent>) -> (Epoch, String) {
    loop {
        if let LinkEvent::Down(epoch, reason) = next(events).await {
            return (epoch, reason);
        }
    }
}

#[tokio::test]
async fn a_closed_connection_is_opened_again_under_a_later_epoch() {
    let origin = server(|count, mut socket| async move {
        socket.send(Message::text(format!("hello {count}"))).await.expect("sent");
        let _ = socket.close(None).await;
    })
    .await;
    let (_link, mut events) = open(&origin, PATIENCE);
    let mut last = None;
    for count in 0..3 {
        let epoch = up(&mut events).await;
        assert!(last.is_none_or(|last| epoch > last));
        assert_eq!(next(&mut events).await, LinkEvent::Text(epoch, format!("hello {count}")));
        let (ended, reason) = down(&mut events).await;
        assert_eq!(ended, epoch);
        assert!(reason.contains("closed"), "{reason}");
        last = Some(epoch);
    }
}

#[tokio::test]
async fn silence_ends_a_connection_and_pongs_are_life() {
    // The first connection reads nothing, hence never pongs; the second answers pings and says nothing else.
    let origin = server(|count, mut socket| async move {
        if count == 0 {
            std::future::pending::<()>().await;
        }
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (_link, mut events) = open(&origin, Duration::from_secs(1));
    up(&mut events).await;
    let (_, reason) = down(&mut events).await;
    assert!(reason.contains("silent"), "{reason}");
    up(&mut events).await;
    let quiet = tokio::time::timeout(Duration::from_secs(3), events.recv()).await;
    assert!(quiet.is_err(), "three times the liveness without an end: {quiet:?}");
}

#[tokio::test]
async fn what_is_meant_for_an_old_connection_is_not_sent_on_the_new_one() {
    let (heard, mut texts) = mpsc::channel(8);
    let origin = server(move |_, mut socket| {
        let heard = heard.clone();
        async move {
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Text(text) = message {
                    heard.send(text.as_str().to_owned()).await.expect("heard");
                }
            }
        }
    })
    .await;
    let (link, mut events) = open(&origin, PATIENCE);
    let first = up(&mut events).await;
    link.reconnect(first, "the test wants another");
    assert_eq!(down(&mut events).await.1, "the test wants another");
    let second = up(&mut events).await;
    assert!(link.send(first, "late".into()) && link.send(second, "current".into()));
    assert_eq!(texts.recv().await.as_deref(), Some("current"));
}

#[tokio::test]
async fn an_owner_that_is_slow_slows_the_socket() {
    let (done, mut sent) = mpsc::channel(1);
    let origin = server(move |_, mut socket| {
        let done = done.clone();
        async move {
            let flood = async {
                for count in 0_u64.. {
                    if socket.send(Message::text("x".repeat(64 * 1024))).await.is_err() {
                        return count;
                    }
                }
                0
            };
            // The socket's buffers fill, and then sending waits.
            assert!(tokio::time::timeout(Duration::from_secs(1), flood).await.is_err(), "the flood was swallowed");
            let _ = done.send(()).await;
        }
    })
    .await;
    let (_link, mut events) = open(&origin, PATIENCE);
    up(&mut events).await;
    assert!(tokio::time::timeout(PATIENCE, sent.recv()).await.expect("in time").is_some());
}
