//! Errors of a fetch.

use std::{fmt, time::Duration};

use crate::{excerpt::excerpt, host_policy::HostError};

/// The error of a fetch, with the URL, the stage and the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The text is no URL of a web server.
    #[error("{url:?} is not an https URL without credentials")]
    NotAUrl {
        /// The text.
        url: String,
    },
    /// The host must not be contacted.
    #[error("{url} is not fetched: {reason}")]
    HostRefused {
        /// URL of the document.
        url: String,
        /// The rule of the policy.
        reason: HostError,
    },
    /// The target of a redirect must not be contacted.
    #[error("{url} redirects to {target:?}, which is not fetched: {reason}")]
    RedirectRefused {
        /// URL of the redirect.
        url: String,
        /// Its target.
        target: String,
        /// The violated rule.
        reason: String,
    },
    /// The document has too many redirects.
    #[error("{url} redirects more than {limit} times")]
    TooManyRedirects {
        /// First URL.
        url: String,
        /// Number of redirects that the fetcher follows.
        limit: usize,
    },
    /// The HTTP status is not 200.
    #[error("{url} was answered with HTTP status {status}")]
    HttpStatus {
        /// Requested URL.
        url: String,
        /// The status.
        status: u16,
        /// Time after which the server asks for the next request, by `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The body has a content coding, although the request excludes all of them.
    #[error("{url} was answered in the content coding {coding:?}; only identity is accepted")]
    ContentEncoded {
        /// Requested URL.
        url: String,
        /// The coding.
        coding: String,
    },
    /// The body is too long.
    #[error("{url} is longer than {limit} bytes")]
    BodyTooLong {
        /// URL of the document.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The parsed JSON would take too much memory.
    #[error("{url} would take more than {limit} bytes of memory to read")]
    JsonTooLarge {
        /// URL of the document.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The fetch took too long, redirects and body included.
    #[error("{url}: {stage} did not arrive within {limit:?}")]
    TimedOut {
        /// URL of the last request.
        url: String,
        /// Stage of the last request.
        stage: FetchStage,
        /// Time limit of a fetch.
        limit: Duration,
    },
    /// The connection failed.
    #[error("{url}: {stage} did not arrive: {reason}")]
    Unreachable {
        /// URL of the last request.
        url: String,
        /// Stage of the last request.
        stage: FetchStage,
        /// Error of the connection.
        reason: String,
        /// Whether the reason may pass.
        is_transient: bool,
    },
}

/// A stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchStage {
    /// Connection, status and headers.
    ResponseHead,
    /// The rest of the body.
    Body,
}

impl fmt::Display for FetchStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ResponseHead => "an answer",
            Self::Body => "the end of the body",
        })
    }
}

impl FetchError {
    /// Returns the kind of the error as a bounded label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAUrl { .. } => "not_a_url",
            Self::HostRefused { .. } => "host_refused",
            Self::RedirectRefused { .. } => "redirect_refused",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::HttpStatus { .. } => "http_status",
            Self::ContentEncoded { .. } => "encoded",
            Self::BodyTooLong { .. } => "too_long",
            Self::JsonTooLarge { .. } => "too_heavy",
            Self::TimedOut { .. } => "timed_out",
            Self::Unreachable { .. } => "unreachable",
        }
    }

    /// Whether a later fetch may succeed: a server that is busy, restarts or is not reached. Other failures are answers about the
    /// document.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::HttpStatus { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            Self::TimedOut { .. } => true,
            Self::Unreachable { is_transient, .. } => *is_transient,
            Self::NotAUrl { .. }
            | Self::HostRefused { .. }
            | Self::RedirectRefused { .. }
            | Self::TooManyRedirects { .. }
            | Self::ContentEncoded { .. }
            | Self::BodyTooLong { .. }
            | Self::JsonTooLarge { .. } => false,
        }
    }

    /// Returns the URL of the last request.
    pub fn url(&self) -> &str {
        match self {
            Self::NotAUrl { url }
            | Self::HostRefused { url, .. }
            | Self::RedirectRefused { url, .. }
            | Self::TooManyRedirects { url, .. }
            | Self::HttpStatus { url, .. }
            | Self::ContentEncoded { url, .. }
            | Self::BodyTooLong { url, .. }
            | Self::JsonTooLarge { url, .. }
            | Self::TimedOut { url, .. }
            | Self::Unreachable { url, .. } => url,
        }
    }

    pub(super) fn host_refused(url: &str, reason: HostError) -> Self {
        match reason {
            HostError::NotHttpsUrl(_) => Self::NotAUrl { url: excerpt(url) },
            reason => Self::HostRefused { url: excerpt(url), reason },
        }
    }
}

/// The error of building an HTTP client.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HttpClientError(#[from] reqwest::Error);
