//! `svc check` on a port that another program has, over TLS too.

use std::{net::SocketAddr, path::Path, process::Command, sync::Arc};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig, SupportedProtocolVersion,
        crypto::aws_lc_rs,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
        server::WebPkiClientVerifier,
        version::{TLS12, TLS13},
    },
};

/// The protocol of a listener.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    Plain,
    Tls(&'static SupportedProtocolVersion),
    TlsWithClientCertificates(&'static SupportedProtocolVersion),
}

fn acceptor(protocol: Protocol) -> Option<TlsAcceptor> {
    let (version, demands) = match protocol {
        Protocol::Plain => return None,
        Protocol::Tls(version) => (version, false),
        Protocol::TlsWithClientCertificates(version) => (version, true),
    };
    let made = rcgen::generate_simple_self_signed(["server.example".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(&[version]).expect("a version");
    let builder = if demands {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.expect("a verifier"))
    } else {
        builder.with_no_client_auth()
    };
    Some(TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate], key).expect("a config"))))
}

/// The program that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    ToolServer,
    StartingServer,
    Stranger,
}

/// Answers one request as a tool server does, also as one that starts, or with another text.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, program: Listening) {
    let mut head = vec![0; 4_096];
    let Ok(count) = stream.read(&mut head).await else { return };
    let (status, body) = match (program, head[..count].starts_with(b"GET /healthz")) {
        (Listening::ToolServer, false) => ("401 Unauthorized", r#"{"error":"unauthorized"}"#),
        (Listening::StartingServer, _) => ("503 Service Unavailable", r#"{"status":"starting","waiting_for":"node"}"#),
        (Listening::ToolServer, true) | (Listening::Stranger, _) => ("200 OK", r#"{"status":"ok"}"#),
    };
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn listen(host: [u8; 4], protocol: Protocol, program: Listening) -> SocketAddr {
    let socket = TcpListener::bind(SocketAddr::from((host, 0))).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let acceptor = acceptor(protocol);
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            match &acceptor {
                None => answer(stream, program).await,
                Some(acceptor) => {
                    let Ok(stream) = acceptor.accept(stream).await else { continue };
                    answer(stream, program).await;
                }
            }
        }
    });
    address
}

/// The finding of `svc check` about the port, with these settings of TLS.
async fn check_port(bind: &str, address: SocketAddr, home: &Path, settings: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
    command.args(["check", "--json"]).env_clear().envs([
        ("MCP_SVC_MNEMONIC", crate::e2e::harness::OPERATOR_MNEMONIC),
        ("MCP_BEARER_TOKEN", "token-0123456789abcdef-0123456789abcdef"),
        ("SVC_CORPORATION", "1"),
        // No upstream is needed for the port.
        ("SVC_RPC", "http://127.0.0.1:1"),
        ("SVC_INDEXER", "http://127.0.0.1:1"),
        ("MCP_HTTP_BIND", bind),
        ("MCP_HTTP_PORT", &address.port().to_string()),
    ]);
    for name in settings {
        let file = if *name == "SVC_TLS_KEY" { "key.pem" } else { "cert.pem" };
        command.env(name, home.join(file));
    }
    let output = tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("joins");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    rows.into_iter().find(|row| row["what"] == "MCP_HTTP_PORT").unwrap_or_else(|| panic!("{output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_a_tool_server_a_demand_for_client_certificates_and_strangers() {
    use Protocol::{Plain, Tls, TlsWithClientCertificates};
    const PLAIN: &[&str] = &[];
    const ENCRYPTED: &[&str] = &["SVC_TLS_CERT", "SVC_TLS_KEY"];
    const WITH_CLIENTS: &[&str] = &["SVC_TLS_CERT", "SVC_TLS_KEY", "SVC_TLS_CLIENT_CA"];
    let home = tempfile::tempdir().expect("a directory");
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(home.path().join("cert.pem"), own.cert.pem()).expect("written");
    std::fs::write(home.path().join("key.pem"), own.signing_key.serialize_pem()).expect("written");
    let mut cases = vec![
        (Plain, Listening::ToolServer, PLAIN, "ok", "a tool server runs on"),
        (Plain, Listening::ToolServer, ENCRYPTED, "ok", "a tool server runs on"),
        (Plain, Listening::StartingServer, PLAIN, "ok", "a server of svc starts on"),
        (Plain, Listening::Stranger, PLAIN, "FAIL", "cannot listen on"),
    ];
    for version in [&TLS12, &TLS13] {
        let demands = TlsWithClientCertificates(version);
        cases.extend([
            (Tls(version), Listening::ToolServer, ENCRYPTED, "ok", "a tool server runs on"),
            (Tls(version), Listening::ToolServer, PLAIN, "ok", "a tool server runs on"),
            (Tls(version), Listening::Stranger, ENCRYPTED, "FAIL", "cannot listen on"),
            (
                demands,
                Listening::ToolServer,
                WITH_CLIENTS,
                "WARN",
                "demands a client certificate, as SVC_TLS_CLIENT_CA has",
            ),
            (demands, Listening::ToolServer, ENCRYPTED, "FAIL", "the listener there demands a client certificate"),
            (demands, Listening::Stranger, PLAIN, "FAIL", "the listener there demands a client certificate"),
        ]);
    }
    for (protocol, program, settings, grade, expected) in cases {
        let address = listen([127, 0, 0, 1], protocol, program).await;
        let row = check_port("127.0.0.1", address, home.path(), settings).await;
        assert_eq!(grade_of(&row), grade, "{protocol:?} {settings:?}: {row}");
        let text = row["found"].as_str().expect("a text");
        assert!(text.contains(expected) && text.contains(&address.to_string()), "{protocol:?} {settings:?}: {row}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_one_address_is_found_from_the_port_of_every_address() {
    let home = tempfile::tempdir().expect("a directory");
    for (program, grade, expected) in [
        (Listening::ToolServer, "ok", "a tool server runs on"),
        (Listening::StartingServer, "ok", "a server of svc starts on"),
        (Listening::Stranger, "FAIL", "cannot listen on"),
    ] {
        let address = listen([127, 0, 0, 2], Protocol::Plain, program).await;
        let row = check_port("0.0.0.0", address, home.path(), &[]).await;
        assert_eq!(grade_of(&row), grade, "{program:?}: {row}");
        let text = row["found"].as_str().expect("a text");
        assert!(text.contains(&format!("{expected} {address}")), "{program:?}: {row}");
    }
}

fn grade_of(row: &Value) -> &'static str {
    match (row["ok"] == true, row["warning"] == true) {
        (true, false) => "ok",
        (true, true) => "WARN",
        (false, _) => "FAIL",
    }
}
