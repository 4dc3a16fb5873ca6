//! Documents of other parties: DID Documents, credentials, presentations, and their digests.

pub mod credential;
pub mod did_document;
pub mod digest;
