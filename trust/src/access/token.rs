//! Access tokens of an agent for its peers: JWTs of RFC 9068, signed by a key that delegates access and signs nothing else.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use svc_wire::{
    endpoint_access::{MAX_TOKEN_SECONDS, RevocationList, scope_list, scope_text},
    verification_method::{KeyRelation, did_of_url},
};

use super::{
    LEEWAY_SECONDS,
    compact_jws::{AccessRejection, CompactJws, sign},
};

const TOKEN_TYPE: &str = "at+jwt";

/// The claims of a token. Times are in seconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessClaims {
    /// DID of the agent.
    pub issuer: String,
    /// DID of the peer.
    pub subject: String,
    /// URL of the endpoint.
    pub audience: String,
    /// DID URL of its service entry.
    pub endpoint: String,
    /// The scopes.
    pub scopes: Vec<String>,
    /// Begin.
    pub issued_at: i64,
    /// End.
    pub expires_at: i64,
    /// Id of the grant.
    pub id: String,
}

/// Makes a token. `key_id` is the DID URL of a method under `capabilityDelegation` of the issuer's document.
pub fn sign_access_token(claims: &AccessClaims, key_id: &str, key: &SigningKey) -> String {
    let claims = json!({
        "iss": claims.issuer,
        "sub": claims.subject,
        "client_id": claims.subject,
        "aud": claims.audience,
        "endpoint": claims.endpoint,
        "scope": scope_text(&claims.scopes),
        "iat": claims.issued_at,
        "nbf": claims.issued_at,
        "exp": claims.expires_at,
        "jti": claims.id,
    });
    sign(TOKEN_TYPE, key_id, &claims, key)
}

/// Returns a public key of tokens as a member of a JWKS (RFC 8037).
pub fn access_jwk(key_id: &str, key: &[u8; 32]) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "kid": key_id, "use": "sig", "alg": "EdDSA", "x": BASE64_URL_SAFE_NO_PAD.encode(key)})
}

/// The conditions that an endpoint accepts tokens on.
pub struct AccessRules<'a> {
    /// DID of the agent whose tokens are accepted.
    pub issuer: &'a str,
    /// URL of the endpoint, byte for byte.
    pub audience: &'a str,
    /// Whether the endpoint knows a scope.
    pub knows_scope: &'a (dyn Fn(&str) -> bool + Sync),
}

/// A token whose form was checked, and nothing else.
#[derive(Debug, Clone)]
pub struct AccessToken(CompactJws);

impl AccessToken {
    /// Reads a token.
    pub fn read(text: &str) -> Result<Self, AccessRejection> {
        CompactJws::read(text, TOKEN_TYPE).map(Self)
    }

    /// Checks that it claims to be of an issuer, whose document is not needed otherwise.
    pub fn check_issuer(&self, issuer: &str) -> Result<(), AccessRejection> {
        let is_issuer = self.0.signer() == issuer && self.0.text("iss") == Some(issuer);
        if is_issuer { Ok(()) } else { Err(AccessRejection::Issuer) }
    }

    /// Whether the document of the issuer has the token's key. One that was just added is in a newer document.
    pub fn has_key_in(&self, document: &Value, now: i64) -> bool {
        self.0.key(document, KeyRelation::CapabilityDelegation, now).is_ok()
    }

    /// Verifies the token by the document of its issuer and the grants that the issuer has revoked. `now` is in seconds since the epoch.
    pub fn verify(
        &self,
        rules: &AccessRules<'_>,
        document: &Value,
        revoked: &RevocationList,
        now: i64,
    ) -> Result<AccessClaims, AccessRejection> {
        self.check_issuer(rules.issuer)?;
        let key = self.0.key(document, KeyRelation::CapabilityDelegation, now)?;
        self.0.verify(&key)?;
        let token = &self.0;
        if token.text("aud") != Some(rules.audience) {
            return Err(AccessRejection::Audience);
        }
        let not_before = token.claims.get("nbf").and_then(Value::as_i64).ok_or(AccessRejection::Time)?;
        let (issued_at, expires_at) = token.check_times(MAX_TOKEN_SECONDS, now)?;
        if not_before > now + LEEWAY_SECONDS {
            return Err(AccessRejection::Time);
        }
        if issued_at < revoked.valid_from {
            return Err(AccessRejection::Void);
        }
        let id = token.text("jti").filter(|id| !id.is_empty()).ok_or(AccessRejection::Claims)?;
        if revoked.issuer != rules.issuer || revoked.has(id) {
            return Err(AccessRejection::Revoked);
        }
        let subject = token.text("sub").filter(|subject| is_public_did(subject)).ok_or(AccessRejection::Subject)?;
        if token.text("client_id") != Some(subject) {
            return Err(AccessRejection::Subject);
        }
        let scopes = token.text("scope").and_then(scope_list).ok_or(AccessRejection::Scope)?;
        if !scopes.iter().all(|scope| (rules.knows_scope)(scope)) {
            return Err(AccessRejection::Scope);
        }
        let endpoint = token.text("endpoint").filter(|endpoint| did_of_url(endpoint) == rules.issuer);
        Ok(AccessClaims {
            issuer: rules.issuer.to_owned(),
            subject: subject.to_owned(),
            audience: rules.audience.to_owned(),
            endpoint: endpoint.ok_or(AccessRejection::Claims)?.to_owned(),
            scopes,
            issued_at,
            expires_at,
            id: id.to_owned(),
        })
    }
}

/// Whether a text is a DID that a registry can show as a verifiable service, without a path, query or fragment.
fn is_public_did(text: &str) -> bool {
    let is_method = text.starts_with("did:web:") || text.starts_with("did:webvh:");
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
    is_method && text.len() <= 2048 && text.bytes().all(is_allowed)
}
