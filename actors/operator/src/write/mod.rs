//! A write of the corporation: from the tool's arguments to the receipt that names the indexer's height.
//!
//! `WriteRequest → EncodedMessage → (svc-pipeline) InFlightTx → WriteOutcome → WriteReceipt`.

pub mod active;
pub mod admission;
pub mod audit;
pub mod context;
pub mod execution;
pub mod grant;
pub mod receipt;
pub mod recorded;
pub mod recovery;
mod renewal_terms;
pub mod request;
pub mod stored_digest;
