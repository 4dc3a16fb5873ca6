//! Why a document could not be fetched.

use std::{fmt, time::Duration};

use crate::hosts::HostError;

/// A fetch that failed. Each says which URL, which step and which limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It is not the URL of a document on the web.
    #[error("{url:?} is not an https URL without credentials")]
    NotAUrl {
        /// What was given.
        url: String,
    },
    /// Its host must not be contacted.
    #[error("{url} is not fetched: {reason}")]
    HostRefused {
        /// What was to be fetched.
        url: String,
        /// Why not.
        reason: HostError,
    },
    /// It leads to where nothing is fetched.
    #[error("{url} redirects to {target:?}, where nothing is fetched: {reason}")]
    RedirectRefused {
        /// Where the redirect came from.
        url: String,
        /// Where it leads.
        target: String,
        /// Why not.
        reason: String,
    },
    /// One redirect after the other.
    #[error("{url} redirects more than {limit} times")]
    TooManyRedirects {
        /// Where it began.
        url: String,
        /// How many are followed.
        limit: usize,
    },
    /// The server answered with something else than the document.
    #[error("{url} was answered with HTTP status {status}")]
    HttpStatus {
        /// What was asked for.
        url: String,
        /// The status.
        status: u16,
    },
    /// The document is packed, and nobody asked for that.
    #[error("{url} was answered in the content coding {coding:?}; only identity is taken")]
    Encoded {
        /// What was asked for.
        url: String,
        /// The coding.
        coding: String,
    },
    /// The document is too long.
    #[error("{url} is longer than {limit} bytes")]
    TooLong {
        /// What was read.
        url: String,
        /// How much is taken.
        limit: usize,
    },
    /// The document has too many members and items for its length.
    #[error("{url} would take more than {limit} bytes of memory to read")]
    TooHeavy {
        /// What was read.
        url: String,
        /// How much is taken.
        limit: usize,
    },
    /// It took too long, redirects and body together.
    #[error("{url}: {step} was not there within {limit:?}")]
    TimedOut {
        /// What was asked for last.
        url: String,
        /// What was waited for.
        step: Step,
        /// How long a fetch may take.
        limit: Duration,
    },
    /// No connection, or one that broke.
    #[error("{url}: {step} could not be had: {reason}")]
    Unreachable {
        /// What was asked for last.
        url: String,
        /// What was waited for.
        step: Step,
        /// What the connection says.
        reason: String,
    },
}

/// What a fetch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A connection, and status and headers over it.
    Answer,
    /// The rest of the body.
    Body,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Answer => "an answer",
            Self::Body => "the end of the body",
        })
    }
}

impl FetchError {
    /// What happened, as a bounded label.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotAUrl { .. } => "not_a_url",
            Self::HostRefused { .. } => "host_refused",
            Self::RedirectRefused { .. } => "redirect_refused",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::HttpStatus { .. } => "http_status",
            Self::Encoded { .. } => "encoded",
            Self::TooLong { .. } => "too_long",
            Self::TooHeavy { .. } => "too_heavy",
            Self::TimedOut { .. } => "timed_out",
            Self::Unreachable { .. } => "unreachable",
        }
    }

    pub(super) fn refused(url: &str, reason: HostError) -> Self {
        match reason {
            HostError::Url(_) => Self::NotAUrl { url: shown(url) },
            reason => Self::HostRefused { url: shown(url), reason },
        }
    }
}

/// Longest text of somebody else that a message repeats, in characters.
const SHOWN: usize = 256;

/// Somebody else's text, so that a message stays a message.
pub(crate) fn shown(text: &str) -> String {
    cut(text, SHOWN)
}

/// The first characters of a text.
pub(crate) fn cut(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
