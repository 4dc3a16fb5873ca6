//! Answers of upstreams that are longer than any client reads, over real sockets.

use http::HeaderMap;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::upstream::{HttpUpstream, UpstreamError, UpstreamKind};

/// Length of the answer, in bytes.
const LENGTH: usize = 100_000_000;
/// Longest body that a client of a node reads.
const LIMIT: usize = 64 << 20;
/// Bytes that the sockets of both ends may hold.
const HELD: usize = 16 << 20;

/// Asks a server that has a long answer; returns the error, and the bytes of the body that the server could send.
async fn ask(head: String) -> (UpstreamError, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4_096];
        assert!(stream.read(&mut request).await.expect("a request") > 0);
        stream.write_all(head.as_bytes()).await.expect("a head");
        let (part, mut sent) = ([b'A'; 64 * 1024], 0);
        while sent < LENGTH {
            match stream.write(&part[..part.len().min(LENGTH - sent)]).await {
                Ok(written) => sent += written,
                Err(_) => break,
            }
        }
        sent
    });
    let client = HttpUpstream::new(UpstreamKind::Rpc, &origin).expect("a client");
    let error = client.get("descriptors", "/", HeaderMap::new()).await.expect_err("it is too long");
    // The connection ends with the client, at the latest.
    drop(client);
    (error, serving.await.expect("served"))
}

#[tokio::test]
async fn an_answer_of_100_mb_is_not_read_whole() {
    for (length, most) in [
        // Nothing is read of a body that announces its length.
        (format!("content-length: {LENGTH}\r\n"), HELD),
        ("connection: close\r\n".to_owned(), LIMIT + HELD),
    ] {
        let (error, sent) = ask(format!("HTTP/1.1 200 OK\r\n{length}\r\n")).await;
        assert!(error.to_string().contains(&format!("longer than {LIMIT} bytes")), "{length}: {error}");
        assert!(sent <= most, "{length}: {sent} bytes were sent");
    }
}
