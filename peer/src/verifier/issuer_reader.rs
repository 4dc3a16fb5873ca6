//! The document of the issuer and the list of its revoked grants, read when they are needed and kept. A token can make the server read, and must
//! not make it read often.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use svc_net::{
    did::DidResolver,
    fetch::{BoundedFetcher, FetchLimits, HttpClientError},
    host_policy::HostPolicy,
};
use svc_wire::{
    endpoint_access::{
        AccessDocument, LIST_MAX_AGE_SECONDS, MAX_DOCUMENT_BYTES, RevocationList, SERVICE_FRAGMENT, endpoint_url,
    },
    verification_method::absolute_did_url,
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};
use url::Url;

/// Age at which both are read again beside their use.
const REFRESH_AGE: Duration = Duration::from_secs(30);
/// Age at which they are not used any more.
const MAX_AGE: Duration = Duration::from_secs(LIST_MAX_AGE_SECONDS.unsigned_abs());
/// Least time between two readings after a failure.
const LEAST_PAUSE: Duration = Duration::from_secs(5);
/// Least time between two readings for unknown keys, however many tokens name one.
const UNKNOWN_KEY_PAUSE: Duration = Duration::from_secs(30);
/// Longest reading of document and lists together.
const READING_TIMEOUT: Duration = Duration::from_secs(8);
const OLD_LIST: &str = "its list of revoked grants is older than two minutes";
/// Seconds that two clocks may differ.
const CLOCK_SKEW: i64 = 30;

const DOCUMENT_LIMITS: FetchLimits = FetchLimits {
    max_bytes: MAX_DOCUMENT_BYTES,
    max_json_memory: 8 * 1024 * 1024,
    timeout: Duration::from_secs(4),
    max_redirects: 0,
};
/// The list has at most 100,000 rows of about 90 bytes.
const LIST_LIMITS: FetchLimits = FetchLimits {
    max_bytes: 16 * 1024 * 1024,
    max_json_memory: 128 * 1024 * 1024,
    timeout: Duration::from_secs(6),
    max_redirects: 0,
};

/// The facts by which tokens are verified.
#[derive(Clone)]
pub(super) struct IssuerEvidence {
    /// Document of the issuer.
    pub document: Arc<Value>,
    /// The grants that it has revoked.
    pub revoked: Arc<RevocationList>,
    /// Age of that list when it was read, as far as clocks tell.
    list_age: Duration,
}

/// Reads and keeps the evidence of one issuer.
#[derive(Clone)]
pub(super) struct IssuerReader(Arc<ReaderParts>);

struct ReaderParts {
    issuer: String,
    resolver: DidResolver,
    fetcher: BoundedFetcher,
    kept: Mutex<KeptEvidence>,
    /// Held while something is read, so that all callers wait for one reading.
    reading: AsyncMutex<()>,
}

#[derive(Default, Clone)]
struct KeptEvidence {
    evidence: Option<(IssuerEvidence, Instant)>,
    tried_at: Option<Instant>,
    asked_for_key_at: Option<Instant>,
    problem: String,
}

impl IssuerReader {
    pub fn new(issuer: String, hosts: HostPolicy) -> Result<Self, HttpClientError> {
        let fetcher = BoundedFetcher::new(hosts, DOCUMENT_LIMITS)?;
        let resolver = DidResolver::with_fetcher(fetcher.clone());
        let (kept, reading) = (Mutex::default(), AsyncMutex::default());
        Ok(Self(Arc::new(ReaderParts { issuer, resolver, fetcher, kept, reading })))
    }

    /// Returns the evidence, which is at most two minutes old. Fails when there is none and none can be had.
    pub async fn read(&self, now: i64) -> Result<IssuerEvidence, String> {
        let kept = self.kept();
        if let Some((evidence, age)) = kept.usable() {
            if age >= REFRESH_AGE && kept.may_try() {
                let reader = self.clone();
                tokio::spawn(async move { reader.read_again(now, Instant::now()).await });
            }
            return Ok(evidence);
        }
        self.read_again(now, Instant::now()).await;
        let kept = self.kept();
        kept.usable().map(|(evidence, _)| evidence).ok_or(kept.problem)
    }

    /// Reads once more for a token with a key that the document does not have, unless that was done a moment ago.
    pub async fn read_for_unknown_key(&self, now: i64) -> Option<IssuerEvidence> {
        let asked = Instant::now();
        {
            let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.asked_for_key_at.is_some_and(|before| asked < before + UNKNOWN_KEY_PAUSE) {
                return None;
            }
            (kept.asked_for_key_at, kept.tried_at) = (Some(asked), None);
        }
        self.read_again(now, asked).await;
        self.kept().usable().map(|(evidence, _)| evidence)
    }

    fn kept(&self) -> KeptEvidence {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads, unless another caller has done so since `asked`, or a reading has failed a moment ago.
    async fn read_again(&self, now: i64, asked: Instant) {
        let _reading = self.0.reading.lock().await;
        let kept = self.kept();
        let is_done = kept.evidence.as_ref().is_some_and(|(_, read_at)| *read_at > asked);
        if is_done || !kept.may_try() {
            return;
        }
        let read = timeout(READING_TIMEOUT, self.fetch(now)).await;
        let read = read.unwrap_or_else(|_| Err(format!("no answer within {} s", READING_TIMEOUT.as_secs())));
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tried_at = Some(Instant::now());
        match read {
            Ok(evidence) => {
                // A list that was old already is not asked for again at once.
                kept.tried_at = (evidence.list_age > Duration::ZERO).then(Instant::now);
                kept.evidence = Some((evidence, Instant::now()));
                kept.problem = OLD_LIST.to_owned();
            }
            Err(problem) => {
                tracing::warn!(
                    problem,
                    "the document of the issuer of peers' tokens, or the list of its revoked grants, cannot be read"
                );
                kept.problem = problem;
            }
        }
    }

    async fn fetch(&self, now: i64) -> Result<IssuerEvidence, String> {
        let issuer = &self.0.issuer;
        let document = self.0.resolver.resolve_fresh(issuer).await.map_err(|error| error.to_string())?;
        let entry = format!("{issuer}#{SERVICE_FRAGMENT}");
        let mut services = document["service"].as_array().into_iter().flatten();
        let is_entry = |id: &str| absolute_did_url(issuer, id) == entry;
        let service = services.find(|service| service["id"].as_str().is_some_and(is_entry));
        let url = service.and_then(|service| endpoint_url(&service["serviceEndpoint"]));
        let url = url.ok_or("the document has no entry #endpoint-access: the agent grants no tokens")?;
        let conditions = self.json(url, &DOCUMENT_LIMITS).await?;
        let conditions =
            AccessDocument::read(&conditions, issuer).ok_or("its endpoint-access.json is of another DID or version")?;
        if origin_of(&conditions.revocation_list) != origin_of(url) {
            return Err("its list of revoked grants is on another host".to_owned());
        }
        let list = self.json(&conditions.revocation_list, &LIST_LIMITS).await?;
        let list =
            RevocationList::read(&list, issuer).ok_or("its list of revoked grants is of another issuer or form")?;
        // A host between may have kept the list for a while.
        let list_age = Duration::from_secs((now - CLOCK_SKEW).saturating_sub(list.generated_at).max(0).unsigned_abs());
        if list_age > MAX_AGE {
            return Err(OLD_LIST.to_owned());
        }
        Ok(IssuerEvidence { document, revoked: Arc::new(list), list_age })
    }

    async fn json(&self, url: &str, limits: &FetchLimits) -> Result<Value, String> {
        let fetched = self.0.fetcher.get_within(url, limits).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&fetched.body).map_err(|error| format!("{}: no JSON: {error}", fetched.url))
    }
}

fn origin_of(url: &str) -> Option<String> {
    Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}

impl KeptEvidence {
    fn usable(&self) -> Option<(IssuerEvidence, Duration)> {
        let (evidence, read_at) = self.evidence.as_ref()?;
        let age = read_at.elapsed();
        (evidence.list_age + age < MAX_AGE).then(|| (evidence.clone(), age))
    }

    fn may_try(&self) -> bool {
        self.tried_at.is_none_or(|tried| tried.elapsed() >= LEAST_PAUSE)
    }
}
