//! What makes a DID trusted: proofs, credentials, schemas, the verdict. No I/O and no clock: what an evaluation needs to know
//! it asks for, and whoever runs it finds that out and asks again.

pub mod digest;
pub mod document;
pub mod essential;
mod linked_data;
pub mod proof;
mod reason;

pub use reason::{Code, Reason};
