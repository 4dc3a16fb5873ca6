//! Verification of the log of a did:webvh DID.
//!
//! The `didwebvh-rs` crate verifies hashes, keys, proofs, times and witnesses. This module adds limits of its work, the check that
//! hashes and proofs cover every member of an entry, and the rules of didwebvh 1.0 that the crate does not enforce.

mod entry_checks;
mod error;
mod log;
mod witness_checks;

pub(super) use error::DidLogError;
pub(super) use log::{DidLog, VerifiedDocument};
