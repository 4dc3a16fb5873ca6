//! The changes that follow from a decision about peers.

use super::PeerEvent;

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
}
