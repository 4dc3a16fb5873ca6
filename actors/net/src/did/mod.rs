//! DID resolution: DID Documents are fetched, verified and cached.

mod cache;
mod did_log;
mod document;
mod error;
mod in_flight_requests;
#[cfg(test)]
mod log_builder;
mod resolver;
mod syntax;
mod version_memory;

pub use document::service_origin;
pub use error::DidError;
pub use resolver::{DidResolver, LARGE_LOG_LIMITS, check_own_document, verify_own_log};
pub use version_memory::VersionMemory;
