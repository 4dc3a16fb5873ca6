//! The subscription of one corporation: every block of the indexer in order, with the events that match.
//!
//! Connect first, subscribe, buffer; drain REST from the last processed height; apply the buffer; then live. A block above the
//! next one means loss and starts a new drain. Duplicates are recognised by the whole key of an event, never by height alone.
//! The last processed height is retained by the tree, so a new incarnation catches up from there.

mod actor;
mod core;

pub use actor::{Args, Subscription};
use serde::Serialize;

/// Where a subscription is. Retained by the tree.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Position {
    /// Height up to which every event was delivered; `None` before the first connection.
    pub processed: Option<u64>,
    /// Whether blocks are coming in.
    pub is_live: bool,
    /// When the last message came, RFC 3339.
    pub last_event_at: Option<String>,
}
