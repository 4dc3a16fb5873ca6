//! Verification of the log of a did:webvh DID.
//!
//! The `didwebvh-rs` crate parses entries, follows their parameters, computes hashes and completes the document. The chain of the entries
//! and the approvals of the witnesses are verified here: the crate refuses every log of the registry's first agents, whose proofs name a
//! did:key without a fragment (decision 52). Limits of the work, and the check that hashes and proofs cover every member of an entry, are
//! of this module too.

mod entry_chain;
mod entry_checks;
mod error;
mod log;
mod proof_checks;
mod witness_checks;

pub(super) use error::DidLogError;
pub(super) use log::{DidLog, VerifiedDocument};
