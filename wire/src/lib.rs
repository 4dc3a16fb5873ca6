//! What the svc systems speak, as pure code: protobuf types and a schema registry over their descriptors, transactions and
//! keys, CometBFT and indexer JSON, and the one error envelope. Nothing here does I/O, reads a clock or is async.

pub mod account;
pub mod adr036;
pub mod chain_error;
pub mod comet;
pub mod envelope;
pub mod event;
pub mod instant;
pub mod key;
pub mod reads;
pub mod schema;
pub mod secret;
pub mod syntax;
pub mod trust;
pub mod tx;

/// Rust types of every message, one module per protobuf package (`proto::svc::ec::v1`, `proto::cosmos::tx::v1beta1`, …).
///
/// The compiled-in package word is `svc`; names never travel inside a message, so these types serve any namespace. Type
/// URLs do travel: take them from [`schema::Registry`] or [`schema::Namespace`].
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/_mod.rs"));
}
