//! Access tokens of an OAuth 2.1 issuer: the server is a protected resource, as the MCP specification describes it.

mod access_token;
mod issuer_keys;
mod key_set;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use svc_kit::wall_clock;
use svc_net::host_policy::HostPolicy;
use svc_wire::secret::SecretString;
use url::Url;

use super::{
    authenticator::{TokenRejection, TokenVerdict, TokenVerifier},
    directory::PrincipalDirectory,
};
use access_token::TokenHead;
use issuer_keys::IssuerKeys;

/// The issuer, and this server as its tokens name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OauthConfig {
    /// URL of the issuer, as in `iss`.
    pub issuer: Url,
    /// URL of the MCP endpoint, as in `aud`.
    pub audience: Url,
    /// Hosts that may be asked for keys.
    pub hosts: HostPolicy,
}

/// Verifies access tokens, and finds their principals by scope.
pub struct OauthVerifier {
    config: OauthConfig,
    directory: Arc<PrincipalDirectory>,
    keys: IssuerKeys,
}

impl OauthVerifier {
    /// A verifier without keys; they are read with the first token. Fails when the HTTP client cannot be built.
    pub fn new(config: OauthConfig, directory: Arc<PrincipalDirectory>) -> anyhow::Result<Arc<Self>> {
        let keys = IssuerKeys::new(config.issuer.clone(), config.hosts)?;
        Ok(Arc::new(Self { config, directory, keys }))
    }

    /// The metadata of the protected resource (RFC 9728).
    pub fn resource_metadata(&self) -> Value {
        json!({
            "resource": self.config.audience.as_str(),
            "authorization_servers": [issuer_text(&self.config.issuer)],
            "scopes_supported": self.directory.scopes(),
            "bearer_methods_supported": ["header"],
            "resource_name": "svc operator tool server",
        })
    }

    /// URL of the metadata, for the header `WWW-Authenticate`.
    pub fn metadata_url(&self) -> String {
        let path = self.config.audience.path().trim_end_matches('/');
        format!("{}/.well-known/oauth-protected-resource{path}", self.config.audience.origin().ascii_serialization())
    }

    async fn judge(&self, token: &str, head: &TokenHead) -> Result<TokenVerdict, TokenRejection> {
        let key = self.keys.find(head).await?;
        let claims = access_token::verify(token, head, &key, &self.config, wall_clock::now().seconds)?;
        let scopes: Vec<&str> = claims.scopes.iter().map(String::as_str).collect();
        let principal = self.directory.find_by_scope(&scopes).map_err(TokenRejection::InsufficientScope)?;
        Ok(TokenVerdict::Accepted(Arc::new(principal.for_subject(&claims.subject))))
    }
}

#[async_trait]
impl TokenVerifier for OauthVerifier {
    async fn verify(&self, token: &SecretString) -> TokenVerdict {
        let token = token.expose_secret();
        let head = match access_token::read_head(token) {
            Ok(Some(head)) => head,
            Ok(None) => return TokenVerdict::Unknown,
            Err(rejection) => return TokenVerdict::Rejected(rejection),
        };
        self.judge(token, &head).await.unwrap_or_else(TokenVerdict::Rejected)
    }
}

/// An issuer as it is compared: without the slash that a URL of a bare origin ends with.
fn issuer_text(issuer: &Url) -> &str {
    issuer.as_str().trim_end_matches('/')
}
