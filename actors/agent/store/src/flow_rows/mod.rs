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

pub use self::hearing::{Heard, HeardMessage, hear};
pub use self::records::FlowFilter;
pub use self::{
    contents::{ContentKind, FlowContent},
    records::FlowAtTime,
    writes::{FlowRefusal, FlowWrite, FlowWriteError, WrittenFlow},
};
