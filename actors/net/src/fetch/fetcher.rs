//! The fetcher: follows redirects and reads one body within its limits.

#[cfg(test)]
pub(crate) mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{StatusCode, header};
use svc_otel::metrics;
use url::Url;

use super::{
    body_buffer::BodyBuffer,
    error::{FetchError, FetchStage, HttpClientError},
    freshness::Freshness,
    known_bodies::KnownBodies,
    redirect::redirect_target,
    transience,
};
use crate::{
    excerpt::excerpt,
    host_policy::{HostError, HostPolicy},
    json_memory,
    upstream::innermost_cause,
};

/// Limits of one fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Longest body, which is also the memory of the buffer.
    pub max_bytes: usize,
    /// Largest memory of the body as parsed JSON, as [`json_memory::of_text`] estimates it.
    pub max_json_memory: usize,
    /// Time for all of name resolution, connections, redirects and the body.
    pub timeout: Duration,
    /// Number of redirects that the fetcher follows.
    pub max_redirects: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            max_bytes: 1024 * 1024,
            max_json_memory: 16 * 1024 * 1024,
            timeout: Duration::from_secs(10),
            max_redirects: 3,
        }
    }
}

/// The body of a fetched document.
#[derive(Debug, Clone)]
pub struct FetchedBody {
    /// URL after all redirects.
    pub url: Url,
    /// The body.
    pub body: Bytes,
    /// Time that the server allows a cache to keep the body.
    pub freshness: Freshness,
}

/// Fetches documents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BoundedFetcher(Arc<BoundedFetcherInner>);

#[derive(Debug)]
struct BoundedFetcherInner {
    policy: HostPolicy,
    limits: FetchLimits,
    client: reqwest::Client,
    known_bodies: KnownBodies,
    /// Origin of a test server on this machine, exempt from the policy.
    #[cfg(test)]
    test_origin: Option<url::Origin>,
}

/// URL and stage of a running fetch, for the error at its timeout.
struct FetchProgress {
    url: String,
    stage: FetchStage,
}

impl BoundedFetcher {
    /// Makes a fetcher that contacts hosts under `policy`.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(policy: HostPolicy, limits: FetchLimits) -> Result<Self, HttpClientError> {
        Ok(Self(Arc::new(BoundedFetcherInner {
            policy,
            limits,
            client: policy.client()?,
            known_bodies: KnownBodies::new(),
            #[cfg(test)]
            test_origin: None,
        })))
    }

    /// Returns the policy for hosts.
    pub fn policy(&self) -> HostPolicy {
        self.0.policy
    }

    /// Fetches the document at `url`.
    ///
    /// # Errors
    /// Every [`FetchError`].
    pub async fn get(&self, url: &str) -> Result<FetchedBody, FetchError> {
        self.get_within(url, &self.0.limits).await
    }

    /// Fetches the document at `url` within other limits.
    ///
    /// # Errors
    /// Every [`FetchError`].
    pub async fn get_within(&self, url: &str, limits: &FetchLimits) -> Result<FetchedBody, FetchError> {
        let mut progress = FetchProgress { url: excerpt(url), stage: FetchStage::ResponseHead };
        let limit = limits.timeout;
        match tokio::time::timeout(limit, self.follow_redirects(url, limits, &mut progress)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::TimedOut { url: progress.url, stage: progress.stage, limit }),
        }
        .inspect_err(|error| metrics::record_document_fetch(error.code()))
    }

    async fn follow_redirects(
        &self,
        start: &str,
        limits: &FetchLimits,
        progress: &mut FetchProgress,
    ) -> Result<FetchedBody, FetchError> {
        let mut url = self.check_url(start).map_err(|reason| FetchError::host_refused(start, reason))?;
        let mut redirected_from: Option<Url> = None;
        for _ in 0..=limits.max_redirects {
            *progress = FetchProgress { url: excerpt(url.as_str()), stage: FetchStage::ResponseHead };
            let known = self.0.known_bodies.get(&url).await;
            let mut request = self.0.client.get(url.clone()).header(header::ACCEPT_ENCODING, "identity");
            if let Some(known) = &known {
                request = request.header(header::IF_NONE_MATCH, &known.validator);
            }
            let response = request.send().await;
            let response = response.map_err(|error| request_error(redirected_from.as_ref(), &url, &error))?;
            if let (Some(known), StatusCode::NOT_MODIFIED) = (known, response.status()) {
                // The body may have been kept by a fetch with wider limits.
                check_limits(&url, &known.body, limits)?;
                metrics::record_document_fetch("not_modified");
                let freshness = known.freshness_after(response.headers());
                return Ok(FetchedBody { url, body: known.body, freshness });
            }
            match redirect_target(&url, response.status(), response.headers(), |target| self.check_url(target))? {
                Some(target) => redirected_from = Some(std::mem::replace(&mut url, target)),
                None => return self.read_body(url, response, limits, progress).await,
            }
        }
        Err(FetchError::TooManyRedirects { url: excerpt(start), limit: limits.max_redirects })
    }

    async fn read_body(
        &self,
        url: Url,
        mut response: reqwest::Response,
        limits: &FetchLimits,
        progress: &mut FetchProgress,
    ) -> Result<FetchedBody, FetchError> {
        let at = excerpt(url.as_str());
        // Another success is no whole document: 206 is a part of one, 204 none.
        if response.status() != StatusCode::OK {
            let retry_after = transience::retry_after(response.headers());
            return Err(FetchError::HttpStatus { url: at, status: response.status().as_u16(), retry_after });
        }
        // The client decodes nothing, so that a short body cannot become a long one. See [`HostPolicy::client`].
        if let Some(coding) = response.headers().get(header::CONTENT_ENCODING)
            && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
        {
            let coding = excerpt(&String::from_utf8_lossy(coding.as_bytes()));
            return Err(FetchError::ContentEncoded { url: at, coding });
        }
        let limit = limits.max_bytes;
        let too_long = || FetchError::BodyTooLong { url: at.clone(), limit };
        let announced = response.content_length();
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(too_long());
        }
        progress.stage = FetchStage::Body;
        let headers = response.headers().clone();
        let mut body = BodyBuffer::new(announced, limit);
        let broken = |error: reqwest::Error| FetchError::Unreachable {
            url: at.clone(),
            stage: FetchStage::Body,
            reason: innermost_cause(&error),
            is_transient: transience::may_pass(&error),
        };
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if !body.try_append(&chunk) {
                return Err(too_long());
            }
        }
        let body = body.into_bytes();
        check_limits(&url, &body, limits)?;
        self.0.known_bodies.keep(&url, &headers, &body).await;
        metrics::record_document_fetch("fetched");
        Ok(FetchedBody { url, body, freshness: Freshness::from_headers(&headers) })
    }

    fn check_url(&self, url: &str) -> Result<Url, HostError> {
        #[cfg(test)]
        if let (Some(exempt), Ok(url)) = (&self.0.test_origin, Url::parse(url))
            && url.origin() == *exempt
        {
            return Ok(url);
        }
        self.0.policy.check_url(url)
    }
}

fn check_limits(url: &Url, body: &Bytes, limits: &FetchLimits) -> Result<(), FetchError> {
    if body.len() > limits.max_bytes {
        return Err(FetchError::BodyTooLong { url: excerpt(url.as_str()), limit: limits.max_bytes });
    }
    let limit = limits.max_json_memory;
    if json_memory::of_text(body) > limit {
        return Err(FetchError::JsonTooLarge { url: excerpt(url.as_str()), limit });
    }
    Ok(())
}

/// Converts the error of a request. A name with private addresses only is refused during the connection.
fn request_error(redirected_from: Option<&Url>, url: &Url, error: &reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(reason) = inner.downcast_ref::<HostError>() {
            return match redirected_from {
                None => FetchError::host_refused(url.as_str(), reason.clone()),
                Some(from) => FetchError::RedirectRefused {
                    url: excerpt(from.as_str()),
                    target: excerpt(url.as_str()),
                    reason: reason.to_string(),
                },
            };
        }
        cause = inner.source();
    }
    FetchError::Unreachable {
        url: excerpt(url.as_str()),
        stage: FetchStage::ResponseHead,
        reason: innermost_cause(error),
        is_transient: transience::may_pass(error),
    }
}
