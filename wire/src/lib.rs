//! The formats that the svc systems exchange, as pure code.
//!
//! - `proto`, `proto_registry`: protobuf types of every message, and a registry over their descriptors that encodes from JSON
//!   and decodes to JSON under the package names of any network.
//! - `account_key`, `address`, `adr036`: keys, bech32 addresses, off-chain signatures.
//! - `tx`, `comet_rpc`, `chain_error`: transactions, the JSON of a CometBFT node, the classes of chain failures.
//! - `indexer_reads`, `event_stream`, `trust_stream`, `participant_state`: the JSON of the indexer; `block_subscription`: a subscriber's
//!   side of its stream.
//! - `endpoint_access`: the words, documents and lists of access to the endpoints of a DID.
//! - `error_envelope`: the error of every tool call.
//! - `timestamp`, `syntax`, `strict_json`, `secret`, `verification_method`: values inside of all of these.
//!
//! This crate is not a client. It opens no connection, reads no clock and has no async function. It checks the form of a
//! message; the rules of the ledger are those of the chain.
//!
//! ```
//! use serde_json::json;
//! use svc_wire::{
//!     account_key::AccountKey,
//!     proto_registry::{Namespace, ProtoRegistry},
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The package names of a network begin with its own word; the descriptors are renamed to it.
//! let registry = ProtoRegistry::compiled(&Namespace::new("acme")?)?;
//! let operator = AccountKey::from_bytes(&[1; 32])?.public_key().address("acme")?;
//!
//! let url = registry.namespace().type_url("ec", "MsgArchiveEcosystem");
//! let bytes = registry.encode(&url, &json!({"operator": operator.as_str(), "id": 7, "archive": true}))?;
//!
//! assert_eq!(registry.signers(&url, &bytes)?, [operator.as_str()]);
//! assert_eq!(registry.decode(&url, &bytes)?["id"], "7");
//! # Ok(())
//! # }
//! ```

mod account;
mod chain;
mod indexer;
mod values;

pub mod endpoint_access;
pub mod error_envelope;
pub mod proto_registry;

pub use account::{account_key, address, adr036};
pub use chain::{absence, chain_error, comet_rpc, tx};
pub use indexer::{block_subscription, event_stream, index_identity, indexer_reads, participant_state, trust_stream};
use values::amino_json;
pub use values::{secret, strict_json, syntax, timestamp, verification_method};

/// Rust types of every message, one module per protobuf package (`proto::svc::ec::v1`, `proto::cosmos::tx::v1beta1`, …).
///
/// The compiled-in package names begin with `svc`. No name travels inside a message, so these types serve any namespace.
/// Type URLs do travel: take them from [`proto_registry::ProtoRegistry`] or [`proto_registry::Namespace`].
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/_mod.rs"));
}
