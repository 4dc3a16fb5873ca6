use std::{path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};

/// The files of a TLS identity, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Authorities of client certificates. With it a client without a certificate of one of them is refused.
    pub client_authorities: Option<PathBuf>,
}

/// A file of a TLS identity cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// The reason. It has no content of the file.
    pub reason: String,
}

/// A TLS identity, which can be read again while it is in use.
pub struct TlsIdentity {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsIdentity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TlsIdentity {
    /// Reads the files. Fails when one is missing or malformed, and when key and certificate do not belong together.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let config = ArcSwap::new(read_config(&files)?);
        Ok(Arc::new(Self { files, config }))
    }

    /// Reads the files again, for the connections from now on. When that fails, the former identity stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.config.store(read_config(&self.files)?);
        Ok(())
    }

    /// Whether a client without a certificate is refused.
    pub fn demands_client_certificates(&self) -> bool {
        self.files.client_authorities.is_some()
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn read_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let failed = |path: &PathBuf, reason: String| TlsError { path: path.clone(), reason };
    let certificates = read_certificates(&files.certificate)?;
    let text = std::fs::read(&files.key).map_err(|error| failed(&files.key, error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| failed(&files.key, "no private key in PEM (PKCS #8, PKCS #1 or SEC 1)".to_owned()))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&files.certificate, error.to_string()))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in read_certificates(path)? {
                roots.add(authority).map_err(|error| failed(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| failed(path, error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| failed(&files.certificate, format!("not usable with {}: {error}", files.key.display())))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |reason: String| TlsError { path: path.clone(), reason };
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(failed("no certificate in PEM".to_owned())),
    }
}
