//! The module cs: credential schemas, and the authorization policies of their issuers and verifiers.

pub mod policy;
mod schema;

pub use schema::{archive, create, update, update_params, validate_archive, validate_create, validate_update};
