//! Values inside of messages: instants, patterns of texts, secrets.

pub mod secret;
pub mod syntax;
pub mod timestamp;
