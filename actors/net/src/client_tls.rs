//! The TLS settings of all HTTP clients of a process. The certificates that the machine trusts are over a hundred files: they are read once
//! instead of by each client.

use std::sync::{Arc, LazyLock};

use tokio_rustls::rustls::{
    ClientConfig,
    crypto::{CryptoProvider, aws_lc_rs},
};

/// `None` where the machine has no certificates that can be read; a client says so when it is built.
static SHARED: LazyLock<Option<ClientConfig>> = LazyLock::new(|| {
    let installed = CryptoProvider::get_default().map(Arc::clone);
    let provider = installed.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let verifier = rustls_platform_verifier::Verifier::new(Arc::clone(&provider)).ok()?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
    // The method's name warns of verifiers that verify less than the one of the platform.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
});

/// Begins an HTTP client that trusts the certificates of the machine.
pub fn http_client_builder() -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder();
    match &*SHARED {
        Some(config) => builder.tls_backend_preconfigured(config.clone()),
        None => builder,
    }
}
