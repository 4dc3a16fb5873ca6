//! Flows in the store.
//!
//! A change of a flow is one transaction: its record, the messages to its peer in the outbox, its webhooks, and its
//! credentials.

mod contents;
pub(crate) mod records;
#[cfg(test)]
mod tests;
mod writes;

pub use self::records::FlowFilter;
pub use self::{
    records::FlowAtTime,
    writes::{FlowRefusal, FlowWriteError, WrittenFlow, write_flows},
};
