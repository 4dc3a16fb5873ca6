//! HTTP clients of the servers that a system depends on. Each upstream has one connection pool, a limit of concurrent requests and
//! a circuit breaker; each request has a span, metrics and the caller's trace context.

mod block_clock;
mod circuit_breaker;
mod descriptors;
mod endpoints;
mod http_client;
mod indexer_guard;
mod indexer_reads;
mod mempool_errors;
mod node_client;
mod node_dispute;
mod node_selection;
mod pruning;
mod upstream_error;
mod whole_lists;

pub use block_clock::{BlockClock, BlockHead, MAX_LEAD, MAX_UNCONFIRMED};
pub use descriptors::{NodeDescriptors, NodeDescriptorsError, query_address_prefix, read_node_descriptors};
pub use endpoints::{EndpointReach, FailoverError, UpstreamEndpoints, UpstreamOrigins};
pub use http_client::HttpUpstream;
pub(crate) use http_client::innermost_cause;
pub use indexer_guard::{IndexReport, IndexerGuard};
pub use indexer_reads::{
    find_better_indexer, indexer_reach, not_indexed_below, read_event_page, read_indexed_height, select_indexer,
};
pub use node_client::{BroadcastOutcome, NodeClient, NodeClientError};
pub use node_dispute::HistoryDispute;
pub use node_selection::ConfirmedHeight;
pub use pruning::KeptPart;
pub use upstream_error::{JsonDocument, UpstreamError, UpstreamKind, UpstreamResponse};
pub use whole_lists::{CutList, LIST_LIMIT, require_whole};
