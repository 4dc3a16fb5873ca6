//! The public files of a DID: paths, types, caching, and readers that read slowly.

use std::time::Duration;

use serde_json::json;
use svc_agent::{
    DidMethod,
    document::{ServiceChange, ServiceIdPath},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::e2e::agent::{AgentServer, Mode, request, sqlite_url};

fn add(id: &str, length: usize) -> ServiceChange {
    let endpoint = json!({"text": "x".repeat(length)});
    ServiceChange::Add { id: Some(ServiceIdPath::new(id)), kind: "MCP".to_owned(), endpoint }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_and_logs_have_their_types_tags_and_paths() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::WebVh, Mode::Internal).await;
    for (file, content_type) in [("did.json", "application/did+json"), ("did.jsonl", "text/jsonl")] {
        let url = format!("{}/.well-known/{file}", server.public);
        let first = request("GET", &url).send().await.expect("answered");
        let header = |name: &str| first.headers()[name].to_str().expect("a text").to_owned();
        assert_eq!((first.status().as_u16(), header("content-type").as_str()), (200, content_type));
        assert_eq!(
            (header("cache-control").as_str(), header("access-control-allow-origin").as_str()),
            ("no-cache", "*")
        );
        let tag = header("etag");
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        for known in [tag.clone(), format!("\"other\", {tag}"), format!("W/{tag}")] {
            let again = request("GET", &url).header("if-none-match", &known).send().await.expect("answered");
            assert_eq!(
                (again.status().as_u16(), again.headers()["etag"].to_str().ok()),
                (304, Some(tag.as_str())),
                "{known}"
            );
        }
        server.agent.keeper().change(add(file, 1)).await.expect("added");
        let changed = request("GET", &url).header("if-none-match", &tag).send().await.expect("answered");
        assert_eq!(changed.status().as_u16(), 200);
        assert_eq!(request("HEAD", &url).send().await.expect("answered").status().as_u16(), 200);
        assert_eq!(request("POST", &url).send().await.expect("answered").status().as_u16(), 405);
        let other = request("GET", &format!("{}/{file}", server.public)).send().await.expect("answered");
        assert_eq!(other.status().as_u16(), 404, "the form of the path is that of the DID");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_delay_nobody() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::WebVh, Mode::Internal).await;
    for number in 0..2 {
        server.agent.keeper().change(add(&number.to_string(), 30_000)).await.expect("added");
    }
    let address = server.public.trim_start_matches("http://").replace("localhost", "127.0.0.1");
    let mut stalled = Vec::new();
    for _ in 0..1_000 {
        let mut socket = tokio::net::TcpStream::connect(&address).await.expect("connects");
        socket.write_all(b"GET /.well-known/did.jsonl HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("written");
        let mut first = [0];
        socket.read_exact(&mut first).await.expect("answered");
        stalled.push(socket);
    }
    let change = server.agent.keeper().change(add("b", 1));
    tokio::time::timeout(Duration::from_secs(20), change).await.expect("not delayed").expect("added");
    let url = format!("{}/.well-known/did.json", server.public);
    let read = request("GET", &url).timeout(Duration::from_secs(20)).send().await.expect("not delayed");
    assert_eq!(read.status().as_u16(), 200);
    server.stop().await;
}
