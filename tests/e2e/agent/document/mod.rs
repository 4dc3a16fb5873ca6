//! The document of an agent: its files, its routes, its logins, and the events that follow a change.

pub(in crate::e2e) mod admin_description;
pub(in crate::e2e) mod admin_routes;
pub(in crate::e2e) mod events;
pub(in crate::e2e) mod log_recovery;
pub(in crate::e2e) mod login;
pub(in crate::e2e) mod older_names;
pub(in crate::e2e) mod public_files;
pub(in crate::e2e) mod resolution;
