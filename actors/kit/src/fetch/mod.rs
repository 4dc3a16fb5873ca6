//! GET of a document that somebody else's document names.
//!
//! Whoever wrote that document chose the server, and the server chooses everything it sends. So every URL is checked before anything
//! is sent, those that redirects lead to as well, and every address after name resolution; one limit bounds the time of everything
//! together, and the body is bounded while it arrives.

mod error;
mod freshness;
#[cfg(test)]
pub(crate) mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use url::Url;

pub use error::{FetchError, Step};
pub(crate) use error::{cut, shown};
pub use freshness::Freshness;

use crate::{
    hosts::{HostError, HostPolicy},
    upstream::innermost,
    weight,
};

/// What one fetch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest document. It is also the memory that its body takes.
    pub bytes: usize,
    /// Most memory that reading it as JSON may take, as [`weight::of_text`] counts it.
    pub weight: usize,
    /// Time for everything: names, connections, redirects, and a body that comes byte by byte.
    pub time: Duration,
    /// Redirects that are followed.
    pub redirects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024, weight: 16 * 1024 * 1024, time: Duration::from_secs(10), redirects: 3 }
    }
}

/// A document.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it was in the end.
    pub url: Url,
    /// What it says.
    pub body: Bytes,
    /// How long it may be kept.
    pub freshness: Freshness,
}

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ClientError(#[from] reqwest::Error);

/// Fetches documents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: HostPolicy,
    limits: Limits,
    client: reqwest::Client,
    /// A server of the tests, which may be on this machine although nothing else there may be reached.
    #[cfg(test)]
    exempt: Option<url::Origin>,
}

/// Longest redirect.
const MAX_LOCATION: usize = 2048;

/// Where a fetch is, for the message when its time is over.
struct Progress {
    url: String,
    step: Step,
}

impl Fetcher {
    /// A fetcher for hosts under `policy`.
    pub fn new(policy: HostPolicy, limits: Limits) -> Result<Self, ClientError> {
        Ok(Self(Arc::new(Inner {
            policy,
            limits,
            client: client(policy)?,
            #[cfg(test)]
            exempt: None,
        })))
    }

    /// Hosts it may contact.
    pub fn policy(&self) -> HostPolicy {
        self.0.policy
    }

    /// The document at `url`.
    pub async fn get(&self, url: &str) -> Result<Fetched, FetchError> {
        let mut progress = Progress { url: shown(url), step: Step::Answer };
        let limit = self.0.limits.time;
        match tokio::time::timeout(limit, self.follow(url, &mut progress)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::TimedOut { url: progress.url, step: progress.step, limit }),
        }
    }

    async fn follow(&self, start: &str, progress: &mut Progress) -> Result<Fetched, FetchError> {
        let mut url = self.check(start).map_err(|reason| FetchError::refused(start, reason))?;
        let mut came_from: Option<Url> = None;
        for _ in 0..=self.0.limits.redirects {
            *progress = Progress { url: shown(url.as_str()), step: Step::Answer };
            let response = self.0.client.get(url.clone()).header(header::ACCEPT_ENCODING, "identity").send().await;
            let response = response.map_err(|error| unanswered(came_from.as_ref(), &url, &error))?;
            match redirect(&url, response.status(), response.headers(), |target| self.check(target))? {
                Some(target) => came_from = Some(std::mem::replace(&mut url, target)),
                None => return self.read(url, response, progress).await,
            }
        }
        Err(FetchError::TooManyRedirects { url: shown(start), limit: self.0.limits.redirects })
    }

    async fn read(
        &self,
        url: Url,
        mut response: reqwest::Response,
        progress: &mut Progress,
    ) -> Result<Fetched, FetchError> {
        let at = shown(url.as_str());
        if !response.status().is_success() {
            return Err(FetchError::HttpStatus { url: at, status: response.status().as_u16() });
        }
        // The client unpacks nothing, so a body of a few bytes stays one. See `client`.
        if let Some(coding) = response.headers().get(header::CONTENT_ENCODING)
            && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
        {
            let coding = shown(&String::from_utf8_lossy(coding.as_bytes()));
            return Err(FetchError::Encoded { url: at, coding });
        }
        let limit = self.0.limits.bytes;
        let too_long = || FetchError::TooLong { url: at.clone(), limit };
        let announced = response.content_length();
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        progress.step = Step::Body;
        let freshness = Freshness::of(response.headers());
        let mut body = Body::new(announced, limit);
        let broken = |error: reqwest::Error| FetchError::Unreachable {
            url: at.clone(),
            step: Step::Body,
            reason: innermost(&error),
        };
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if !body.takes(&chunk) {
                return Err(too_long());
            }
        }
        let (body, limit) = (body.end(), self.0.limits.weight);
        if weight::of_text(&body) > limit {
            return Err(FetchError::TooHeavy { url: at, limit });
        }
        Ok(Fetched { url, body, freshness })
    }

    fn check(&self, url: &str) -> Result<Url, HostError> {
        #[cfg(test)]
        if let (Some(exempt), Ok(url)) = (&self.0.exempt, Url::parse(url))
            && url.origin() == *exempt
        {
            return Ok(url);
        }
        self.0.policy.check(url)
    }
}

/// Another crate of the build may give the client a decoder, and with it bodies that grow after they were counted: all are switched off.
/// Connections to servers of others are not kept.
fn client(policy: HostPolicy) -> Result<reqwest::Client, ClientError> {
    let client = policy.client().no_gzip().no_brotli().no_zstd().no_deflate().pool_max_idle_per_host(0);
    Ok(client.build()?)
}

/// Where an answer sends us on; `None` when it is the answer itself.
fn redirect(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    check: impl FnOnce(&str) -> Result<Url, HostError>,
) -> Result<Option<Url>, FetchError> {
    let (true, Some(location)) =
        (matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308), headers.get(header::LOCATION))
    else {
        return Ok(None);
    };
    let target = String::from_utf8_lossy(location.as_bytes());
    let refused =
        |reason: String| FetchError::RedirectRefused { url: shown(from.as_str()), target: shown(&target), reason };
    if target.len() > MAX_LOCATION {
        return Err(refused(format!("it is longer than {MAX_LOCATION} bytes")));
    }
    let mut url = from.join(&target).map_err(|error| refused(error.to_string()))?;
    url.set_fragment(None);
    check(url.as_str()).map(Some).map_err(|error| refused(error.to_string()))
}

/// Why there is no answer. A name that leads to private addresses only is found out by the connection.
fn unanswered(came_from: Option<&Url>, url: &Url, error: &reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(reason) = inner.downcast_ref::<HostError>() {
            return match came_from {
                None => FetchError::refused(url.as_str(), reason.clone()),
                Some(from) => FetchError::RedirectRefused {
                    url: shown(from.as_str()),
                    target: shown(url.as_str()),
                    reason: reason.to_string(),
                },
            };
        }
        cause = inner.source();
    }
    FetchError::Unreachable { url: shown(url.as_str()), step: Step::Answer, reason: innermost(error) }
}

/// A body as it arrives: memory is set aside once, so that no growth takes more than the limit, and is used as it is written.
struct Body {
    bytes: Vec<u8>,
    limit: usize,
}

impl Body {
    fn new(announced: Option<u64>, limit: usize) -> Self {
        let length = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(limit);
        Self { bytes: Vec::with_capacity(length.min(limit)), limit }
    }

    /// Takes a chunk; `false`: it is too much.
    fn takes(&mut self, chunk: &[u8]) -> bool {
        let fits = chunk.len() <= self.limit - self.bytes.len();
        if fits {
            self.bytes.extend_from_slice(chunk);
        }
        fits
    }

    fn end(mut self) -> Bytes {
        self.bytes.shrink_to_fit();
        self.bytes.into()
    }
}
