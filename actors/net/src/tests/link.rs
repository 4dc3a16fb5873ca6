//! The reconnecting link against faulty servers.

use std::{future::Future, time::Duration};

use crate::upstream::{UpstreamEndpoints, UpstreamKind, UpstreamOrigins};
use crate::websocket::{ConnectionEpoch, LinkConfig, LinkEvent, Patience, Reading, StreamProtocol, WebSocketLink};
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

/// A stream whose frames are the texts. "confirm" confirms the subscription, "patience N" announces a patience with the stream in
/// milliseconds, and "broken" breaks the protocol.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub requests: Vec<String>,
}

impl StreamProtocol for Echo {
    type Frame = String;

    fn requests(&self) -> Vec<String> {
        self.requests.clone()
    }

    fn read(&mut self, text: &str) -> Result<Reading<String>, String> {
        let patience = text.strip_prefix("patience ").and_then(|millis| millis.parse().ok());
        match text {
            "broken" => Err("the text is broken".to_owned()),
            "confirm" => Ok(Reading { is_confirmed: true, ..Reading::default() }),
            "ask" => Ok(Reading { request: Some("asked".to_owned()), ..Reading::default() }),
            _ => Ok(Reading {
                patience: patience.map(|millis| Patience::Stream(Duration::from_millis(millis))),
                ..text.to_owned().into()
            }),
        }
    }
}

type Event = LinkEvent<String>;

fn config(origin: &str) -> LinkConfig {
    let mut config = LinkConfig::new("test", origin, "/");
    config.backoff = FAST_BACKOFF;
    config.liveness_timeout = TEST_TIMEOUT;
    config.confirmation_timeout = TEST_TIMEOUT * 2;
    config
}

fn open_stream(config: LinkConfig, stream: Echo) -> (WebSocketLink, mpsc::Receiver<Event>) {
    let (sender, events) = mpsc::channel(4);
    let link = WebSocketLink::open_with(config, stream, move |event| {
        let sender = sender.clone();
        async move { sender.send(event).await.is_ok() }
    });
    (link, events)
}

fn open_link(origin: &str, liveness: Duration) -> (WebSocketLink, mpsc::Receiver<Event>) {
    let mut config = config(origin);
    config.liveness_timeout = liveness;
    open_stream(config, Echo::default())
}

async fn next_event(events: &mut mpsc::Receiver<Event>) -> Event {
    tokio::time::timeout(TEST_TIMEOUT, events.recv()).await.expect("in time").expect("the link lives")
}

async fn wait_for_up(events: &mut mpsc::Receiver<Event>) -> ConnectionEpoch {
    loop {
        if let LinkEvent::Up { epoch, .. } = next_event(events).await {
            return epoch;
        }
    }
}

async fn wait_for_down(events: &mut mpsc::Receiver<Event>) -> (ConnectionEpoch, String) {
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
        assert_eq!(next_event(&mut events).await, LinkEvent::Frame { epoch, frame: format!("hello {count}") });
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
async fn frames_of_a_connection_that_was_given_up_are_dropped() {
    let origin = start_server(|count, mut socket| async move {
        for number in 0..3 {
            socket.send(Message::text(format!("{count}.{number}"))).await.expect("sent");
        }
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (mut link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let (mut frames, mut late) = (Vec::new(), 0);
    let mut epochs = Vec::new();
    while epochs.len() < 3 || frames.len() < 3 {
        let Some(event) = link.accept(next_event(&mut events).await) else {
            late += 1;
            continue;
        };
        match event {
            LinkEvent::Up { epoch, .. } => {
                assert_eq!(link.epoch(), epoch);
                epochs.push(epoch);
            }
            LinkEvent::Frame { epoch, frame } => {
                assert_eq!(epochs.last(), Some(&epoch));
                frames.push(frame);
                // The server has sent two more frames already. A second reason is not kept.
                link.reconnect("the test wants another");
                link.reconnect("another reason");
            }
            LinkEvent::Down { reason, .. } => assert_eq!(reason, "the test wants another"),
            LinkEvent::Ready { .. } | LinkEvent::Silent { .. } => panic!("nothing was confirmed"),
        }
    }
    assert_eq!(frames, ["0.0", "1.0", "2.0"]);
    assert!(late > 0, "the frames behind the first one of a connection are late");
    assert!(epochs.is_sorted() && epochs[0] < epochs[1]);
}

#[tokio::test]
async fn a_late_frame_of_an_earlier_epoch_is_dropped() {
    let origin = start_server(|_, mut socket| async move { while let Some(Ok(_)) = socket.next().await {} }).await;
    let (mut link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let first = wait_for_up(&mut events).await;
    let frame = |epoch| LinkEvent::Frame { epoch, frame: "late".to_owned() };
    assert_eq!(link.accept(frame(first)), None, "no connection was accepted yet");
    assert!(
        link.accept(Event::Up { epoch: first, origin: origin.clone() }).is_some()
            && link.accept(frame(first)).is_some()
    );
    link.reconnect("the test wants another");
    assert_eq!(link.accept(frame(first)), None, "it was given up");
    let down = next_event(&mut events).await;
    assert!(link.accept(down).is_some());
    assert_eq!(link.accept(frame(first)), None, "it has ended");
    let second = wait_for_up(&mut events).await;
    assert!(second > first && link.accept(Event::Up { epoch: second, origin: origin.clone() }).is_some());
    assert_eq!((link.accept(frame(first)), link.accept(Event::Ready { epoch: first })), (None, None));
    assert!(link.accept(frame(second)).is_some());
}

#[tokio::test]
async fn requests_are_sent_over_each_connection_and_the_subscription_is_confirmed_once() {
    let origin = start_server(|_, mut socket| async move {
        let first = socket.next().await.expect("a request").expect("a frame");
        socket.send(Message::text("ask")).await.expect("sent");
        let second = socket.next().await.expect("a request").expect("a frame");
        socket.send(Message::text(format!("{first} {second}"))).await.expect("sent");
        for text in ["confirm", "confirm", "block"] {
            socket.send(Message::text(text)).await.expect("sent");
        }
        let _ = socket.close(None).await;
    })
    .await;
    let (_link, mut events) = open_stream(config(&origin), Echo { requests: vec!["subscribe".to_owned()] });
    for _ in 0..2 {
        let epoch = wait_for_up(&mut events).await;
        let frame = |text: &str| LinkEvent::Frame { epoch, frame: text.to_owned() };
        assert_eq!(next_event(&mut events).await, frame("subscribe asked"));
        assert_eq!(next_event(&mut events).await, LinkEvent::Ready { epoch });
        assert_eq!(next_event(&mut events).await, frame("block"));
        assert_eq!(wait_for_down(&mut events).await.0, epoch);
    }
}

#[tokio::test]
async fn a_server_that_never_confirms_is_left() {
    // Its frames and pongs do not help.
    let origin = start_server(|_, mut socket| async move {
        let _ = socket.send(Message::text("block")).await;
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let mut config = config(&origin);
    config.confirmation_timeout = Duration::from_millis(300);
    let (_link, mut events) = open_stream(config, Echo::default());
    for _ in 0..2 {
        wait_for_up(&mut events).await;
        let (_, reason) = wait_for_down(&mut events).await;
        assert_eq!(reason, "no subscription within 300ms");
    }
}

#[tokio::test]
async fn a_server_that_answers_pings_and_sends_no_frames_is_left_after_its_patience() {
    let origin = start_server(|_, mut socket| async move {
        for text in ["confirm", "patience 10000", "patience 300"] {
            let _ = socket.send(Message::text(text)).await;
        }
        // Reads, so that pings are answered. A text without a patience does not renew it.
        let _ = socket.send(Message::text("block")).await;
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (_link, mut events) = open_link(&origin, Duration::from_millis(600));
    wait_for_up(&mut events).await;
    assert_eq!(wait_for_down(&mut events).await.1, Echo::SILENCE);
    // Before the server has announced any.
    let origin = start_server(|_, mut socket| async move { while let Some(Ok(_)) = socket.next().await {} }).await;
    let mut config = config(&origin);
    config.stream_patience = Some(Duration::from_millis(300));
    let (_link, mut events) = open_stream(config, Echo::default());
    wait_for_up(&mut events).await;
    assert_eq!(wait_for_down(&mut events).await.1, Echo::SILENCE);
}

#[tokio::test]
async fn the_time_that_the_owner_takes_is_no_silence() {
    let origin = start_server(|_, mut socket| async move {
        let _ = socket.send(Message::text("confirm")).await;
        while socket.send(Message::text("patience 1000")).await.is_ok() {}
    })
    .await;
    let (_link, mut events) = open_link(&origin, Duration::from_secs(1));
    wait_for_up(&mut events).await;
    // The owner is busy for longer than either patience.
    for _ in 0..3 {
        let busy = tokio::time::timeout(Duration::from_millis(1_200), std::future::pending::<()>());
        assert!(busy.await.is_err());
        for _ in 0..20 {
            let event = next_event(&mut events).await;
            assert!(matches!(event, LinkEvent::Ready { .. } | LinkEvent::Frame { .. }), "{event:?}");
        }
    }
}

#[tokio::test]
async fn a_text_that_breaks_the_protocol_ends_the_connection() {
    let origin = start_server(|_, mut socket| async move {
        for text in ["confirm", "broken", "block"] {
            let _ = socket.send(Message::text(text)).await;
        }
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (_link, mut events) = open_stream(config(&origin), Echo::default());
    let epoch = wait_for_up(&mut events).await;
    assert_eq!(next_event(&mut events).await, LinkEvent::Ready { epoch });
    let reason = "the text is broken".to_owned();
    assert_eq!(next_event(&mut events).await, LinkEvent::Down { epoch, reason });
}

#[tokio::test]
async fn a_refused_upgrade_is_an_attempt_that_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        for count in 0_u32.. {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            if count == 2 {
                let mut socket = accept_async(stream).await.expect("a handshake");
                while let Some(Ok(_)) = socket.next().await {}
                return;
            }
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4_096]).await;
            let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
        }
    });
    let (_link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let mut last = ConnectionEpoch::default();
    for _ in 0..2 {
        match next_event(&mut events).await {
            LinkEvent::Down { epoch, reason } => {
                assert!(epoch > last && reason.contains("503"), "{reason}");
                last = epoch;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(wait_for_up(&mut events).await > last);
}

#[tokio::test]
async fn a_socket_that_closes_in_the_middle_of_a_frame_ends_the_connection() {
    let origin = start_server(|count, mut socket| async move {
        socket.send(Message::text("confirm")).await.expect("sent");
        if count > 0 {
            while let Some(Ok(_)) = socket.next().await {}
            return;
        }
        // The head of a text of 100 bytes, ten of them, and the end of the socket.
        let mut stream = socket.into_inner();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"\x81\x640123456789").await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).await;
    })
    .await;
    let (_link, mut events) = open_link(&origin, TEST_TIMEOUT);
    let first = wait_for_up(&mut events).await;
    assert_eq!(next_event(&mut events).await, LinkEvent::Ready { epoch: first });
    match next_event(&mut events).await {
        LinkEvent::Down { epoch, .. } => assert_eq!(epoch, first),
        other => panic!("half a frame was delivered: {other:?}"),
    }
    let second = wait_for_up(&mut events).await;
    assert!(second > first);
    assert_eq!(next_event(&mut events).await, LinkEvent::Ready { epoch: second });
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

#[tokio::test]
async fn a_connection_ends_when_another_server_is_used_and_names_its_own() {
    let quiet =
        |_, mut socket: WebSocketStream<TcpStream>| async move { while let Some(Ok(_)) = socket.next().await {} };
    let (first, second) = (start_server(quiet).await, start_server(quiet).await);
    let origins = UpstreamOrigins::from(&first).with_origin(&second);
    let endpoints = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins).expect("a client");
    let mut config = LinkConfig::with_endpoints("test", endpoints.clone(), "/");
    config.backoff = FAST_BACKOFF;
    let (_link, mut events) = open_stream(config, Echo::default());
    for (origin, next) in [(&first, &second), (&second, &first)] {
        let up = next_event(&mut events).await;
        assert!(matches!(&up, LinkEvent::Up { origin: connected, .. } if connected == origin), "{up:?}");
        endpoints.use_origin(next);
        assert_eq!(wait_for_down(&mut events).await.1, "another server is used");
    }
    assert!(endpoints.at_origin(&second).is_some() && endpoints.at_origin("http://other.example").is_none());
}
