//! Questions to listeners of this machine, over real sockets.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
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

use crate::unverified_client::{QuestionError, UnverifiedClient};

/// The way in which a listener treats clients without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientCertificates {
    Unasked,
    Optional,
    Demanded,
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

/// A listener that speaks one version of TLS, and then says one thing.
async fn listen(
    version: &'static SupportedProtocolVersion,
    certificates: ClientCertificates,
    answer: &'static [u8],
) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["elsewhere.example".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(&[version]).expect("a version");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("an authority");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match certificates {
        ClientCertificates::Unasked => builder.with_no_client_auth(),
        ClientCertificates::Optional => {
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().expect("a verifier"))
        }
        ClientCertificates::Demanded => builder.with_client_cert_verifier(verifier.build().expect("a verifier")),
    };
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate], key).expect("a config")));
    let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = [0; 4_096];
            if stream.read(&mut head).await.is_ok_and(|count| count > 0) {
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    address
}

async fn ask(url: &str) -> Result<u16, QuestionError> {
    let client = UnverifiedClient::new().expect("a client");
    let answer = client.ask(client.request(reqwest::Method::GET, url)).await?;
    Ok(answer.status().as_u16())
}

#[tokio::test]
async fn a_listener_that_demands_a_client_certificate_is_told_from_others() {
    use ClientCertificates::{Demanded, Optional, Unasked};
    for version in [&TLS12, &TLS13] {
        for certificates in [Unasked, Optional, Demanded] {
            let url = format!("https://{}/healthz", listen(version, certificates, ANSWER).await);
            // A second connection meets the same end as the first.
            for _ in 0..2 {
                let answer = ask(&url).await;
                let is_right = match &answer {
                    Ok(status) => *status == 200 && certificates != Demanded,
                    Err(QuestionError::CertificateDemanded) => certificates == Demanded,
                    Err(QuestionError::Failed(_)) => false,
                };
                assert!(is_right, "{:?} {certificates:?}: {answer:?}", version.version);
            }
        }
        // One that asks for a certificate, and then speaks no HTTP.
        let url = format!("https://{}/healthz", listen(version, Optional, b"220 mail ready\r\n").await);
        let answer = ask(&url).await;
        assert!(matches!(answer, Err(QuestionError::Failed(_))), "{:?}: {answer:?}", version.version);
    }
}

#[tokio::test]
async fn a_failure_without_a_demand_stays_a_failure() {
    let tls = listen(&TLS13, ClientCertificates::Demanded, ANSWER).await;
    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let plain_address = plain.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = plain.accept().await {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    for url in [format!("http://{tls}/"), format!("https://{plain_address}/"), format!("https://{free}/")] {
        let answer = ask(&url).await;
        assert!(matches!(answer, Err(QuestionError::Failed(_))), "{url}: {answer:?}");
    }
}
