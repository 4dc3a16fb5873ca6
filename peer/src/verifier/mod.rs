//! The side of an endpoint: tokens and presentations that peers call it with.
//!
//! [`TokenVerifier`] takes the tokens of one agent, [`PresentationVerifier`] credentials that peers present by themselves. Both read their
//! evidence at the servers of the DIDs, keep it for a while, and let no caller make them read often.

mod issuer_reader;
mod presentations;
mod registry_reads;
mod tokens;

pub use self::{
    presentations::{PresentationRules, PresentationVerifier, PresentedBy},
    tokens::{TokenRejection, TokenVerifier},
};
pub use svc_trust::access::{AccessClaims, AccessRejection, AccessToken};
