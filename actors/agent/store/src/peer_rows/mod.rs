//! Peers in the store: connections, messages that still go out, messages that were handled, and the records that callers see.
//!
//! A message of a peer, its memory against repetition, its record, its answer in the outbox and its webhook are one transaction: see
//! `arrival.rs`.

pub(crate) mod connections;
pub(crate) mod exchanges;
mod numbers;
pub(crate) mod outbound;
mod outbox_turn;
pub(crate) mod records;
pub(crate) mod seen;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod types;

pub(super) use self::{
    connections::Conditions,
    outbound::{add_to_outbox, drop_openings, queue_message, queued_for, why_refused},
};
pub use self::{
    outbound::{QueueError, QueueRefusal},
    outbox_turn::{MessageRoute, QueuedMessage, SentMessage},
};
