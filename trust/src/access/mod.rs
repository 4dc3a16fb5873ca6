//! Tokens of peers: made by the agent that owns an endpoint, or presentations that a peer makes by itself. Every check of endpoint-access/1,
//! in its order.
//!
//! The caller reads the text ([`AccessToken::read`], [`AccessPresentation::read`]), fetches the document of the DID that it names, and
//! verifies. All rejections have one text for the outside; their reasons are for telemetry.

mod compact_jws;
mod presentation;
#[cfg(test)]
mod tests;
mod token;

pub use self::{
    compact_jws::AccessRejection,
    presentation::{AccessPresentation, PresentedCredential, SeenPresentations, sign_access_presentation},
    token::{AccessClaims, AccessRules, AccessToken, access_jwk, sign_access_token},
};

/// Seconds that two clocks may differ.
pub const LEEWAY_SECONDS: i64 = 30;
