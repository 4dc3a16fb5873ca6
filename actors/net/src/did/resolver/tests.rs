//! Tests of the resolver against servers.

mod spans;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::watch};

use super::*;
use crate::{
    did::log_builder::{DidLogBuilder, LogSigningKey, witness_parameter},
    fetch::tests::start_server,
};

/// Serves files by path, each with its own headers. Requests wait while the gate is closed.
struct DidWebServer {
    location: String,
    content: Arc<Mutex<ServedFiles>>,
    gate: watch::Sender<bool>,
}

#[derive(Default)]
struct ServedFiles {
    files: HashMap<String, (&'static str, String)>,
    requested_paths: Vec<String>,
}

impl DidWebServer {
    async fn start() -> Self {
        let (content, is_open) = (Arc::<Mutex<ServedFiles>>::default(), watch::Sender::new(true));
        let (served, gate) = (Arc::clone(&content), is_open.clone());
        let origin = start_server(move |request, mut stream| {
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let file = {
                let mut content = served.lock().unwrap_or_else(PoisonError::into_inner);
                content.requested_paths.push(path.clone());
                content.files.get(&path).cloned()
            };
            let mut gate = gate.subscribe();
            async move {
                let answer = match file {
                    Some((headers, body)) => {
                        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
                    }
                    None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
                };
                let _ = gate.wait_for(|is_open| *is_open).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        })
        .await;
        let port = origin.rsplit(':').next().expect("a port");
        Self { location: format!("localhost%3A{port}"), content, gate: is_open }
    }

    fn put(&self, path: &str, headers: &'static str, body: impl ToString) {
        self.content.lock().expect("content").files.insert(path.to_owned(), (headers, body.to_string()));
    }

    fn remove(&self, path: &str) {
        self.content.lock().expect("content").files.remove(path);
    }

    fn request_count(&self) -> usize {
        self.content.lock().expect("content").requested_paths.len()
    }

    fn did_web(&self) -> String {
        format!("did:web:{}", self.location)
    }

    /// Publishes a log at the root.
    fn publish(&self, log: &DidLogBuilder) {
        self.put("/.well-known/did.jsonl", "", log.text());
    }
}

const DID_JSON: &str = "/.well-known/did.json";

fn resolver() -> DidResolver {
    DidResolver::new(HostPolicy::AllowPrivate).expect("a client")
}

#[tokio::test]
async fn a_document_of_the_did_resolves_and_any_other_has_its_error() {
    let (site, resolver) = (DidWebServer::start().await, resolver());
    let (did, nested) = (site.did_web(), format!("{}:users:alice", site.did_web()));
    site.put("/users/alice/did.json", "", json!({"id": nested}));
    assert_eq!(*resolver.resolve(&format!("{nested}?x=y#key-1")).await.expect("nested"), json!({"id": nested}));
    for (body, code, expected) in [
        (json!({"id": did}).to_string(), "", ""),
        (json!({"id": nested}).to_string(), "did_document_invalid", "its id is \"did:web:localhost"),
        (json!({"id": 1}).to_string(), "did_document_invalid", "has no id"),
        ("[]".to_owned(), "did_document_invalid", "has no id"),
        ("<html>".to_owned(), "did_document_invalid", "expected value"),
        (String::new(), "did_document_invalid", "EOF"),
        ("[".repeat(50_000), "did_document_invalid", "nested in more than"),
        ("{\"\":".repeat(100_000), "did_fetch_failed", "more than 16777216 bytes of memory"),
        (" ".repeat(1024 * 1024 + 1), "did_fetch_failed", "longer than 1048576 bytes"),
    ] {
        site.put(DID_JSON, "Cache-Control: no-store\r\n", &body);
        match resolver.resolve(&did).await {
            Ok(_) => assert_eq!(code, ""),
            Err(error) => {
                let text = error.to_string();
                assert_eq!(error.code(), code, "{text}");
                assert!(text.contains(expected) && text.contains(&did) && text.contains(DID_JSON), "{text}");
            }
        }
    }
    let absent = resolver.resolve(&format!("{did}:absent")).await.expect_err("absent");
    assert!(matches!(
        &absent,
        DidError::FetchFailed { error: crate::fetch::FetchError::HttpStatus { status: 404, .. }, .. }
    ));
}

#[tokio::test]
async fn a_server_that_goes_back_to_an_older_log_is_not_believed() {
    let (site, key) = (DidWebServer::start().await, LogSigningKey::new(1));
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("versions");
    let remembering = || {
        let versions = crate::did::VersionMemory::open(&file).expect("a memory");
        DidResolver::with_versions(HostPolicy::AllowPrivate, versions).expect("a client")
    };
    let mut log = DidLogBuilder::new(&site.location, &key, |_| {});
    let older = log.text();
    log.add_entry(&key, |_| {});
    site.publish(&log);
    remembering().resolve_fresh(&log.did).await.expect("the newest log");
    site.put("/.well-known/did.jsonl", "", &older);
    let error = remembering().resolve_fresh(&log.did).await.expect_err("an older log");
    assert_eq!(error.code(), "did_rolled_back", "{error}");
    assert!(resolver().resolve_fresh(&log.did).await.is_ok(), "without a memory it is a log like any other");
    log.add_entry(&key, |_| {});
    site.publish(&log);
    let resolver = remembering();
    resolver.resolve_fresh(&log.did).await.expect("a longer log");
    let live = log.text();
    log.add_entry(&key, |entry| entry["parameters"]["deactivated"] = true.into());
    site.publish(&log);
    assert_eq!(resolver.resolve_fresh(&log.did).await.expect_err("its end").code(), "did_deactivated");
    // The resolver has verified these bytes before, and they are over.
    site.put("/.well-known/did.jsonl", "", &live);
    assert_eq!(resolver.resolve_fresh(&log.did).await.expect_err("an ended DID").code(), "did_rolled_back");
}

#[tokio::test]
async fn a_refused_host_and_an_invalid_did_have_different_codes() {
    let resolver = DidResolver::new(HostPolicy::PublicOnly).expect("a client");
    let scid = "QmTYXE8TR3uLUWWrefCtFCLhdFWDBk7Eyq5DQRmiHFVAEL";
    for (did, code, expected) in [
        ("web:x", "did_syntax", "is not a DID"),
        ("did:example:1", "did_method_not_supported", "supported: did:web, did:webvh"),
        ("did:web:127.0.0.1", "host_refused", "127.0.0.1 is not a public address"),
        ("did:web:10.0.0.1%3A80", "host_refused", "10.0.0.1 is not a public address"),
        ("did:web:localhost%3A80", "host_refused", "localhost is not a public address"),
        ("did:web:intranet", "host_refused", "\"intranet\" is not a public host name"),
        (&format!("did:webvh:{scid}:localhost%3A80"), "host_refused", "localhost is not a public address"),
        (&format!("did:webvh:{scid}:agent.local"), "host_refused", "\"agent.local\" is not a public host name"),
        (&format!("did:webvh:{scid}:127.0.0.1"), "did_syntax", "takes names only"),
    ] {
        let error = resolver.resolve(did).await.expect_err("refused");
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(expected), "{did}: {error}");
    }
}

#[tokio::test]
async fn a_log_is_fetched_and_verified_and_each_failure_has_its_code() {
    let (site, own, other, witness) =
        (DidWebServer::start().await, LogSigningKey::new(1), LogSigningKey::new(2), LogSigningKey::new(3));
    let resolver = resolver();
    let uncached = |entry: &mut Value| entry["parameters"]["ttl"] = 0.into();
    let mut log = DidLogBuilder::new(&site.location, &own, uncached);
    log.add_entry(&own, |entry| entry["state"]["alsoKnownAs"] = json!(["https://example.org"]));
    site.publish(&log);
    let document = resolver.resolve(&log.did).await.expect("it resolves");
    assert_eq!((&document["id"], &document["alsoKnownAs"]), (&json!(log.did), &json!(["https://example.org"])));
    assert_eq!(document["service"][0]["serviceEndpoint"], format!("http://{}", site.location.replace("%3A", ":")));

    let mut thief = DidLogBuilder::new(&site.location, &other, uncached);
    thief.claim_scid(&log.scid, &other);
    let mut broken = DidLogBuilder::new(&site.location, &own, uncached);
    broken.add_entry(&other, |_| {});
    let mut ended = DidLogBuilder::new(&site.location, &own, uncached);
    ended.add_entry(&own, |entry| entry["parameters"]["deactivated"] = true.into());
    let witnessed = DidLogBuilder::new(&site.location, &own, |entry| {
        uncached(entry);
        entry["parameters"]["witness"] = witness_parameter(1, &[&witness]);
    });
    for (published, code, expected) in [
        (&thief, "did_scid_mismatch", "its first entry makes the SCID"),
        (&broken, "did_log_invalid", "is not authorized"),
        (&ended, "did_deactivated", "is deactivated"),
        (&witnessed, "did_fetch_failed", "did-witness.json was answered with HTTP status 404"),
    ] {
        site.publish(published);
        let error = resolver.resolve(&published.did).await.expect_err("refused");
        let text = error.to_string();
        assert_eq!(error.code(), code, "{text}");
        assert!(
            text.contains(expected) && text.contains(&published.did) && text.contains("http://localhost"),
            "{text}"
        );
    }
    site.put("/.well-known/did-witness.json", "", json!([witnessed.witness_proof(0, &[&other])]));
    assert_eq!(resolver.resolve(&witnessed.did).await.expect_err("refused").code(), "did_witness_invalid");
    site.put("/.well-known/did-witness.json", "", json!([witnessed.witness_proof(0, &[&witness])]));
    resolver.resolve(&witnessed.did).await.expect("it is witnessed");
    for (body, code) in [
        ("x\n".repeat(10_001), "did_log_too_long"),
        ("{".repeat(1_000_000), "did_fetch_failed"),
        (" ".repeat(16 * 1024 * 1024 + 1), "did_fetch_failed"),
        ("<html>".to_owned(), "did_log_invalid"),
        (String::new(), "did_log_invalid"),
    ] {
        site.put("/.well-known/did.jsonl", "", body);
        assert_eq!(resolver.resolve(&log.did).await.expect_err("refused").code(), code);
    }
}

#[tokio::test]
async fn a_log_may_be_larger_than_a_document_and_is_then_verified_alone() {
    let (site, resolver) = (DidWebServer::start().await, resolver());
    let own = LogSigningKey::new(1);
    let mut log = DidLogBuilder::new(&site.location, &own, |_| {});
    for number in 0..24 {
        log.add_entry(&own, |entry| entry["state"]["note"] = format!("{number} {}", "x".repeat(60_000)).into());
    }
    assert!(log.text().len() > 1024 * 1024);
    site.publish(&log);
    let document = resolver.resolve(&log.did).await.expect("it resolves");
    assert_eq!(document["note"], log.last_entry()["state"]["note"]);
    // The permit is free again.
    assert_eq!(resolver.resolve_fresh(&log.did).await.expect("it resolves again"), document);
    assert_eq!(resolver.0.large_log_permit.available_permits(), 1);
}

#[tokio::test]
async fn a_document_is_fetched_again_when_it_must_not_be_cached_or_must_be_fresh() {
    let (site, resolver) = (DidWebServer::start().await, resolver());
    let did = site.did_web();
    let document = |version: u64| json!({"id": did, "version": version});
    let version = async |fresh: bool| {
        let document = if fresh { resolver.resolve_fresh(&did).await } else { resolver.resolve(&did).await };
        document.map(|document| document["version"].as_u64().expect("a version"))
    };
    site.put(DID_JSON, "", document(1));
    assert_eq!((version(false).await, version(false).await), (Ok(1), Ok(1)));
    assert_eq!(site.request_count(), 1, "cached, although no header states a time");
    site.put(DID_JSON, "", document(2));
    assert_eq!((version(false).await, version(true).await, version(false).await), (Ok(1), Ok(2), Ok(2)));
    assert_eq!(site.request_count(), 2, "a fresh document is cached too");
    // A document that must not be cached replaces the cached one.
    for (number, headers) in
        ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=5\r\nAge: 5\r\n"].iter().enumerate()
    {
        let before = site.request_count();
        site.put(DID_JSON, headers, document(number as u64 + 3));
        assert_eq!(version(true).await, version(false).await);
        assert_eq!(site.request_count(), before + 2, "{headers}");
    }
    // A failure is not cached, and it removes the cached document.
    site.put(DID_JSON, "Cache-Control: max-age=60\r\n", document(5));
    assert_eq!(version(false).await, Ok(5));
    site.remove(DID_JSON);
    assert_eq!(version(false).await, Ok(5));
    assert_eq!(version(true).await.expect_err("gone").code(), "did_fetch_failed");
    assert_eq!(version(false).await.expect_err("gone").code(), "did_fetch_failed");
    site.put(DID_JSON, "", document(6));
    assert_eq!(version(false).await, Ok(6));
    // The cache time of the log goes before that of the server.
    let log =
        DidLogBuilder::new(&site.location, &LogSigningKey::new(1), |entry| entry["parameters"]["ttl"] = 60.into());
    site.put("/.well-known/did.jsonl", "Cache-Control: no-cache\r\n", log.text());
    let before = site.request_count();
    resolver.resolve(&log.did).await.expect("it resolves");
    resolver.resolve(&log.did).await.expect("it is cached");
    assert_eq!(site.request_count(), before + 1);
}

#[tokio::test]
async fn concurrent_requests_share_a_fetch_and_a_fresh_one_starts_after_its_call() {
    let (site, resolver) = (DidWebServer::start().await, resolver());
    let did = site.did_web();
    site.put(DID_JSON, "Cache-Control: no-store\r\n", json!({"id": did, "version": 1}));
    site.gate.send_replace(false);
    let early = tokio::spawn({
        let (resolver, did) = (resolver.clone(), did.clone());
        async move { join_all((0..20).map(|_| resolver.resolve(&did))).await }
    });
    while site.request_count() == 0 {
        tokio::task::yield_now().await;
    }
    // The document changes while the answer is on its way: a fresh request after the change does not get that answer.
    site.put(DID_JSON, "Cache-Control: no-store\r\n", json!({"id": did, "version": 2}));
    let mut late = Box::pin(join_all((0..20).map(|_| resolver.resolve_fresh(&did))));
    assert!((&mut late).now_or_never().is_none());
    site.gate.send_replace(true);
    let (early, late) = (early.await.expect("no panic"), late.await);
    let all = |documents: Vec<Result<Arc<Value>, DidError>>, version: u64| {
        documents.iter().all(|document| document.as_ref().is_ok_and(|document| document["version"] == version))
    };
    assert!(all(early, 1) && all(late, 2));
    assert_eq!(site.request_count(), 2);
}

#[tokio::test]
async fn a_fetch_continues_without_its_caller_and_the_number_is_limited() {
    let (site, resolver) = (DidWebServer::start().await, resolver());
    let did = |number: usize| format!("{}:{number}", site.did_web());
    site.gate.send_replace(false);
    for number in 0..256 {
        site.put(&format!("/{number}/did.json"), "", json!({"id": did(number)}));
        assert!(resolver.resolve(&did(number)).now_or_never().is_none(), "the caller does not wait");
    }
    let busy = resolver.resolve(&did(256)).now_or_never();
    assert_eq!(busy.map(|refused| refused.expect_err("too many").code()), Some("did_resolver_busy"));
    site.gate.send_replace(true);
    for number in 0..256 {
        resolver.resolve(&did(number)).await.expect("a document");
    }
    assert_eq!(site.request_count(), 256);
}

#[tokio::test]
async fn a_slow_server_ends_at_the_timeout_of_the_fetch() {
    let (site, limits) =
        (DidWebServer::start().await, FetchLimits { timeout: Duration::from_millis(100), ..FetchLimits::default() });
    site.gate.send_replace(false);
    let resolver = DidResolver::with_fetcher(BoundedFetcher::new(HostPolicy::AllowPrivate, limits).expect("a client"));
    let error = resolver.resolve(&site.did_web()).await.expect_err("too slow");
    assert_eq!(error.code(), "did_fetch_failed");
    assert!(error.to_string().contains("within 100ms"), "{error}");
}
