//! DIDComm v2 as the agents of this registry speak it.
//!
//! - [`envelope`]: encrypted messages, and every check of their sender and recipient.
//! - [`peer_did`], [`from_prior`], [`connection`]: DIDs that change, and the peer that stays.
//! - [`protocol`]: the messages by type.
//! - [`access`]: access to endpoints, asked for and granted.
//! - [`flow`]: participants that are validated, and credentials that are issued.
//! - [`json_shape`]: bounds of JSON.
//! - [`delivery`]: results of sending, and repetitions.
//!
//! The crate opens no connection and reads no clock: resolved documents, keys and the time are arguments.

pub mod access;
pub mod connection;
pub mod delivery;
pub mod endpoint;
pub mod envelope;
pub mod flow;
pub mod from_prior;
pub mod json_shape;
pub mod limits;
pub mod message;
pub mod peer_did;
pub mod protocol;
mod refusal;
mod small_order;

pub use message::Message;
pub use refusal::Refusal;

#[cfg(test)]
mod tests;
