//! Tests of the fetcher against faulty servers over real sockets, and of its decisions alone.

use std::future::Future;

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::*;

/// Starts a server that calls `behave` with each request and its connection.
pub(crate) async fn start_server<F: Future<Output = ()> + Send + 'static>(
    behave: impl Fn(String, TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            tokio::spawn(behave(String::from_utf8_lossy(&request).into_owned(), stream));
        }
    });
    origin
}

/// Starts a server that sends the same answer to every request, and closes.
async fn start_fixed_server(answer: impl Into<String>) -> String {
    let answer: Arc<str> = answer.into().into();
    start_server(move |_, mut stream| {
        let answer = Arc::clone(&answer);
        async move {
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await
}

fn fetcher(limits: FetchLimits) -> BoundedFetcher {
    BoundedFetcher::new(HostPolicy::AllowPrivate, limits).expect("a client")
}

/// A fetcher for public hosts and for one test server of this machine.
fn public_fetcher_with(origin: &str) -> BoundedFetcher {
    let exempt = Some(Url::parse(origin).expect("a URL").origin());
    let (policy, limits) = (HostPolicy::PublicOnly, FetchLimits::default());
    BoundedFetcher(Arc::new(BoundedFetcherInner {
        policy,
        limits,
        client: policy.client().expect("a client"),
        known_bodies: KnownBodies::new(),
        test_origin: exempt,
    }))
}

async fn expect_fetch_error(fetcher: &BoundedFetcher, url: &str) -> FetchError {
    fetcher.get(url).await.expect_err("refused")
}

#[tokio::test]
async fn a_body_with_an_entity_tag_is_asked_for_on_condition() {
    let (versions, mut seen) = mpsc::unbounded_channel();
    let newest = Arc::new(std::sync::atomic::AtomicU32::new(1));
    let served = Arc::clone(&newest);
    let origin = start_server(move |request, mut stream| {
        let newest = served.load(std::sync::atomic::Ordering::Relaxed);
        let versions = versions.clone();
        async move {
            let tag = format!("\"{newest}\"");
            let condition = request.lines().find_map(|line| line.strip_prefix("if-none-match: ").map(str::to_owned));
            versions.send(condition.clone()).expect("counted");
            let answer = if condition.as_ref() == Some(&tag) {
                format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n")
            } else {
                format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: 1\r\n\r\n{newest}")
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    })
    .await;
    let fetcher = fetcher(FetchLimits::default());
    let body = async || fetcher.get(&origin).await.expect("fetched").body;
    assert_eq!((body().await.as_ref(), body().await.as_ref()), (&b"1"[..], &b"1"[..]));
    newest.store(2, std::sync::atomic::Ordering::Relaxed);
    assert_eq!((body().await.as_ref(), body().await.as_ref()), (&b"2"[..], &b"2"[..]));
    let asked: Vec<Option<String>> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
    let tag = |version: &str| Some(format!("\"{version}\""));
    assert_eq!(asked, [None, tag("1"), tag("1"), tag("2")]);
    // A server that says 304 to a request without a condition has no body to give.
    let origin = start_fixed_server("HTTP/1.1 304 Not Modified\r\n\r\n").await;
    assert!(matches!(fetcher.get(&origin).await, Err(FetchError::HttpStatus { status: 304, .. })));
}

#[tokio::test]
async fn a_document_is_fetched_with_its_final_url_and_its_freshness() {
    let origin = start_server(|request, mut stream| async move {
        let answer = match request.split(' ').nth(1) {
            Some("/start") => {
                "HTTP/1.1 302 Found\r\nLocation: next/document#part\r\nContent-Length: 0\r\n\r\n".to_owned()
            }
            Some("/next/document") if request.to_lowercase().contains("accept-encoding: identity\r\n") => {
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nAge: 10\r\nContent-Length: 2\r\n\r\n{}".to_owned()
            }
            other => panic!("{other:?} of {request}"),
        };
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let fetched = fetcher(FetchLimits::default()).get(&format!("{origin}/start")).await.expect("a document");
    assert_eq!((fetched.url.as_str(), &fetched.body[..]), (&*format!("{origin}/next/document"), &b"{}"[..]));
    assert_eq!(fetched.freshness, Freshness::Lifetime(Duration::from_secs(50)));
}

#[tokio::test]
async fn each_faulty_answer_has_its_own_error() {
    let limits = FetchLimits { max_bytes: 100, max_redirects: 2, ..FetchLimits::default() };
    let body = "x".repeat(100);
    for (answer, code, expected_text) in [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(), "http_status", "status 404"),
        ("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(), "http_status", "status 500"),
        ("HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), "http_status", "status 304"),
        ("HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\nxx".to_owned(), "http_status", "status 206"),
        ("HTTP/1.1 203 Changed\r\nContent-Length: 2\r\n\r\nxx".to_owned(), "http_status", "status 203"),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "http_status", "status 204"),
        ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n".to_owned(), "http_status", "status 302"),
        (
            "HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "too_many_redirects",
            "2 times",
        ),
        (format!("HTTP/1.1 302 Found\r\nLocation: /{}\r\n\r\n", "x".repeat(2048)), "redirect_refused", "2048 bytes"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n".to_owned(), "too_long", "longer than 100 bytes"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n".to_owned(), "too_long", "100 bytes"),
        (format!("HTTP/1.1 200 OK\r\n\r\n{body}x"), "too_long", "longer than 100 bytes"),
        (
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{body}\r\n1\r\nx\r\n0\r\n\r\n"),
            "too_long",
            "longer than 100 bytes",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx".to_owned(),
            "encoded",
            "only identity is accepted",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx".to_owned(), "unreachable", "the end of the body"),
        ("SSH-2.0-x\r\n".to_owned(), "unreachable", "an answer did not arrive"),
        (String::new(), "unreachable", "an answer did not arrive"),
    ] {
        let origin = start_fixed_server(answer.clone()).await;
        let error = expect_fetch_error(&fetcher(limits), &format!("{origin}/x")).await;
        assert_eq!(error.code(), code, "{answer:?}: {error}");
        let text = error.to_string();
        assert!(text.contains(expected_text) && text.contains(&origin), "{answer:?}: {text}");
    }
    let origin = start_fixed_server(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await;
    assert_eq!(fetcher(limits).get(&origin).await.expect("just fits").body.len(), 100);
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let error = expect_fetch_error(&fetcher(FetchLimits::default()), &origin).await;
    assert_eq!(error.code(), "unreachable", "{error}");
    assert!(error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn failures_that_may_pass_say_so() {
    for (answer, expected) in [
        ("HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\n", true),
        ("HTTP/1.1 500 Broken\r\n\r\n", true),
        ("HTTP/1.1 429 Slow down\r\n\r\n", true),
        ("HTTP/1.1 425 Too early\r\n\r\n", true),
        ("HTTP/1.1 408 Late\r\n\r\n", true),
        ("", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxx", true),
        ("HTTP/1.1 404 Absent\r\n\r\n", false),
        ("HTTP/1.1 410 Gone\r\n\r\n", false),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", false),
        ("SSH-2.0-x\r\n", false),
    ] {
        let origin = start_fixed_server(answer).await;
        let error = expect_fetch_error(&fetcher(FetchLimits::default()), &origin).await;
        assert_eq!(error.is_transient(), expected, "{answer:?}: {error:?}");
        if let FetchError::HttpStatus { status: 503, retry_after, .. } = error {
            assert_eq!(retry_after, Some(Duration::from_secs(7)));
        }
    }
    let limits = FetchLimits { timeout: Duration::from_millis(50), ..FetchLimits::default() };
    let origin = start_server(|_, stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    assert!(expect_fetch_error(&fetcher(limits), &origin).await.is_transient());
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_the_limit() {
    let (done, mut is_done) = mpsc::channel(1);
    let origin = start_server(move |_, mut stream| {
        let done = done.clone();
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b' '; 64 * 1024]).await.is_ok() {}
            let _ = done.send(()).await;
        }
    })
    .await;
    let error = expect_fetch_error(&fetcher(FetchLimits::default()), &origin).await;
    assert_eq!(error, FetchError::BodyTooLong { url: format!("{origin}/"), limit: 1024 * 1024 });
    is_done.recv().await.expect("the client has closed the connection");
}

#[test]
fn a_body_buffer_never_exceeds_its_limit() {
    for announced in [None, Some(0), Some(1000), Some(u64::MAX)] {
        for chunk in [1, 7, 999, 1000, 1001] {
            let mut body = BodyBuffer::new(announced, 1000);
            let reserved = body.bytes.capacity();
            assert!(reserved <= 1000);
            let chunk = vec![b'x'; chunk];
            while announced != Some(0) && body.try_append(&chunk) {
                assert_eq!(body.bytes.capacity(), reserved, "it never grows");
            }
            assert!(body.bytes.len() <= 1000 && body.bytes.capacity() <= 1000);
        }
    }
}

#[tokio::test]
async fn one_timeout_covers_redirects_head_and_body() {
    let limits =
        FetchLimits { timeout: Duration::from_millis(300), max_redirects: usize::MAX, ..FetchLimits::default() };
    let silent = start_server(|_, stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let dripping = start_server(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            if stream.write_all(b" ").await.is_err() {
                return;
            }
        }
    })
    .await;
    let turning = start_fixed_server("HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n").await;
    for (origin, stage) in
        [(silent, FetchStage::ResponseHead), (dripping, FetchStage::Body), (turning, FetchStage::ResponseHead)]
    {
        match expect_fetch_error(&fetcher(limits), &origin).await {
            FetchError::TimedOut { stage: found, limit, .. } => assert_eq!((found, limit), (stage, limits.timeout)),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_redirect_to_a_private_host_or_without_https_is_refused() {
    let secret = start_fixed_server("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await;
    for target in [
        &*secret,
        "http://localhost/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://printer.local/",
        "https://intranet/",
        "http://example.org/",
        "//10.0.0.1/x",
        "https://user:word@example.org/",
        "file:///etc/passwd",
        "ftp://example.org/",
        "https://",
        "http://[",
    ] {
        let origin =
            start_fixed_server(format!("HTTP/1.1 301 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n")).await;
        let error = expect_fetch_error(&public_fetcher_with(&origin), &origin).await;
        assert_eq!(error.code(), "redirect_refused", "{target}: {error}");
        assert!(error.to_string().contains(&origin), "{error}");
    }
    // The exempt origin itself is allowed.
    let origin = start_fixed_server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
    assert_eq!(public_fetcher_with(&origin).get(&origin).await.expect("a document").body, "{}");
}

#[tokio::test]
async fn a_name_of_this_machine_is_refused_during_the_connection() {
    let origin = start_fixed_server("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await;
    let named = origin.replace("127.0.0.1", "localhost");
    let error = expect_fetch_error(&public_fetcher_with(&named), &named).await;
    assert_eq!(error.code(), "host_refused", "{error}");
    assert!(error.to_string().contains("localhost is not a public address"), "{error}");
}

#[tokio::test]
async fn a_refused_url_is_not_contacted() {
    let fetcher = BoundedFetcher::new(HostPolicy::PublicOnly, FetchLimits::default()).expect("a client");
    for (url, code) in [
        ("https://127.0.0.1/did.json", "host_refused"),
        ("https://localhost/did.json", "host_refused"),
        ("https://intranet/did.json", "host_refused"),
        ("http://localhost/did.json", "host_refused"),
        ("http://127.0.0.1:3000/did.json", "host_refused"),
        ("http://user@localhost/did.json", "not_a_url"),
        ("http://example.org/did.json", "not_a_url"),
        ("https://user@example.org/did.json", "not_a_url"),
        ("did:web:example.org", "not_a_url"),
        ("", "not_a_url"),
    ] {
        let error = expect_fetch_error(&fetcher, url).await;
        assert_eq!(error.code(), code, "{url}: {error}");
        assert!(error.to_string().contains(url), "{error}");
        let names_setting = error.to_string().contains("SVC_ALLOW_PRIVATE_HOSTS=true allows it");
        assert_eq!(names_setting, code == "host_refused", "{error}");
    }
}

#[test]
fn a_redirect_depends_on_status_and_location() {
    let from = Url::parse("https://a.example.org/x/y?z").expect("a URL");
    let found = |status: u16, location: Option<&str>| {
        let mut headers = HeaderMap::new();
        if let Some(location) = location {
            headers.insert(header::LOCATION, HeaderValue::from_bytes(location.as_bytes()).expect("a value"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        let check = |target: &str| HostPolicy::PublicOnly.check_url(target);
        redirect_target(&from, status, &headers, check)
            .map(|target| target.map(String::from))
            .map_err(|error| error.code())
    };
    let to = |url: &str| Ok(Some(url.to_owned()));
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(found(status, Some("z")), to("https://a.example.org/x/z"));
        assert_eq!(found(status, Some("/z#part")), to("https://a.example.org/z"));
        assert_eq!(found(status, Some("https://b.example.org:8443")), to("https://b.example.org:8443/"));
        assert_eq!(found(status, Some("//b.example.org/z")), to("https://b.example.org/z"));
        assert_eq!(found(status, Some("http://a.example.org/z")), Err("redirect_refused"));
        assert_eq!(found(status, Some("https://192.168.0.1/z")), Err("redirect_refused"));
        assert_eq!(found(status, Some("https://b.example.org./z")), Err("redirect_refused"));
        assert_eq!(found(status, None), Ok(None));
    }
    for status in [200, 204, 300, 304, 305, 404, 500] {
        assert_eq!(found(status, Some("https://192.168.0.1/z")), Ok(None), "{status}");
    }
}
