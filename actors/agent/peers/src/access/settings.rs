//! Settings of access.

use std::{path::PathBuf, time::Duration};

/// How the agent grants access to its endpoints, and asks for that of others.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// File of the conditions; without one every endpoint of the document needs nothing.
    pub terms_file: Option<PathBuf>,
    /// Whether a backend answers the requests of peers, which are ordinary basic messages then.
    pub is_answered_by_backend: bool,
    /// Life of a grant, in seconds, where the file says nothing else.
    pub token_seconds: i64,
    /// Requests of one peer in a minute.
    pub rate_per_peer: u32,
    /// Wait for the answer of a peer, where a caller says nothing else.
    pub answer_timeout: Duration,
}

impl AccessSettings {
    /// Whether the document names conditions, and the keys of tokens.
    pub fn is_published(&self) -> bool {
        self.terms_file.is_some() && !self.is_answered_by_backend
    }
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            terms_file: None,
            is_answered_by_backend: false,
            token_seconds: 600,
            rate_per_peer: 10,
            answer_timeout: Duration::from_secs(45),
        }
    }
}
