//! The verifier of tokens of one agent, for one endpoint.

use svc_net::{fetch::HttpClientError, host_policy::HostPolicy};
use svc_trust::access::{AccessClaims, AccessRejection, AccessRules, AccessToken};

use super::issuer_reader::{IssuerEvidence, IssuerReader};

/// A token that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRejection {
    /// It is not valid here: 401, with one text for every reason.
    #[error("the token is not valid for this endpoint ({})", .0.as_str())]
    Invalid(AccessRejection),
    /// The document of the issuer, or the list of its revoked grants, is not to be had: 503.
    #[error("nothing can be said about tokens now: {0}")]
    Unavailable(String),
}

impl From<AccessRejection> for TokenRejection {
    fn from(rejection: AccessRejection) -> Self {
        Self::Invalid(rejection)
    }
}

/// Verifies tokens. Clones share the evidence.
#[derive(Clone)]
pub struct TokenVerifier {
    issuer: String,
    audience: String,
    evidence: IssuerReader,
}

impl TokenVerifier {
    /// A verifier without keys; they are read with the first token. `audience` is the URL of the endpoint in the document of the agent, byte
    /// for byte.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(issuer: &str, audience: &str, hosts: HostPolicy) -> Result<Self, HttpClientError> {
        let evidence = IssuerReader::new(issuer.to_owned(), hosts)?;
        Ok(Self { issuer: issuer.to_owned(), audience: audience.to_owned(), evidence })
    }

    /// Verifies a token at a time, in seconds since the epoch. A scope that `knows_scope` does not know makes it invalid.
    ///
    /// # Errors
    /// Every [`TokenRejection`].
    pub async fn verify(
        &self,
        token: &AccessToken,
        knows_scope: &(dyn Fn(&str) -> bool + Sync),
        now: i64,
    ) -> Result<AccessClaims, TokenRejection> {
        token.check_issuer(&self.issuer)?;
        let mut evidence = self.evidence.read(now).await.map_err(TokenRejection::Unavailable)?;
        // A key that was just published is in a newer document.
        if !token.has_key_in(&evidence.document, now)
            && let Some(newer) = self.evidence.read_for_unknown_key(now).await
        {
            evidence = newer;
        }
        let IssuerEvidence { document, revoked, .. } = evidence;
        let rules = AccessRules { issuer: &self.issuer, audience: &self.audience, knows_scope: &knows_scope };
        Ok(token.verify(&rules, &document, &revoked, now)?)
    }

    /// Whether claims that were verified are valid still, as far as the lists that were read say.
    pub async fn is_live(&self, claims: &AccessClaims, now: i64) -> bool {
        if claims.expires_at <= now {
            return false;
        }
        match self.evidence.read(now).await {
            Ok(evidence) => !evidence.revoked.has(&claims.id) && claims.issued_at >= evidence.revoked.valid_from,
            // Without a list nothing is served either.
            Err(_) => false,
        }
    }
}
