//! The reconnecting link against faulty servers.

use std::{future::Future, time::Duration};

use crate::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
use futures::{SinkExt, StreamExt};
use svc_kit::backoff::Backoff;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_tungstenite::{WebSocketStream, accept_async, tungstenite::Message};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
const FAST_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(10), max: Duration::from_millis(10), factor: 1.0, jitter: 0.2 };

/// Starts a server that calls `behave` with the number and the socket of each connection.
async fn start_server<F: Future<Output = ()> + Send + 'static>(
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

fn open_link(origin: &str, liveness: Duration) -> (WebSocketLink, mpsc::Receiver<LinkEvent>) {
    let (sender, events) = mpsc::channel(4);
    let mut config = LinkConfig::new("test", origin, "/");
    config.backoff = FAST_BACKOFF;
    config.liveness_timeout = liveness;
    let link = WebSocketLink::open(config, move |event| {
        let sender = sender.clone();
        async move { sender.send(event).await.is_ok() }
    });
    (link, events)
}

async fn next_event(events: &mut mpsc::Receiver<LinkEvent>) -> LinkEvent {
    tokio::time::timeout(TEST_TIMEOUT, events.recv()).await.expect("in time").expect("the link lives")
}

async fn wait_for_up(events: &mut mpsc::Receiver<LinkEvent>) -> ConnectionEpoch {
    loop {
        if let LinkEvent::Up { epoch } = next_event(events).await {
            return epoch;
        }
    }
}

async fn wait_for_down(events: &mut mpsc::Receiver<LinkEvent>) -> (ConnectionEpoch, String) {
    loop {
        if let LinkEvent::Down { epoch, reason } = next_event(events).await {
            return (epoch, reason);
        }
    }
}

#[tokio::test]
async fn a_closed_connection_is_opened_again_under_a_later_epoch() {
    let origin = start_server(|count, mut socket| async move {
        socket.send(Message::text(format!("hello {count}"))).await.expect("sent");
        let _ = socket.close(None).await;
    })
    .await;
    let (_link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let mut last = None;
    for count in 0..3 {
        let epoch = wait_for_up(&mut events).await;
        assert!(last.is_none_or(|last| epoch > last));
        assert_eq!(next_event(&mut events).await, LinkEvent::Text { epoch, text: format!("hello {count}") });
        let (ended, reason) = wait_for_down(&mut events).await;
        assert_eq!(ended, epoch);
        assert!(reason.contains("closed"), "{reason}");
        last = Some(epoch);
    }
}

#[tokio::test]
async fn silence_ends_a_connection_and_pongs_end_the_silence() {
    // The server reads nothing from the first connection and sends no pongs; to the second it sends pongs only.
    let origin = start_server(|count, mut socket| async move {
        if count == 0 {
            std::future::pending::<()>().await;
        }
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (_link, mut events) = open_link(&origin, Duration::from_secs(1));
    wait_for_up(&mut events).await;
    let (_, reason) = wait_for_down(&mut events).await;
    assert!(reason.contains("silent"), "{reason}");
    wait_for_up(&mut events).await;
    let quiet = tokio::time::timeout(Duration::from_secs(3), events.recv()).await;
    assert!(quiet.is_err(), "three times the liveness without an end: {quiet:?}");
}

#[tokio::test]
async fn a_text_for_an_earlier_connection_is_not_sent_over_the_next_one() {
    let (received, mut texts) = mpsc::channel(8);
    let origin = start_server(move |_, mut socket| {
        let received = received.clone();
        async move {
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Text(text) = message {
                    received.send(text.as_str().to_owned()).await.expect("received");
                }
            }
        }
    })
    .await;
    let (link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let first = wait_for_up(&mut events).await;
    link.reconnect(first, "the test wants another");
    assert_eq!(wait_for_down(&mut events).await.1, "the test wants another");
    let second = wait_for_up(&mut events).await;
    assert!(link.send(first, "late".into()) && link.send(second, "current".into()));
    assert_eq!(texts.recv().await.as_deref(), Some("current"));
}

#[tokio::test]
async fn a_slow_owner_slows_the_socket() {
    let (done, mut sent) = mpsc::channel(1);
    let origin = start_server(move |_, mut socket| {
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
    let (_link, mut events) = open_link(&origin, TEST_TIMEOUT);
    wait_for_up(&mut events).await;
    assert!(tokio::time::timeout(TEST_TIMEOUT, sent.recv()).await.expect("in time").is_some());
}
