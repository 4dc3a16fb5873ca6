//! Peers: conversations with them, the credentials that they offer, and access to endpoints.

pub(super) mod access;
pub(super) mod access_bodies;
pub(super) mod conversation_bodies;
pub(super) mod conversations;
pub(super) mod exchanges;
pub(super) mod resolution_bodies;
