//! The resolver against servers.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::watch};
use tracing_subscriber::layer::SubscriberExt;

use super::{
    forge::{Forge, Key, witnessed_by},
    *,
};
use crate::fetch::tests::server;

/// Files by path, each with headers of its own. Requests wait while the gate is shut.
struct Site {
    location: String,
    content: Arc<Mutex<Content>>,
    is_open: watch::Sender<bool>,
}

#[derive(Default)]
struct Content {
    files: HashMap<String, (&'static str, String)>,
    asked: Vec<String>,
}

impl Site {
    async fn start() -> Self {
        let (content, is_open) = (Arc::<Mutex<Content>>::default(), watch::Sender::new(true));
        let (served, gate) = (Arc::clone(&content), is_open.clone());
        let origin = server(move |request, mut stream| {
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let file = {
                let mut content = served.lock().unwrap_or_else(PoisonError::into_inner);
                content.asked.push(path.clone());
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
        Self { location: format!("localhost%3A{port}"), content, is_open }
    }

    fn put(&self, path: &str, headers: &'static str, body: impl ToString) {
        self.content.lock().expect("content").files.insert(path.to_owned(), (headers, body.to_string()));
    }

    fn remove(&self, path: &str) {
        self.content.lock().expect("content").files.remove(path);
    }

    fn asked(&self) -> usize {
        self.content.lock().expect("content").asked.len()
    }

    fn web(&self) -> String {
        format!("did:web:{}", self.location)
    }

    /// Publishes a log at the root.
    fn publish(&self, log: &Forge) {
        self.put("/.well-known/did.jsonl", "", log.text());
    }
}

const DID_JSON: &str = "/.well-known/did.json";

fn resolver() -> DidResolver {
    DidResolver::new(HostPolicy::AllowPrivate).expect("a client")
}

#[tokio::test]
async fn a_document_is_the_dids_own_or_the_answer_says_what_is_wrong() {
    let (site, resolver) = (Site::start().await, resolver());
    let (did, nested) = (site.web(), format!("{}:users:alice", site.web()));
    site.put("/users/alice/did.json", "", json!({"id": nested}));
    assert_eq!(*resolver.resolve(&format!("{nested}?x=y#key-1")).await.expect("nested"), json!({"id": nested}));
    for (body, code, told) in [
        (json!({"id": did}).to_string(), "", ""),
        (json!({"id": nested}).to_string(), "did_document_invalid", "its id is \"did:web:localhost"),
        (json!({"id": 1}).to_string(), "did_document_invalid", "has no id"),
        ("[]".to_owned(), "did_document_invalid", "has no id"),
        ("<html>".to_owned(), "did_document_invalid", "expected value"),
        (String::new(), "did_document_invalid", "EOF"),
        ("[".repeat(100_000), "did_document_invalid", "recursion limit"),
        ("{\"\":".repeat(100_000), "did_fetch_failed", "more than 16777216 bytes of memory"),
        (" ".repeat(1024 * 1024 + 1), "did_fetch_failed", "longer than 1048576 bytes"),
    ] {
        site.put(DID_JSON, "Cache-Control: no-store\r\n", &body);
        match resolver.resolve(&did).await {
            Ok(_) => assert_eq!(code, ""),
            Err(error) => {
                let text = error.to_string();
                assert_eq!(error.code(), code, "{text}");
                assert!(text.contains(told) && text.contains(&did) && text.contains(DID_JSON), "{text}");
            }
        }
    }
    let absent = resolver.resolve(&format!("{did}:nobody")).await.expect_err("absent");
    assert!(matches!(&absent, DidError::Fetch { error: crate::fetch::FetchError::HttpStatus { status: 404, .. }, .. }));
}

#[tokio::test]
async fn what_must_not_be_contacted_is_told_from_what_cannot_be() {
    let resolver = DidResolver::new(HostPolicy::PublicOnly).expect("a client");
    let scid = "QmTYXE8TR3uLUWWrefCtFCLhdFWDBk7Eyq5DQRmiHFVAEL";
    for (did, code, told) in [
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
        assert!(error.to_string().contains(told), "{did}: {error}");
    }
}

#[tokio::test]
async fn a_log_is_fetched_and_verified_and_each_failure_has_its_code() {
    let (site, own, other, witness) = (Site::start().await, Key::new(1), Key::new(2), Key::new(3));
    let resolver = resolver();
    let uncached = |entry: &mut Value| entry["parameters"]["ttl"] = 0.into();
    let mut log = Forge::new(&site.location, &own, uncached);
    log.add(&own, |entry| entry["state"]["alsoKnownAs"] = json!(["https://example.org"]));
    site.publish(&log);
    let document = resolver.resolve(&log.did).await.expect("it resolves");
    assert_eq!((&document["id"], &document["alsoKnownAs"]), (&json!(log.did), &json!(["https://example.org"])));
    assert_eq!(document["service"][0]["serviceEndpoint"], format!("http://{}", site.location.replace("%3A", ":")));

    let mut thief = Forge::new(&site.location, &other, uncached);
    thief.claim(&log.scid, &other);
    let mut broken = Forge::new(&site.location, &own, uncached);
    broken.add(&other, |_| {});
    let mut ended = Forge::new(&site.location, &own, uncached);
    ended.add(&own, |entry| entry["parameters"]["deactivated"] = true.into());
    let witnessed = Forge::new(&site.location, &own, |entry| {
        uncached(entry);
        entry["parameters"]["witness"] = witnessed_by(1, &[&witness]);
    });
    for (published, code, told) in [
        (&thief, "did_scid_mismatch", "its first entry makes the SCID"),
        (&broken, "did_log_invalid", "is not authorized"),
        (&ended, "did_deactivated", "is deactivated"),
        (&witnessed, "did_fetch_failed", "did-witness.json was answered with HTTP status 404"),
    ] {
        site.publish(published);
        let error = resolver.resolve(&published.did).await.expect_err("refused");
        let text = error.to_string();
        assert_eq!(error.code(), code, "{text}");
        assert!(text.contains(told) && text.contains(&published.did) && text.contains("http://localhost"), "{text}");
    }
    site.put("/.well-known/did-witness.json", "", json!([witnessed.approval(0, &[&other])]));
    assert_eq!(resolver.resolve(&witnessed.did).await.expect_err("refused").code(), "did_witness_invalid");
    site.put("/.well-known/did-witness.json", "", json!([witnessed.approval(0, &[&witness])]));
    resolver.resolve(&witnessed.did).await.expect("it is witnessed");
    for (body, code) in [
        ("x\n".repeat(1001), "did_log_too_long"),
        ("{".repeat(50_001), "did_fetch_failed"),
        ("<html>".to_owned(), "did_log_invalid"),
        (String::new(), "did_log_invalid"),
    ] {
        site.put("/.well-known/did.jsonl", "", body);
        assert_eq!(resolver.resolve(&log.did).await.expect_err("refused").code(), code);
    }
}

#[tokio::test]
async fn a_document_is_fetched_again_when_it_must_not_be_kept_or_is_wanted_fresh() {
    let (site, resolver) = (Site::start().await, resolver());
    let did = site.web();
    let document = |version: u64| json!({"id": did, "version": version});
    let version = async |fresh: bool| {
        let document = if fresh { resolver.resolve_fresh(&did).await } else { resolver.resolve(&did).await };
        document.map(|document| document["version"].as_u64().expect("a version"))
    };
    site.put(DID_JSON, "", document(1));
    assert_eq!((version(false).await, version(false).await), (Ok(1), Ok(1)));
    assert_eq!(site.asked(), 1, "kept, although nobody said for how long");
    site.put(DID_JSON, "", document(2));
    assert_eq!((version(false).await, version(true).await, version(false).await), (Ok(1), Ok(2), Ok(2)));
    assert_eq!(site.asked(), 2, "what is fresh is kept too");
    // What must not be kept takes the place of what was.
    for (number, headers) in
        ["Cache-Control: no-cache\r\n", "Cache-Control: max-age=5\r\nAge: 5\r\n"].iter().enumerate()
    {
        let before = site.asked();
        site.put(DID_JSON, headers, document(number as u64 + 3));
        assert_eq!(version(true).await, version(false).await);
        assert_eq!(site.asked(), before + 2, "{headers}");
    }
    // A failure is not kept, nor what was there before it.
    site.put(DID_JSON, "Cache-Control: max-age=60\r\n", document(5));
    assert_eq!(version(false).await, Ok(5));
    site.remove(DID_JSON);
    assert_eq!(version(false).await, Ok(5));
    assert_eq!(version(true).await.expect_err("gone").code(), "did_fetch_failed");
    assert_eq!(version(false).await.expect_err("gone").code(), "did_fetch_failed");
    site.put(DID_JSON, "", document(6));
    assert_eq!(version(false).await, Ok(6));
    // The log's word on how long it is kept stands above the server's.
    let log = Forge::new(&site.location, &Key::new(1), |entry| entry["parameters"]["ttl"] = 60.into());
    site.put("/.well-known/did.jsonl", "Cache-Control: no-cache\r\n", log.text());
    let before = site.asked();
    resolver.resolve(&log.did).await.expect("it resolves");
    resolver.resolve(&log.did).await.expect("it is kept");
    assert_eq!(site.asked(), before + 1);
}

#[tokio::test]
async fn who_asks_at_once_shares_a_fetch_and_fresh_means_after_the_question() {
    let (site, resolver) = (Site::start().await, resolver());
    let did = site.web();
    site.put(DID_JSON, "Cache-Control: no-store\r\n", json!({"id": did, "version": 1}));
    site.is_open.send_replace(false);
    let early = tokio::spawn({
        let (resolver, did) = (resolver.clone(), did.clone());
        async move { join_all((0..20).map(|_| resolver.resolve(&did))).await }
    });
    while site.asked() == 0 {
        tokio::task::yield_now().await;
    }
    // The answer is on its way, and the document changes: who asks for a fresh one now does not get the answer that is on its way.
    site.put(DID_JSON, "Cache-Control: no-store\r\n", json!({"id": did, "version": 2}));
    let mut late = Box::pin(join_all((0..20).map(|_| resolver.resolve_fresh(&did))));
    assert!((&mut late).now_or_never().is_none());
    site.is_open.send_replace(true);
    let (early, late) = (early.await.expect("no panic"), late.await);
    let all = |documents: Vec<Result<Arc<Value>, DidError>>, version: u64| {
        documents.iter().all(|document| document.as_ref().is_ok_and(|document| document["version"] == version))
    };
    assert!(all(early, 1) && all(late, 2));
    assert_eq!(site.asked(), 2);
}

#[tokio::test]
async fn a_fetch_outlives_who_asked_for_it_and_there_are_only_so_many() {
    let (site, resolver) = (Site::start().await, resolver());
    let did = |number: usize| format!("{}:{number}", site.web());
    site.is_open.send_replace(false);
    for number in 0..256 {
        site.put(&format!("/{number}/did.json"), "", json!({"id": did(number)}));
        assert!(resolver.resolve(&did(number)).now_or_never().is_none(), "asked, and gone");
    }
    let busy = resolver.resolve(&did(256)).now_or_never();
    assert_eq!(busy.map(|refused| refused.expect_err("too many").code()), Some("did_resolver_busy"));
    site.is_open.send_replace(true);
    for number in 0..256 {
        resolver.resolve(&did(number)).await.expect("a document");
    }
    assert_eq!(site.asked(), 256);
}

#[tokio::test]
async fn slow_servers_end_with_the_time_of_a_fetch() {
    let (site, limits) = (Site::start().await, Limits { time: Duration::from_millis(100), ..Limits::default() });
    site.is_open.send_replace(false);
    let resolver = DidResolver::with(Fetcher::new(HostPolicy::AllowPrivate, limits).expect("a client"));
    let error = resolver.resolve(&site.web()).await.expect_err("too slow");
    assert_eq!(error.code(), "did_fetch_failed");
    assert!(error.to_string().contains("within 100ms"), "{error}");
}

/// Spans that have ended.
#[derive(Debug, Clone, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}
    fn on_end(&self, span: SpanData) {
        self.0.lock().expect("not poisoned").push(span);
    }
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[tokio::test]
async fn a_resolution_is_a_span_below_its_callers() {
    let ended = Ended::default();
    let provider = SdkTracerProvider::builder().with_span_processor(ended.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    // While there is only one subscriber, tests in other threads, which have none, would switch spans off for all.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let (site, resolver) = (Site::start().await, resolver());
    site.put(DID_JSON, "", json!({"id": site.web()}));
    let caller = tracing::info_span!("caller");
    let asked = async {
        resolver.resolve(&site.web()).await.expect("a document");
        resolver.resolve(&site.web()).await.expect("the kept one");
        resolver.resolve(&format!("{}:x", site.web())).await.expect_err("absent");
    };
    tracing::Instrument::instrument(asked, caller).await;
    let spans = ended.0.lock().expect("not poisoned");
    let caller = spans.iter().find(|span| span.name == "caller").expect("the caller's");
    let told: Vec<Vec<(String, String)>> = spans
        .iter()
        .filter(|span| span.name == "resolve_did" && span.parent_span_id == caller.span_context.span_id())
        .map(|span| {
            let told = span.attributes.iter().map(|one| (one.key.to_string(), one.value.to_string()));
            told.filter(|(key, _)| key.starts_with("svc.") || key == "error.type").collect()
        })
        .collect();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        told,
        [
            vec![pair("svc.did.method", "web"), pair("svc.did.outcome", "ok")],
            vec![
                pair("svc.did.method", "web"),
                pair("svc.did.outcome", "did_fetch_failed"),
                pair("error.type", "did_fetch_failed"),
            ],
        ]
    );
}
