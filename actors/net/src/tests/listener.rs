//! The listener against clients that never finish: each is given up, and other clients are served meanwhile.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    listener::{ClientConnection, HttpListener, ListenerSettings, RequestBody, TlsFiles, TlsIdentity},
    websocket::server as websocket_server,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::Notify,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Long enough for a busy machine, since the tests wait for events.
const PATIENCE: Duration = Duration::from_secs(30);

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    /// Lets the answers of `/slow` end.
    release: Arc<Notify>,
    serving: tokio::task::JoinHandle<()>,
}

fn start(settings: ListenerSettings, tls: Option<Arc<TlsIdentity>>) -> Server {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.set_nonblocking(true).expect("set");
    let address = socket.local_addr().expect("bound");
    let listener = HttpListener::tcp("test", socket, settings).expect("a listener").with_tls(tls);
    let (shutdown, release) = (CancellationToken::new(), Arc::new(Notify::new()));
    let released = Arc::clone(&release);
    let service = service_fn(move |request| answer(request, Arc::clone(&released)));
    let serving = tokio::spawn(listener.serve(service, shutdown.clone()));
    Server { address, shutdown, release, serving }
}

async fn answer(mut request: Request<RequestBody>, release: Arc<Notify>) -> Result<Response<Full<Bytes>>, Infallible> {
    let connection = request.extensions().get::<ClientConnection>().expect("each request has it").clone();
    let text = |status: StatusCode, text: String| {
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        Ok(response)
    };
    match request.uri().path() {
        "/proven" => {
            connection.trust();
            text(StatusCode::OK, "proven".to_owned())
        }
        "/slow" => {
            release.notified().await;
            text(StatusCode::OK, "at last".to_owned())
        }
        "/refused" => {
            // A permit stays, so that the client learns that the service has not read its body.
            release.notify_one();
            text(StatusCode::FORBIDDEN, "refused".to_owned())
        }
        "/large" => text(StatusCode::OK, "x".repeat(64 << 20)),
        "/socket" => {
            let response = websocket_server::accept(&mut request, 1024, |socket| async move {
                // Held until the client leaves.
                let socket = Mutex::new(socket);
                std::future::pending::<()>().await;
                drop(socket);
            });
            Ok(response.map(|body| Full::new(Bytes::from(body))))
        }
        _ => match request.into_body().collect().await {
            Ok(body) => text(StatusCode::OK, format!("{} bytes", body.to_bytes().len())),
            Err(error) => text(StatusCode::BAD_REQUEST, error.to_string()),
        },
    }
}

fn settings() -> ListenerSettings {
    ListenerSettings {
        header_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(600),
        ..ListenerSettings::default()
    }
}

fn patient() -> ListenerSettings {
    ListenerSettings { header_timeout: PATIENCE * 4, idle_timeout: PATIENCE * 4, ..ListenerSettings::default() }
}

/// A connection from another loopback address.
async fn connect_from(last: u8, server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(([127, 0, 0, last], 0).into()).expect("a loopback address");
    socket.connect(server.address).await.expect("connects")
}

/// Sends a request, and returns the head and body that come back until the connection rests.
async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), head: &str) -> String {
    // The server may have closed already.
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if length.is_none_or(|length| length.parse::<usize>().expect("a length") == body.len()) {
                    return text;
                }
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return text,
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
            }
        }
    };
    timeout(PATIENCE, read).await.expect("an answer in time")
}

const GET: &str = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

/// Waits until the server has ended the connection, and returns the bytes that came before.
async fn read_to_end(stream: &mut TcpStream) -> usize {
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the server ends the connection");
    rest.len()
}

#[tokio::test]
async fn a_client_that_does_not_go_on_is_given_up() {
    let server = start(settings(), None);
    let mut silent = TcpStream::connect(server.address).await.expect("connects");
    let mut half_head = TcpStream::connect(server.address).await.expect("connects");
    half_head.write_all(b"GET / HTTP/1.1\r\nhost: te").await.expect("sent");
    let mut half_body = TcpStream::connect(server.address).await.expect("connects");
    half_body.write_all(b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 1000\r\n\r\nabc").await.expect("sent");
    let mut resting = TcpStream::connect(server.address).await.expect("connects");
    assert!(request(&mut resting, GET).await.starts_with("HTTP/1.1 200"));
    for stream in [&mut silent, &mut half_head, &mut half_body, &mut resting] {
        assert_eq!(read_to_end(stream).await, 0, "no answer to a request that never came");
    }
    let mut unread = TcpStream::connect(server.address).await.expect("connects");
    unread.write_all(b"GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    // The kernel's buffers are full long before the end of the answer, and nothing of it is read until the server has given up.
    let mut probe = TcpStream::connect(server.address).await.expect("connects");
    for _ in 0..3 {
        read_to_end(&mut probe).await;
        probe = TcpStream::connect(server.address).await.expect("connects");
    }
    assert!(read_to_end(&mut unread).await < 64 << 20);
}

#[tokio::test]
async fn bytes_that_come_earn_a_body_its_time() {
    let server = start(ListenerSettings { header_timeout: Duration::from_millis(700), ..patient() }, None);
    let mut steady = TcpStream::connect(server.address).await.expect("connects");
    let head = format!("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n", 6 * 4096);
    steady.write_all(head.as_bytes()).await.expect("sent");
    // Each part comes before the connection without it would be given up; all of them take longer than the time of a head.
    let mut pause = tokio::time::interval(Duration::from_millis(200));
    for _ in 0..5 {
        pause.tick().await;
        steady.write_all(&[b'x'; 4096]).await.expect("sent");
    }
    let rest = "x".repeat(4096);
    assert!(request(&mut steady, &rest).await.contains("24576 bytes"));
}

#[tokio::test]
async fn a_connection_goes_on_after_a_refusal_that_did_not_read_the_body() {
    let server = start(patient(), None);
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    for _ in 0..3 {
        stream.write_all(b"POST /refused HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n").await.expect("sent");
        // Clients send head and body apart, and the service has refused before the body comes.
        server.release.notified().await;
        let answer = request(&mut stream, "12345").await;
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("connection: close"), "{answer}");
    }
    assert!(request(&mut stream, GET).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_answer_that_took_longer_than_a_body_may_is_sent() {
    let server = start(settings(), None);
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let head = "GET /slow HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    for _ in 0..2 {
        // Each silent connection is given up after the time of a body.
        let mut probe = TcpStream::connect(server.address).await.expect("connects");
        read_to_end(&mut probe).await;
    }
    server.release.notify_one();
    let answer = request(&mut stream, "").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("at last"), "{answer}");
}

#[tokio::test]
async fn an_answer_says_that_a_connection_with_a_long_rest_ends_and_reaches_a_client_that_still_sends() {
    let server = start(patient(), None);
    let post = "POST /refused HTTP/1.1\r\nhost: test\r\n";
    let long = format!("{post}content-length: {}\r\n\r\n", 32 << 20);
    let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n1ffffff\r\n");
    for head in [long, chunked] {
        let mut stream = TcpStream::connect(server.address).await.expect("connects");
        stream.write_all(head.as_bytes()).await.expect("sent");
        server.release.notified().await;
        for _ in 0..256 {
            stream.write_all(&[b'x'; 64 * 1024]).await.expect("the server reads what comes");
        }
        let answer = request(&mut stream, "").await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("connection: close"), "{answer}");
        drop(stream);
    }
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let asks = format!("{post}content-length: 5\r\nexpect: 100-continue\r\n\r\n");
    let answer = request(&mut stream, &asks).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_head_has_a_largest_size() {
    let server = start(patient(), None);
    // 431 is lost where the client still sends when the server closes.
    let is_refused = |answer: String| answer.is_empty() || answer.starts_with("HTTP/1.1 431");
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let endless = format!("GET / HTTP/1.1\r\nhost: test\r\nx: {}", "x".repeat(100_000));
    assert!(is_refused(request(&mut stream, &endless).await));
    let mut stream = TcpStream::connect(server.address).await.expect("connects");
    let fields: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\nhost: test\r\n{fields}\r\n");
    assert!(is_refused(request(&mut stream, &head).await));
}

#[tokio::test]
async fn connections_that_wait_make_room_and_proven_ones_stay() {
    let server = start(ListenerSettings { max_connections: 6, max_per_address: 3, ..patient() }, None);
    let mut proven = connect_from(1, &server).await;
    let head = "GET /proven HTTP/1.1\r\nhost: test\r\n\r\n";
    assert!(request(&mut proven, head).await.ends_with("proven"));
    let mut busy = connect_from(1, &server).await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    let mut crowd = Vec::new();
    for number in 0..60 {
        crowd.push(connect_from(2 + number % 4, &server).await);
    }
    let mut client = connect_from(1, &server).await;
    assert!(request(&mut client, GET).await.starts_with("HTTP/1.1 200"), "a new client gets in");
    assert!(request(&mut proven, head).await.ends_with("proven"), "the proven one is still connected");
    server.release.notify_waiters();
    assert!(request(&mut busy, "").await.ends_with("at last"), "and so is the one that is being answered");
    for stream in crowd.iter_mut().take(50) {
        assert_eq!(read_to_end(stream).await, 0);
    }
}

#[tokio::test]
async fn a_websocket_leaves_the_limits() {
    let server = start(ListenerSettings { max_connections: 2, ..settings() }, None);
    let head = "GET /socket HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut sockets = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(server.address).await.expect("connects");
        assert!(request(&mut stream, head).await.starts_with("HTTP/1.1 101"));
        sockets.push(stream);
    }
    // A connection that rests longer than all time limits ends, and the sockets do not.
    let mut resting = TcpStream::connect(server.address).await.expect("connects");
    assert!(request(&mut resting, GET).await.starts_with("HTTP/1.1 200"));
    read_to_end(&mut resting).await;
    for socket in &mut sockets {
        let mut byte = [0; 1];
        assert!(timeout(Duration::from_millis(1), socket.read(&mut byte)).await.is_err(), "still open");
    }
}

#[tokio::test]
async fn a_listener_that_stops_answers_the_open_requests() {
    let server = start(patient(), None);
    let mut busy = TcpStream::connect(server.address).await.expect("connects");
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    let mut resting = TcpStream::connect(server.address).await.expect("connects");
    assert!(request(&mut resting, GET).await.starts_with("HTTP/1.1 200"));
    server.shutdown.cancel();
    assert_eq!(read_to_end(&mut resting).await, 0, "an idle connection ends at once");
    assert!(TcpStream::connect(server.address).await.is_err(), "nothing listens");
    // The request is with the service, which has registered its wait before the idle connection ended.
    server.release.notify_waiters();
    assert!(request(&mut busy, "").await.ends_with("at last"));
    timeout(PATIENCE, server.serving).await.expect("ends").expect("joined");
}

#[tokio::test]
async fn a_listener_that_is_given_up_ends_its_connections() {
    let server = start(patient(), None);
    let mut busy = TcpStream::connect(server.address).await.expect("connects");
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("sent");
    // A later connection that is answered shows that the first one was accepted.
    let mut other = TcpStream::connect(server.address).await.expect("connects");
    assert!(request(&mut other, GET).await.starts_with("HTTP/1.1 200"));
    server.serving.abort();
    assert_eq!((read_to_end(&mut busy).await, read_to_end(&mut other).await), (0, 0));
}

/// A certificate that has signed itself, in a directory of its own.
struct Identity {
    certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
    directory: tempfile::TempDir,
}

impl Identity {
    fn new() -> Self {
        let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let identity = Self { certificate, directory: tempfile::tempdir().expect("a directory") };
        identity.write(&identity.certificate.cert.pem(), &identity.certificate.signing_key.serialize_pem());
        identity
    }

    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.directory.path().join("cert.pem"), certificate).expect("written");
        std::fs::write(self.directory.path().join("key.pem"), key).expect("written");
    }

    fn files(&self) -> TlsFiles {
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| self.directory.path().join(name));
        TlsFiles { certificate, key, client_authorities: None }
    }

    /// Whether a client that trusts this certificate alone gets an answer.
    async fn is_served_by(&self, server: &Server) -> bool {
        let root = reqwest::Certificate::from_pem(self.certificate.cert.pem().as_bytes()).expect("a certificate");
        let client = reqwest::Client::builder().tls_certs_only([root]).build().expect("a client");
        let url = format!("https://localhost:{}/", server.address.port());
        client.get(url).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

#[tokio::test]
async fn certificates_are_read_again_and_a_broken_file_changes_nothing() {
    let (first, second) = (Identity::new(), Identity::new());
    let identity = TlsIdentity::load(first.files()).expect("usable");
    let server = start(settings(), Some(Arc::clone(&identity)));
    assert!(first.is_served_by(&server).await && !second.is_served_by(&server).await);
    first.write("no certificate", "no key");
    assert!(identity.reload().is_err());
    assert!(first.is_served_by(&server).await, "the former identity is in use");
    first.write(&second.certificate.cert.pem(), &first.certificate.signing_key.serialize_pem());
    assert!(identity.reload().is_err(), "certificate and key do not belong together");
    first.write(&second.certificate.cert.pem(), &second.certificate.signing_key.serialize_pem());
    identity.reload().expect("usable");
    assert!(second.is_served_by(&server).await && !first.is_served_by(&server).await);
    let mut silent = TcpStream::connect(server.address).await.expect("connects");
    assert_eq!(read_to_end(&mut silent).await, 0, "a handshake that never comes");
    let mut plain = TcpStream::connect(server.address).await.expect("connects");
    assert!(!request(&mut plain, GET).await.contains("200"));
}

#[tokio::test]
async fn a_client_without_a_certificate_of_the_authority_is_refused() {
    let (server_side, client_side) = (Identity::new(), Identity::new());
    let authorities = client_side.directory.path().join("cert.pem");
    let files = TlsFiles { client_authorities: Some(authorities), ..server_side.files() };
    let server = start(settings(), Some(TlsIdentity::load(files).expect("usable")));
    assert!(!server_side.is_served_by(&server).await);
    let root = reqwest::Certificate::from_pem(server_side.certificate.cert.pem().as_bytes()).expect("a certificate");
    let pem = format!("{}{}", client_side.certificate.cert.pem(), client_side.certificate.signing_key.serialize_pem());
    let own = reqwest::Identity::from_pem(pem.as_bytes()).expect("an identity");
    let client = reqwest::Client::builder().tls_certs_only([root]).identity(own).build().expect("a client");
    let answer = client.get(format!("https://localhost:{}/", server.address.port())).send().await;
    assert!(answer.expect("an answer").status().is_success());
}
