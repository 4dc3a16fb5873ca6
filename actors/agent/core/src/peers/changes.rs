//! The changes that follow from a decision about peers.

use super::PeerEvent;
use crate::access::StoredGrant;

/// The changes of a decision. They are written together, or none of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes<O> {
    /// Rows.
    pub rows: Vec<RowChange>,
    /// Events for the receiver.
    pub events: Vec<PeerEvent>,
    /// The end, for the caller.
    pub outcome: O,
}

impl<O> Changes<O> {
    /// An end without a change.
    pub fn none(outcome: O) -> Self {
        Self { rows: Vec::new(), events: Vec::new(), outcome }
    }
}

/// A change of rows. The store writes it by a guarded statement: where the rows are not as the decision has loaded them, nothing of the
/// decision is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowChange {
    /// A connection that has not ended, and that was not changed since it was loaded, ends.
    EndConnection {
        /// Its id.
        id: String,
        /// Its newest change when it was loaded, in milliseconds since the epoch.
        loaded_at: i64,
        /// The time of its end, in milliseconds since the epoch.
        at: i64,
    },
    /// A new grant, while the valid ones are as many as were counted, and the peer has none of the same request.
    InsertGrant {
        /// The grant.
        grant: Box<StoredGrant>,
        /// The time of the counting, in seconds since the epoch.
        counted_at: i64,
        /// Valid grants of the peer for the endpoint.
        of_peer: u64,
        /// All valid grants, at most `max_counted`.
        all: u64,
        /// Most valid grants that were counted.
        max_counted: u64,
    },
}
