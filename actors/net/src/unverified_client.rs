//! A client for questions to a listener of this machine that carry nothing secret. It verifies no certificate, since a certificate is for
//! the name by which clients know the listener, and it tells a listener that demands a certificate of the client from one that fails.

use std::{
    error::Error,
    io::{self, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::{
        ResolvesClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::CertifiedKey,
};

/// A question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// The listener asked for a certificate of the client, and ended the connection without one.
    #[error("the listener demands a client certificate")]
    CertificateDemanded,
    /// The request failed otherwise.
    #[error(transparent)]
    Failed(#[from] reqwest::Error),
}

/// The client.
#[derive(Debug, Clone)]
pub struct UnverifiedClient {
    http: reqwest::Client,
    request: Arc<CertificateRequest>,
}

/// Whether a server has asked for a certificate. There is none to give.
#[derive(Debug, Default)]
struct CertificateRequest(AtomicBool);

impl ResolvesClientCert for CertificateRequest {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Takes every certificate; the signatures of a handshake are those of its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl UnverifiedClient {
    /// Builds a client, which uses no proxy and follows no redirect. Fails when TLS cannot be set up; the error says why.
    pub fn new() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let request = Arc::new(CertificateRequest::default());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
        let mut config = builder.with_client_cert_resolver(Arc::<CertificateRequest>::clone(&request));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Ok(Self { http: builder.tls_backend_preconfigured(config).build()?, request })
    }

    /// Begins a question.
    pub fn request(&self, method: reqwest::Method, url: &str) -> reqwest::RequestBuilder {
        self.http.request(method, url)
    }

    /// Asks. In TLS 1.2 a listener that demands a certificate ends the handshake, in TLS 1.3 the connection after it. Fails when there is no
    /// answer.
    pub async fn ask(&self, question: reqwest::RequestBuilder) -> Result<reqwest::Response, QuestionError> {
        self.request.0.store(false, Ordering::Relaxed);
        question.send().await.map_err(|error| {
            let was_asked = self.request.0.load(Ordering::Relaxed);
            if was_asked && was_ended_by_peer(&error) { QuestionError::CertificateDemanded } else { error.into() }
        })
    }
}

/// Whether the peer has ended the connection: with an alert of TLS, or at once, where the alert is lost with the connection.
fn was_ended_by_peer(error: &(dyn Error + 'static)) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let mut next = Some(error);
    while let Some(one) = next {
        let io = one.downcast_ref::<io::Error>();
        let is_end = |error: &io::Error| {
            matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
        };
        if io.is_some_and(is_end) || matches!(one.downcast_ref(), Some(rustls::Error::AlertReceived(_))) {
            return true;
        }
        // The source of an I/O error is the source of the error in it.
        next = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => one.source(),
        };
    }
    false
}
