//! Tokens of peers: an agent grants them to other verifiable services for the MCP entry of its DID (endpoint-access/1).
//!
//! A principal of such a token only reads: the tools of the registry's surfaces, as far as its scopes go. It never sees
//! tools for writes, own agents, the wallet, own resources or approvals.

mod rights;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use svc_kit::wall_clock;
use svc_net::host_policy::HostPolicy;
use svc_otel::metrics;
use svc_peer::verifier::{
    AccessClaims, AccessRejection, AccessToken, TokenRejection as PeerRejection, TokenVerifier as PeerTokens,
};
use svc_wire::secret::SecretString;

use self::rights::{knows_scope, rights_of};
use super::{
    authenticator::{TokenRejection, TokenVerdict, TokenVerifier},
    directory::PrincipalDirectory,
    principal::Principal,
};
use crate::tools::ToolNames;

/// The one text for every token that is not accepted.
const REJECTED: &str = "the token is not valid for this endpoint";
/// Peers whose newest token is remembered.
const MAX_PEERS: usize = 20_000;

/// The agent whose tokens are accepted, and this server as they name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerConfig {
    /// DID of the agent.
    pub issuer: String,
    /// URL of the MCP entry in its document, byte for byte.
    pub audience: String,
    /// Hosts that may be asked for the document and the lists.
    pub hosts: HostPolicy,
}

/// Verifies tokens of peers.
pub struct PeerVerifier {
    directory: Arc<PrincipalDirectory>,
    names: ToolNames,
    tokens: PeerTokens,
    /// Whether no other verifier knows tokens that are JWTs.
    is_only_one_for_jwts: bool,
    /// The newest token of each peer, by its id as a principal.
    newest: Mutex<HashMap<Arc<str>, AccessClaims>>,
}

impl PeerVerifier {
    /// A verifier without keys; they are read with the first token. Fails when the HTTP client cannot be built.
    pub fn new(
        config: PeerConfig,
        directory: Arc<PrincipalDirectory>,
        is_only_one_for_jwts: bool,
    ) -> anyhow::Result<Arc<Self>> {
        let tokens = PeerTokens::new(&config.issuer, &config.audience, config.hosts)?;
        let (names, newest) = (ToolNames::load()?, Mutex::default());
        Ok(Arc::new(Self { directory, names, tokens, is_only_one_for_jwts, newest }))
    }

    /// The principal of verified claims.
    fn principal(&self, claims: AccessClaims) -> Arc<Principal> {
        let row = self.directory.peers_row();
        let mut rights = rights_of(&claims.scopes, &self.names, row.as_ref().map(|row| &row.rights));
        rights.expires_at = Some(claims.expires_at);
        let id: Arc<str> = format!("peer:{}", claims.subject).into();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.len() >= MAX_PEERS {
            let now = wall_clock::now().seconds;
            newest.retain(|_, claims| claims.expires_at > now);
        }
        let is_newer = newest.get(&id).is_none_or(|known| known.expires_at <= claims.expires_at);
        if is_newer && newest.len() < MAX_PEERS {
            newest.insert(Arc::clone(&id), claims);
        }
        let generation = row.map_or(0, |row| row.generation);
        Arc::new(Principal { name: Arc::clone(&id), id, rights, generation })
    }

    /// Whether the newest token of a peer is still valid, as far as the lists that were read say. A peer without one is not.
    pub async fn is_live(&self, principal: &Principal) -> bool {
        let claims = self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(&principal.id).cloned();
        match claims {
            Some(claims) => self.tokens.is_live(&claims, wall_clock::now().seconds).await,
            None => false,
        }
    }
}

#[async_trait]
impl TokenVerifier for PeerVerifier {
    async fn verify(&self, token: &SecretString) -> TokenVerdict {
        let text = token.expose_secret();
        // A static token is no JWT.
        if text.matches('.').count() < 2 {
            return TokenVerdict::Unknown;
        }
        let judged = match AccessToken::read(text) {
            Ok(token) => {
                let knows = |scope: &str| knows_scope(scope, &self.names);
                self.tokens.verify(&token, &knows, wall_clock::now().seconds).await
            }
            Err(rejection) => Err(rejection.into()),
        };
        match judged {
            Ok(claims) => {
                metrics::record_peer_token("accepted");
                TokenVerdict::Accepted(self.principal(claims))
            }
            // It may be one of the OAuth issuer.
            Err(PeerRejection::Invalid(
                AccessRejection::Length | AccessRejection::Header | AccessRejection::Issuer,
            )) if !self.is_only_one_for_jwts => TokenVerdict::Unknown,
            Err(PeerRejection::Invalid(rejection)) => {
                metrics::record_peer_token(rejection.as_str());
                tracing::debug!(reason = rejection.as_str(), "a token of a peer is not accepted");
                TokenVerdict::Rejected(TokenRejection::Invalid(REJECTED.to_owned()))
            }
            Err(PeerRejection::Unavailable(reason)) => {
                metrics::record_peer_token("unavailable");
                TokenVerdict::Rejected(TokenRejection::Unavailable(reason))
            }
        }
    }
}
