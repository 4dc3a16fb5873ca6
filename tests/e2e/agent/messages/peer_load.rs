//! Many sockets at an agent.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{SinkExt, StreamExt};
use svc_agent::PeerSettings;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::tungstenite::Message;

use crate::e2e::agent::{
    AgentServer,
    messages::{peers::any_peers, scripted_peer::ScriptedPeer},
    no_events, sqlite_url,
};

const SOCKETS: usize = 10_000;
const PLACES: usize = 300;
const CLIENTS: usize = 8;

/// Asks for a WebSocket; returns it where it is given.
async fn open(host: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(host).await.expect("connected");
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("answered");
    match &answer[9..] {
        b"101" => Some(stream),
        b"503" => None,
        other => panic!("{:?}", String::from_utf8_lossy(other)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_sockets_take_the_places_of_sockets_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = PeerSettings { sockets: PLACES, ..any_peers() };
    let url = sqlite_url(directory.path());
    let server = AgentServer::start_for_peers(directory.path(), &url, settings, no_events()).await;
    let peer = ScriptedPeer::start(server.agent.keeper().published().document.did()).await;
    let mut first = peer.connect().await;
    let (host, asked) = (server.public.trim_start_matches("http://").to_owned(), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (host, asked) = (host.clone(), Arc::clone(&asked));
            tokio::spawn(async move {
                let mut kept = Vec::new();
                while asked.fetch_add(1, Ordering::SeqCst) < SOCKETS {
                    kept.extend(open(&host).await);
                }
                kept
            })
        })
        .collect();
    let mut kept = Vec::new();
    for client in clients {
        kept.extend(client.await.expect("a client"));
    }
    assert_eq!(kept.len(), PLACES - 1, "one place had an owner before");
    // The peer with a socket goes on, and one without is served by POST.
    first.send(Message::Binary(peer.seal(&peer.text("1", "by a socket")).into())).await.expect("sent");
    first.send(Message::Ping("p".into())).await.expect("sent");
    assert!(first.next().await.expect("an answer").expect("a frame").is_pong());
    assert_eq!(peer.post(peer.seal(&peer.text("2", "by a request"))).await, 202);
    let found = server.send("GET", "/v2/didcomm/basic-messages", None).await.body;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "{found}");
    drop(kept);
    server.stop().await;
}
