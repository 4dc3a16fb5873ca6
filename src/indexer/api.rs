//! The state that the routes of the indexer share.

use std::sync::Arc;

use svc_indexer::{HubHandle, IndexReader, Indexer, TrustTopic};
use svc_net::listener::descriptor_budget;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The handles of one indexer, and the limits of its WebSockets.
#[derive(Clone)]
pub struct IndexerApi {
    pub(super) reader: IndexReader,
    pub(super) hub: HubHandle,
    pub(super) trust_hub: HubHandle<TrustTopic>,
    pub(super) block_connections: Arc<Semaphore>,
    pub(super) trust_connections: Arc<Semaphore>,
    pub(super) shutdown: CancellationToken,
}

/// WebSockets of one stream at once, by default. Each stream has its own limit.
const MAX_CONNECTIONS: usize = 10_000;

/// The limit where the process may open fewer files: both streams together leave a quarter of them for requests.
fn default_connection_limit() -> usize {
    MAX_CONNECTIONS.min(descriptor_budget() / 8 * 3)
}

impl IndexerApi {
    /// The API of an indexer, with the default limits.
    pub fn new(indexer: &Indexer) -> Self {
        let permits = || Arc::new(Semaphore::new(default_connection_limit()));
        Self {
            reader: indexer.reader.clone(),
            hub: indexer.hub.clone(),
            trust_hub: indexer.trust_hub.clone(),
            block_connections: permits(),
            trust_connections: permits(),
            shutdown: CancellationToken::new(),
        }
    }

    /// The same API with another source of verdicts.
    pub fn with_trust_hub(mut self, hub: HubHandle<TrustTopic>) -> Self {
        self.trust_hub = hub;
        self
    }

    /// The same API with another limit of WebSockets per stream.
    pub fn with_connection_limit(mut self, connections: usize) -> Self {
        self.block_connections = Arc::new(Semaphore::new(connections));
        self.trust_connections = Arc::new(Semaphore::new(connections));
        self
    }

    /// Stops the listener and closes every WebSocket when it is cancelled.
    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }
}
