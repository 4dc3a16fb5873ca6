//! Clients of the servers a system depends on: one connection pool, a limit and a breaker per upstream; every request has a
//! span, metrics and the caller's trace context.

mod breaker;
mod endpoints;
mod http_client;
mod node;

pub use breaker::Breaker;
pub use endpoints::{Endpoints, NoAnswer, Origins, Reach};
pub(crate) use http_client::innermost;
pub use http_client::{Answer, Kind, Upstream, UpstreamError};
pub use node::{BroadcastOutcome, NodeClient, NodeError};
