//! The documents that claims name by a URL and a digest, such as a logo: they are read before a credential says so of them.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use serde_json::{Map, Value};
use svc_kit::RetainedState;
use svc_net::fetch::{BoundedFetcher, FetchError, FetchLimits};
use svc_trust::digest::{DigestAlgorithm, matches_sri, sri_digest};
use tokio::time::Instant;

use crate::credential_settings::{ClaimProblem, FoundClaims};

/// Largest document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 4 * 1024 * 1024;
/// Time for which a document that fits is not read again, and the most that are remembered.
const FITS_FOR: Duration = Duration::from_secs(300);
const MAX_FITTING: usize = 256;
const DIGEST_END: &str = "DigestSri";

/// The limits of a document: it is no JSON, and a redirect would let another party choose its bytes.
fn limits() -> FetchLimits {
    FetchLimits {
        max_bytes: MAX_DOCUMENT_BYTES,
        max_json_memory: usize::MAX,
        max_redirects: 0,
        ..FetchLimits::default()
    }
}

/// The digest of a document, as a claim has it, and its length in bytes.
///
/// # Errors
/// The document cannot be read, is longer than 4 MiB, or is elsewhere.
pub async fn document_digest(fetcher: &BoundedFetcher, url: &str) -> Result<(String, usize), FetchError> {
    let document = fetcher.get_within(url, &limits()).await?;
    Ok((sri_digest(&document.body, DigestAlgorithm::Sha384), document.body.len()))
}

/// A document that claims name.
struct NamedDocument<'a> {
    /// The property with the URL, and that with the digest.
    properties: (String, &'a str),
    url: &'a str,
    digest: &'a str,
}

/// The documents that claims name.
fn named_documents(claims: &Map<String, Value>) -> Vec<NamedDocument<'_>> {
    let named = claims.iter().filter_map(|(property, digest)| {
        let url = format!("{}Uri", property.strip_suffix(DIGEST_END)?);
        let text = claims.get(&url)?.as_str()?;
        Some(NamedDocument { properties: (url, property), url: text, digest: digest.as_str()? })
    });
    named.collect()
}

/// A document differs from its claims, or was not read.
enum DocumentFault {
    Problem(ClaimProblem),
    /// Its server did not answer; it may later.
    Unanswered(String),
}

/// Why the documents that claims name do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentsError {
    /// They differ from their claims, each with its problem.
    Differ(Vec<ClaimProblem>),
    /// A server does not answer; it may later.
    Unanswered(String),
}

/// Compares documents with the digests that claims have of them. Clones share their memory.
#[derive(Clone)]
pub struct ClaimDocuments {
    fetcher: BoundedFetcher,
    limits: FetchLimits,
    /// URLs and digests that matched, with the time of the comparison: passes are frequent, and must not load other parties' servers.
    fitting: RetainedState<BTreeMap<(String, String), Instant>>,
}

impl ClaimDocuments {
    pub fn new(fetcher: BoundedFetcher) -> Self {
        Self { fetcher, limits: limits(), fitting: RetainedState::default() }
    }

    /// Compares the documents with their digests. Fails with the problems of all of them, or where a server does not answer.
    pub async fn check(&self, found: &FoundClaims) -> Result<(), DocumentsError> {
        let mut documents = named_documents(&found.claims);
        let key = |document: &NamedDocument<'_>| (document.url.to_owned(), document.digest.to_owned());
        self.fitting.with(|fitting| {
            fitting.retain(|_, at| at.elapsed() < FITS_FOR);
            documents.retain(|document| !fitting.contains_key(&key(document)));
        });
        let faults = join_all(documents.iter().map(|document| self.check_document(found, document))).await;
        self.fitting.with(|fitting| {
            let fits = documents.iter().zip(&faults).filter(|(_, fault)| fault.is_none());
            fitting.extend(
                fits.take(MAX_FITTING.saturating_sub(fitting.len())).map(|(one, _)| (key(one), Instant::now())),
            );
        });
        judge(faults)
    }

    async fn check_document(&self, found: &FoundClaims, document: &NamedDocument<'_>) -> Option<DocumentFault> {
        let (of_url, of_digest) = (&document.properties.0, document.properties.1);
        let setting = |property: &str| found.settings.get(property).cloned().unwrap_or_default();
        let problem = |property: &str, found: String, allowed: &str| {
            Some(DocumentFault::Problem(ClaimProblem::new(setting(property), found, allowed)))
        };
        let fetched = match self.fetcher.get_within(document.url, &self.limits).await {
            Ok(fetched) => fetched,
            Err(error @ FetchError::TooManyRedirects { .. }) => {
                let found = error.to_string().replace(" more than 0 times", "");
                return problem(of_url, found, "the URL of the document itself, without a redirect");
            }
            // The server says that there is no such document; other refusals may pass.
            Err(error @ FetchError::HttpStatus { status: 400..=407 | 409..=424 | 426..=428 | 430..=499, .. }) => {
                return problem(of_url, error.to_string(), "the URL of a document");
            }
            Err(
                error @ (FetchError::HttpStatus { .. } | FetchError::TimedOut { .. } | FetchError::Unreachable { .. }),
            ) => {
                return Some(DocumentFault::Unanswered(format!("{}: {error}; it is tried again", setting(of_url))));
            }
            Err(error) => {
                let allowed = "an https URL of a document of at most 4 MiB";
                return problem(of_url, error.to_string(), allowed);
            }
        };
        if matches_sri(&fetched.body, document.digest) {
            return None;
        }
        let (digest, bytes) = (sri_digest(&fetched.body, DigestAlgorithm::Sha384), fetched.body.len());
        let found = format!("{:?}, and the {bytes} bytes at {} have {digest}", document.digest, document.url);
        problem(of_digest, found, "the digest of the document, which `svc agent digest URL` computes")
    }
}

fn judge(faults: Vec<Option<DocumentFault>>) -> Result<(), DocumentsError> {
    let (mut problems, mut unanswered) = (Vec::new(), None);
    for fault in faults.into_iter().flatten() {
        match fault {
            DocumentFault::Problem(problem) => problems.push(problem),
            DocumentFault::Unanswered(reason) => unanswered = Some(reason),
        }
    }
    match unanswered {
        _ if !problems.is_empty() => Err(DocumentsError::Differ(problems)),
        Some(reason) => Err(DocumentsError::Unanswered(reason)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::SocketAddr,
        sync::{
            Arc,
            atomic::{AtomicU16, Ordering},
        },
    };

    use http::StatusCode;
    use serde_json::json;
    use svc_net::host_policy::HostPolicy;

    use super::{
        super::report::{OwnStop, PassReport},
        *,
    };

    #[test]
    fn a_digest_belongs_to_the_url_of_its_name() {
        let claims = json!({
            "logoUri": "https://a.example/logo", "logoDigestSri": "sha384-a", "name": "A",
            "avatarDigestSri": "sha384-b", "privacyPolicyUri": "https://a.example/privacy",
            "termsAndConditionsUri": 7, "termsAndConditionsDigestSri": "sha384-c",
        });
        let claims = claims.as_object().expect("an object");
        let found = named_documents(claims);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].url, found[0].digest), ("https://a.example/logo", "sha384-a"));
        assert_eq!(found[0].properties, ("logoUri".to_owned(), "logoDigestSri"));
    }

    /// Claims with a document at an address, and its digest.
    fn claims_of(address: SocketAddr, document: &[u8]) -> FoundClaims {
        let digest = sri_digest(document, DigestAlgorithm::Sha384);
        let claims = json!({"logoUri": format!("http://{address}/logo"), "logoDigestSri": digest});
        let setting = |name: &str| (name.to_owned(), format!("ECS_CLAIMS_FILE service.{name}"));
        FoundClaims {
            claims: claims.as_object().cloned().unwrap_or_default(),
            settings: ["logoUri", "logoDigestSri"].map(setting).into(),
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_asked_again() {
        const DOCUMENT: &[u8] = b"a logo";
        let fetcher = BoundedFetcher::new(HostPolicy::AllowPrivate, FetchLimits::default()).expect("a client");
        let limits = FetchLimits { timeout: Duration::from_millis(300), ..limits() };
        let documents = ClaimDocuments { limits, ..ClaimDocuments::new(fetcher) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let found = claims_of(address, DOCUMENT);
        // It takes the connection and says nothing; then nothing is there.
        let mut stops = vec![documents.check(&found).await];
        drop(listener);
        stops.push(documents.check(&found).await);
        let listener = tokio::net::TcpListener::bind(address).await.expect("the same port");
        let status = Arc::new(AtomicU16::new(503));
        let served = Arc::clone(&status);
        let answer = async move || {
            let status = StatusCode::from_u16(served.load(Ordering::Relaxed)).unwrap_or_default();
            (status, DOCUMENT)
        };
        let router = axum::Router::new().route("/logo", axum::routing::get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        for code in [503, 500, 429, 425, 408] {
            status.store(code, Ordering::Relaxed);
            stops.push(documents.check(&found).await);
        }
        for stop in stops {
            let Err(DocumentsError::Unanswered(reason)) = &stop else { panic!("{stop:?}") };
            assert!(reason.starts_with("ECS_CLAIMS_FILE service.logoUri: "), "{reason}");
            assert!(reason.ends_with("; it is tried again"), "{reason}");
            // A later pass of the keeper comes without an event, and no setting is to be changed.
            let mut report = PassReport::default();
            report.note("service", Err(OwnStop::from(stop.expect_err("a stop"))));
            assert!(report.has_failure && report.claims.is_empty(), "{report:?}");
        }
        status.store(404, Ordering::Relaxed);
        let Err(DocumentsError::Differ(refused)) = documents.check(&found).await else { panic!("no problem") };
        assert_eq!(refused[0].setting, "ECS_CLAIMS_FILE service.logoUri");
        status.store(200, Ordering::Relaxed);
        assert_eq!(documents.check(&found).await, Ok(()));
    }
}
