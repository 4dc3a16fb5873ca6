//! Callers and their rights: tokens, principals, secrets, and clients without a token.

pub(in crate::e2e) mod front_door;
pub(in crate::e2e) mod oauth;
pub(in crate::e2e) mod peer_issuer;
pub(in crate::e2e) mod principals;
pub(in crate::e2e) mod secrets;
