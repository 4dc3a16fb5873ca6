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

/// Verifies an access token with a key set of its issuer, at a time in seconds since 1970. Returns subject and scopes.
///
/// # Errors
/// When the text is no token of the issuer for this audience, or none of the keys verifies it.
pub fn verify_access_token(
    token: &str,
    key_set: &[u8],
    config: &OauthConfig,
    now: i64,
) -> Result<(String, Vec<String>), TokenRejection> {
    let no_token = || TokenRejection::Invalid("no JSON Web Token".to_owned());
    let head = access_token::read_head(token)?.ok_or_else(no_token)?;
    let keys = key_set::read_key_set(key_set).map_err(TokenRejection::Unavailable)?;
    let no_key = || TokenRejection::Invalid("the issuer has no such key".to_owned());
    let key = key_set::find_key(&keys, &head).ok_or_else(no_key)?;
    let verified = access_token::verify(token, &head, &key, config, now)?;
    Ok((verified.subject, verified.scopes))
}

/// An issuer as it is compared: without the slash that a URL of a bare origin ends with.
fn issuer_text(issuer: &Url) -> &str {
    issuer.as_str().trim_end_matches('/')
}
