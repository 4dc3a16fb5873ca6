//! Why an agent did not start.

use std::sync::Arc;

use svc_agent_identity::{chain_link::ChainError, keeper::DocumentError};
use svc_agent_peers::TermsFileError;
use svc_agent_store::AgentStoreError;
use svc_kit::supervision::SupervisorError;
use svc_net::{fetch::HttpClientError, upstream::UpstreamError};

use super::older_log::OtherPublicLog;

/// An agent that did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentBootError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] AgentStoreError),
    /// The document cannot be loaded or made.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The store is older than the version that was published last: a restored backup would publish a second history.
    #[error(
        "the store is older than the head file: it ends with version {stored}, and {published} was published. Use the newest copy of \
         the store, or continue the published log with `svc agent recover`"
    )]
    OlderStore {
        /// Newest version of the store.
        stored: String,
        /// Version that was published last.
        published: String,
    },
    /// The log at the public URL is not the store's.
    #[error(transparent)]
    PublicLog(#[from] OtherPublicLog),
    /// The chain cannot be used.
    #[error(transparent)]
    Chain(Arc<ChainError>),
    /// The file of the conditions of access cannot be used.
    #[error("ENDPOINT_ACCESS_FILE: {0}")]
    AccessFile(#[from] TermsFileError),
    /// The origins of the indexer cannot be used.
    #[error(transparent)]
    Indexer(#[from] UpstreamError),
    /// The client for documents of others cannot be made.
    #[error(transparent)]
    Fetcher(#[from] HttpClientError),
    /// The actors did not start.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
}
