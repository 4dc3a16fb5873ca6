//! The configuration of an indexer.

use std::time::Duration;

use svc_net::upstream::UpstreamOrigins;

use crate::trust::TrustConfig;

/// Configuration of an indexer.
#[derive(Debug, Clone)]
pub struct IndexerConfig {
    /// RPC origins of the nodes to follow: one is used, the others when it fails or has pruned a height.
    pub rpc: UpstreamOrigins,
    /// `sqlite::memory:`, `sqlite://path?mode=rwc`, or `postgres://user@host/database`.
    pub database: String,
    /// Time between blocks, which `ready` announces to subscribers; by default the median of the newest 100 blocks.
    pub block_interval: Option<Duration>,
    /// First height of an empty store; by default the oldest height of which a node has block and state.
    pub start_height: Option<u64>,
    /// Bytes that may wait for one subscriber.
    pub max_buffered_bytes: usize,
    /// Settings of the evaluation of trust.
    pub trust: TrustConfig,
}

impl IndexerConfig {
    /// Default of the bytes that may wait for one subscriber.
    pub const MAX_BUFFERED_BYTES: usize = 8 * 1024 * 1024;

    /// Creates the configuration for a node and a database, with defaults for all other settings.
    pub fn new(rpc: impl Into<UpstreamOrigins>, database: impl Into<String>) -> Self {
        Self {
            rpc: rpc.into(),
            database: database.into(),
            block_interval: None,
            start_height: None,
            max_buffered_bytes: Self::MAX_BUFFERED_BYTES,
            trust: TrustConfig::default(),
        }
    }
}
