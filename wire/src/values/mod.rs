//! Values inside of messages: instants, patterns of texts, secrets.

pub(crate) mod amino_json;
pub mod secret;
pub mod strict_json;
pub mod syntax;
pub mod timestamp;
pub mod verification_method;
