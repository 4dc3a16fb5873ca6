//! Follows the node: owns the place up to which the chain has been taken in, takes each block once and in order.
//!
//! It learns of new heights from the node's WebSocket and, should that be silent or down, from a periodic look at the status.
//! Blocks are fetched in parallel and written one after the other. When it dies, the next incarnation continues from the
//! store's checkpoint; what was half done is done again, and writing a block twice changes nothing.

mod actor;
mod core;
mod reading;
mod start;

pub use actor::{Args, Follower, Msg};
pub use reading::{Reading, Source};
pub use start::discover;

/// What the follower says of itself.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FollowerState {
    /// Newest height written.
    pub committed: u64,
    /// Newest height the node is known to have.
    pub tip: u64,
    /// Why the last attempt failed, until one succeeds.
    pub last_error: Option<LastError>,
}

/// A failure as anybody may see it; the log has the rest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LastError {
    /// Which block, and what failed.
    pub message: String,
    /// When, ISO-8601 UTC.
    pub timestamp: String,
}
