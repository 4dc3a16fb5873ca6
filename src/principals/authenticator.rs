//! The order in which verifiers are asked for the principal of a token.

use std::sync::Arc;

use async_trait::async_trait;
use svc_wire::secret::SecretString;

use super::principal::Principal;

/// Finds the principal of a token.
#[async_trait]
pub trait TokenVerifier: Send + Sync {
    /// Judges a token.
    async fn verify(&self, token: &SecretString) -> TokenVerdict;
}

/// The judgement of a token.
#[derive(Debug, Clone)]
pub enum TokenVerdict {
    /// It belongs to this principal.
    Accepted(Arc<Principal>),
    /// This verifier does not know it.
    Unknown,
    /// This verifier knows its kind, and it is not valid.
    Rejected(TokenRejection),
}

/// The reason for which a token is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRejection {
    /// It is malformed, expired, of another issuer or audience, or its signature does not match.
    #[error("{0}")]
    Invalid(String),
    /// It is valid, and none of its scopes is that of a principal.
    #[error("the token has none of the scopes {0}")]
    InsufficientScope(String),
    /// Its issuer cannot be asked for its keys now.
    #[error("the keys of the issuer cannot be read now: {0}")]
    Unavailable(String),
}

/// Asks several verifiers.
#[derive(Clone)]
pub struct Authenticator(Arc<[Arc<dyn TokenVerifier>]>);

impl Authenticator {
    /// Asks the verifiers in this order.
    pub fn new(verifiers: impl IntoIterator<Item = Arc<dyn TokenVerifier>>) -> Self {
        Self(verifiers.into_iter().collect())
    }

    /// The verdict of the first verifier that knows the token.
    pub async fn verify(&self, token: &SecretString) -> TokenVerdict {
        for verifier in self.0.iter() {
            match verifier.verify(token).await {
                TokenVerdict::Unknown => {}
                verdict => return verdict,
            }
        }
        TokenVerdict::Unknown
    }
}
