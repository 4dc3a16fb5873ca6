//! The pauses between attempts, and the URL.

use tokio::sync::mpsc;

use super::*;
use crate::{
    tests::link::Echo,
    upstream::{UpstreamKind, UpstreamOrigins},
};

#[tokio::test]
async fn a_link_in_backoff_connects_at_once_when_it_is_woken() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let pause = Duration::from_secs(3_600);
    let backoff = Backoff { initial: pause, max: pause, factor: 1.0, jitter: 0.0 };
    let config = LinkConfig { backoff, ..LinkConfig::new("rpc", &format!("http://{address}"), "/websocket") };
    let (events, mut heard) = mpsc::channel(8);
    let link = WebSocketLink::open_with(config, Echo::default(), move |event| {
        let events = events.clone();
        async move { events.send(event).await.is_ok() }
    });
    assert!(matches!(heard.recv().await, Some(LinkEvent::Down { .. })), "there is no server");
    let server = tokio::net::TcpListener::bind(address).await.expect("the port is free");
    let accepted = tokio::spawn(async move {
        let (stream, _) = server.accept().await.expect("a connection");
        tokio_tungstenite::accept_async(stream).await.expect("a handshake")
    });
    let up = async {
        loop {
            link.wake();
            tokio::select! {
                event = heard.recv() => return event,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let up = timeout(Duration::from_secs(10), up).await.expect("long before the pause is over");
    assert!(matches!(up, Some(LinkEvent::Up { .. })), "{up:?}");
    accepted.await.expect("accepted");
}

#[tokio::test]
async fn a_link_in_backoff_connects_at_once_when_the_server_answers_again() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let origins = UpstreamOrigins::from(format!("http://{address}"));
    let endpoints = UpstreamEndpoints::new(UpstreamKind::Indexer, &origins).expect("a client");
    endpoints.current().get("test", "/", http::HeaderMap::new()).await.expect_err("there is no server");
    let pause = Duration::from_secs(3_600);
    let backoff = Backoff { initial: pause, max: pause, factor: 1.0, jitter: 0.0 };
    let config = LinkConfig { backoff, ..LinkConfig::with_endpoints("indexer", endpoints.clone(), "/stream") };
    let (events, mut heard) = mpsc::channel(8);
    let _link = WebSocketLink::open_with(config, Echo::default(), move |event| {
        let events = events.clone();
        async move { events.send(event).await.is_ok() }
    });
    assert!(matches!(heard.recv().await, Some(LinkEvent::Down { .. })));
    let server = tokio::net::TcpListener::bind(address).await.expect("the port is free");
    let _server = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let (mut stream, _) = server.accept().await.expect("a connection");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4_096]).await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await;
        }
    }));
    endpoints.current().get("test", "/", http::HeaderMap::new()).await.expect("it answers");
    // The next attempt fails too, since this server has no WebSocket; it is made long before the pause is over.
    let attempt = timeout(Duration::from_secs(10), heard.recv()).await.expect("in time");
    assert!(matches!(attempt, Some(LinkEvent::Down { .. })), "{attempt:?}");
}

#[test]
fn an_http_origin_becomes_a_websocket_url() {
    for (origin, url) in [
        ("http://127.0.0.1:26657", "ws://127.0.0.1:26657/websocket"),
        ("https://node.example/", "wss://node.example/websocket"),
        ("https://node.example/rpc/", "wss://node.example/rpc/websocket"),
    ] {
        assert_eq!(LinkConfig::new("rpc", origin, "/websocket").url(origin), url);
    }
}
