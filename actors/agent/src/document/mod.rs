//! The DID Document and the changes of its service entries. Pure.

mod did_document;
mod service_endpoint;
mod service_entry;
mod service_id;
#[cfg(test)]
mod tests;

pub use did_document::{DidDocument, DocumentKeys, MAX_DOCUMENT_BYTES};
pub use service_entry::{ServiceChange, ServiceEntry, ServiceUpdate};
pub use service_id::ServiceIdPath;
