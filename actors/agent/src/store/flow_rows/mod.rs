//! Flows in the store.
//!
//! A change of a flow is one transaction: its record, the messages to its peer in the outbox, its webhooks, and its
//! credentials.

mod contents;
mod hearing;
mod records;
#[cfg(test)]
mod tests;
mod writes;

pub(crate) use self::hearing::RequestedFlow;
