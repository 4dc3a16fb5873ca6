//! The identity of an agent: its DID Document, its keys and their rotation, logins, its account on the chain, and the credentials that the
//! DID holds and issues.
//!
//! This crate is no API: it is a part of `svc-agent`, which names all that a program may use.

pub mod account_write;
pub mod chain_link;
pub mod credential_settings;
pub mod credentials;
pub mod document;
pub mod grant;
mod identity;
pub mod keeper;
pub mod log;
pub mod registry;
pub mod resolution;
pub mod rotation;
pub mod setup;
pub mod token;

pub use identity::{DidMethod, PublicLocation};
