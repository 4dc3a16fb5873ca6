//! Peers in the store: connections, messages that still go out, messages that were handled, and the records that callers see.
//!
//! A message of a peer, its memory against repetition, its record, its answer in the outbox and its webhook are one transaction.

mod arrival;
mod connections;
mod exchanges;
mod numbers;
mod outbound;
mod outbox_turn;
mod records;
mod seen;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
mod types;

pub use self::{
    arrival::{ArrivedMessage, FlowPart, TakenMessage},
    outbound::QueueRefusal,
    outbox_turn::{MessageRoute, QueuedMessage, SentMessage},
};
pub(super) use self::{
    connections::Conditions,
    outbound::{add_to_outbox, drop_openings, queue_message, queued_for, why_refused},
};
