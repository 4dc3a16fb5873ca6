//! The DID: its service entries, keys and credentials, the steps to a trusted DID, and logins to its admin API.

pub(super) mod credential_bodies;
pub(super) mod credentials;
pub(super) mod key_bodies;
pub(super) mod keys;
pub(super) mod login;
pub(super) mod service_endpoints;
pub(super) mod setup;
