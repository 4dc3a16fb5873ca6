//! The keys of the issuer, read when they are needed and kept. A token can make the server ask the issuer, and must not make it ask often.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use svc_net::{
    fetch::{BoundedFetcher, FetchLimits},
    host_policy::HostPolicy,
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};
use url::Url;

use super::{
    access_token::TokenHead,
    issuer_text,
    key_set::{IssuerKey, find_key, read_key_set},
};
use crate::principals::TokenRejection;

/// Age at which the keys are read again beside their use.
const REFRESH_AGE: Duration = Duration::from_secs(5 * 60);
/// Age at which keys are not used any more: an issuer that was not reachable for so long may have withdrawn them.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Least time between two readings, however many unknown keys are named.
const LEAST_PAUSE: Duration = Duration::from_secs(10);
/// Longest reading of metadata and keys together.
const READING_TIMEOUT: Duration = Duration::from_secs(3);
/// Limits of each of the two documents.
const LIMITS: FetchLimits = FetchLimits {
    max_bytes: 256 * 1024,
    max_json_memory: 4 * 1024 * 1024,
    timeout: Duration::from_secs(3),
    max_redirects: 0,
};

/// Reads and keeps the keys of an issuer.
#[derive(Clone)]
pub(super) struct IssuerKeys(Arc<IssuerKeysInner>);

struct IssuerKeysInner {
    issuer: Url,
    fetcher: BoundedFetcher,
    kept: Mutex<KeptKeys>,
    /// Held while the keys are read, so that all callers wait for one reading.
    reading: AsyncMutex<()>,
}

#[derive(Default, Clone)]
struct KeptKeys {
    keys: Arc<[IssuerKey]>,
    read_at: Option<Instant>,
    tried_at: Option<Instant>,
    problem: Option<String>,
}

impl IssuerKeys {
    pub fn new(issuer: Url, hosts: HostPolicy) -> anyhow::Result<Self> {
        let fetcher = BoundedFetcher::new(hosts, LIMITS)?;
        Ok(Self(Arc::new(IssuerKeysInner { issuer, fetcher, kept: Mutex::default(), reading: AsyncMutex::default() })))
    }

    /// The key that a token names. An unknown one has the keys read again, at most every ten seconds.
    pub async fn find(&self, head: &TokenHead) -> Result<IssuerKey, TokenRejection> {
        let kept = self.kept();
        let now = Instant::now();
        let age = kept.read_at.map(|read| now - read);
        if let Some(age) = age.filter(|age| *age < MAX_AGE)
            && let Some(key) = find_key(&kept.keys, head)
        {
            if age >= REFRESH_AGE && kept.may_try(now) {
                let keys = self.clone();
                tokio::spawn(async move { keys.read_again().await });
            }
            return Ok(key);
        }
        self.read_again().await;
        let kept = self.kept();
        let is_usable = kept.read_at.is_some_and(|read| read.elapsed() < MAX_AGE);
        match find_key(&kept.keys, head).filter(|_| is_usable) {
            Some(key) => Ok(key),
            None if is_usable && kept.problem.is_none() => {
                Err(TokenRejection::Invalid("the issuer has no such key".to_owned()))
            }
            None => Err(TokenRejection::Unavailable(kept.problem.unwrap_or_else(|| "not read yet".to_owned()))),
        }
    }

    fn kept(&self) -> KeptKeys {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the keys, unless that was tried a moment ago.
    async fn read_again(&self) {
        let _reading = self.0.reading.lock().await;
        if !self.kept().may_try(Instant::now()) {
            return;
        }
        let read = timeout(READING_TIMEOUT, self.read()).await;
        let read = read.unwrap_or_else(|_| Err(format!("no answer within {} s", READING_TIMEOUT.as_secs())));
        let now = Instant::now();
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.tried_at = Some(now);
        match read {
            Ok(keys) => {
                tracing::info!(keys = keys.len(), "the keys of the OAuth issuer were read");
                (kept.keys, kept.read_at, kept.problem) = (keys.into(), Some(now), None);
            }
            Err(problem) => {
                tracing::warn!(problem, "the keys of the OAuth issuer cannot be read");
                kept.problem = Some(problem);
            }
        }
    }

    async fn read(&self) -> Result<Vec<IssuerKey>, String> {
        let metadata = self.read_metadata().await?;
        let stated = metadata["issuer"].as_str().unwrap_or_default();
        // Metadata of another issuer would lead to its keys.
        if stated.trim_end_matches('/') != issuer_text(&self.0.issuer) {
            return Err("the metadata is of another issuer".to_owned());
        }
        let url = metadata["jwks_uri"].as_str().ok_or("the metadata has no jwks_uri")?;
        let fetched = self.0.fetcher.get(url).await.map_err(|error| error.to_string())?;
        read_key_set(&fetched.body).map_err(|reason| format!("{url}: {reason}"))
    }

    /// The metadata by RFC 8414, or by OpenID Connect Discovery.
    async fn read_metadata(&self) -> Result<serde_json::Value, String> {
        let (origin, path) = (self.0.issuer.origin().ascii_serialization(), self.0.issuer.path().trim_end_matches('/'));
        let mut problem = String::new();
        for url in [
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ] {
            match self.0.fetcher.get(&url).await {
                Ok(fetched) => match serde_json::from_slice(&fetched.body) {
                    Ok(metadata) => return Ok(metadata),
                    Err(error) => problem = format!("{url}: no JSON: {error}"),
                },
                Err(error) => problem = error.to_string(),
            }
        }
        Err(problem)
    }
}

impl KeptKeys {
    fn may_try(&self, now: Instant) -> bool {
        self.tried_at.is_none_or(|tried| now >= tried + LEAST_PAUSE)
    }
}
