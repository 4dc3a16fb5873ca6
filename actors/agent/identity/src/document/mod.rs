//! The DID Document and the changes of its service entries and keys. Pure.

mod access_entries;
mod did_document;
mod key_change;
mod older_keys;
mod service_endpoint;
mod service_entry;
mod service_id;
#[cfg(test)]
mod tests;

pub use access_entries::AccessEntries;
pub use did_document::{DidDocument, DocumentKeys, LINKED_PRESENTATION_TYPE, MAX_DOCUMENT_BYTES, ManagedEntries};
pub use key_change::KeyChange;
pub use older_keys::{plain_method, proof_suite, prover_for, shows_older_form};
pub use service_entry::{ServiceChange, ServiceEntry, ServiceUpdate};
pub use service_id::ServiceIdPath;
