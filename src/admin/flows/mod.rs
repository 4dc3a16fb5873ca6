//! Flows with peers.

pub(super) mod bodies;
pub(super) mod requests;
