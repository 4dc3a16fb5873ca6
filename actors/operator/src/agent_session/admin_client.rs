//! Requests to an agent: resolution, login, calls.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_kit::wall_clock;
use svc_net::{
    did::{DidResolver, service_origin},
    upstream::{HttpUpstream, UpstreamError, UpstreamKind},
};
use svc_wire::{secret::SecretString, timestamp};
use tokio::time::Instant;

use super::{AgentCallError, AgentRequest, Args, core::AgentResponse};

/// Type of the admin API in a DID Document.
const ADMIN_API_SERVICE_TYPE: &str = "VsAgentAdminAPI";
/// Longest use of a token, also if its stated lifetime is longer.
const MAX_TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest nonce.
const MAX_NONCE_BYTES: usize = 256;
/// Longest wait for the signature.
const SIGNING_TIMEOUT: Duration = Duration::from_secs(10);

/// A token and the end of its validity.
pub struct AgentToken {
    pub value: SecretString,
    pub valid_until: Instant,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoginChallenge {
    nonce: String,
    audience: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenGrant {
    token: String,
    expires_at: String,
}

/// Origin of the agent's admin API, from its DID Document.
pub async fn resolve_admin_url(resolver: &DidResolver, did: &str) -> Result<String, AgentCallError> {
    // The known endpoint may have changed, so that a cached document is no use.
    let document = resolver.resolve_fresh(did).await.map_err(|error| AgentCallError::Resolution(error.to_string()))?;
    let origin = service_origin(&document, ADMIN_API_SERVICE_TYPE).ok_or_else(|| {
        AgentCallError::NoAdminApi(format!(
            "the DID Document of {did} has no service of type {ADMIN_API_SERVICE_TYPE} with an origin"
        ))
    })?;
    resolver
        .policy()
        .check_url(&origin)
        .map_err(|error| AgentCallError::NoAdminApi(format!("the admin API of {did}: {error}")))?;
    Ok(origin)
}

/// A client for the agent at an origin.
pub fn open_client(resolver: &DidResolver, origin: &str) -> Result<HttpUpstream, AgentCallError> {
    Ok(HttpUpstream::with_policy(UpstreamKind::VsAgent, origin, resolver.policy())?)
}

/// Challenge, signature, token.
pub async fn log_in(agent: &HttpUpstream, args: &Args) -> Result<AgentToken, AgentCallError> {
    let (signer, account) = (&args.signer, args.account.as_str());
    let refused = |reason: String| AgentCallError::Login { origin: agent.origin().to_owned(), reason };
    let login_error = |error: UpstreamError| match error {
        UpstreamError::Http { status: status @ 400..=499, body, .. } => {
            refused(format!("HTTP status {status}: {body}"))
        }
        other => AgentCallError::Upstream(other),
    };
    let answer =
        agent.post("challenge", "/v2/auth/challenge", &json!({"account": account})).await.map_err(login_error)?;
    let challenge: LoginChallenge = agent.parse_json(&answer)?;
    let payload = login_payload(&challenge, agent.origin(), args.allows_unbound_login).map_err(refused)?;
    let signed = match signer.sign_text(payload, SIGNING_TIMEOUT).await {
        Ok(Some(signed)) => signed,
        Ok(None) => return Err(AgentCallError::Signer("the key failed".to_owned())),
        Err(error) => return Err(AgentCallError::Signer(error.to_string())),
    };
    let body = json!({
        "account": account, "pubKey": signed.public_key, "signature": signed.signature, "nonce": challenge.nonce,
    });
    let answer = agent.post("token", "/v2/auth/token", &body).await.map_err(login_error)?;
    // An unexpected answer may contain the token, so that the error does not quote it.
    let granted: TokenGrant = serde_json::from_slice(&answer.body)
        .map_err(|_| agent.protocol_error("the answer to the login has no token and expiresAt", b""))?;
    let expires = timestamp::parse_rfc3339(&granted.expires_at)
        .ok_or_else(|| agent.protocol_error("expiresAt of the token is no RFC 3339 instant", b""))?;
    let left = timestamp::unix_nanos(&expires) - timestamp::unix_nanos(&wall_clock::now());
    let left = Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX)).min(MAX_TOKEN_LIFETIME);
    Ok(AgentToken { value: SecretString::new(granted.token), valid_until: Instant::now() + left })
}

/// The text to sign. A challenge with an audience binds it to the agent's origin, and the audience must be that origin.
fn login_payload(challenge: &LoginChallenge, origin: &str, allows_unbound: bool) -> Result<String, String> {
    // A nonce with a colon could turn the two-part form into the three-part form of another agent.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if challenge.nonce.is_empty() || challenge.nonce.len() > MAX_NONCE_BYTES || !challenge.nonce.bytes().all(is_plain) {
        return Err("its nonce is not base64url; nothing was signed".to_owned());
    }
    match &challenge.audience {
        None if allows_unbound => Ok(format!("{LOGIN_PREFIX}{}", challenge.nonce)),
        None => {
            Err("its challenge names no audience, so that another server could use the signature; nothing was signed \
                     (SVC_VSA_UNBOUND_LOGINS allows it for a DID)"
                .to_owned())
        }
        Some(audience) if audience.trim_end_matches('/') == origin => {
            Ok(format!("{LOGIN_PREFIX}{audience}:{}", challenge.nonce))
        }
        Some(audience) => Err(format!("its challenge is for {audience:?}, not for {origin:?}; nothing was signed")),
    }
}

/// Prefix of every login payload. The signer signs no other text.
pub const LOGIN_PREFIX: &str = "vs-agent-admin-auth:";

/// One request with a token.
pub async fn send_request(agent: &HttpUpstream, token: &SecretString, request: AgentRequest) -> AgentResponse<Value> {
    let mut headers = HeaderMap::new();
    match HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Err(_) => return AgentResponse::TokenRefused,
    }
    let AgentRequest { method, operation, path, body } = request;
    // A request of unknown outcome is not repeated: the upstream client sends each once.
    let has_body = method != Method::GET && method != Method::DELETE;
    let body = if has_body { Some(body.unwrap_or_else(|| json!({}))) } else { None };
    match agent.send(method, operation, &path, headers, body.as_ref()).await {
        Ok(answer) if answer.body.is_empty() => AgentResponse::Answered(json!({})),
        Ok(answer) => match agent.parse_json(&answer) {
            Ok(body) => AgentResponse::Answered(body),
            Err(error) => AgentResponse::Failed(error.into()),
        },
        Err(UpstreamError::Http { status: 401, .. }) => AgentResponse::TokenRefused,
        Err(UpstreamError::Http { status: 403, body, .. }) => {
            let (origin, reason) = (agent.origin().to_owned(), format!("HTTP status 403: {body}"));
            AgentResponse::Failed(AgentCallError::Login { origin, reason })
        }
        Err(error) => AgentResponse::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_bound_to_the_origin_the_agent_states_and_to_no_other() {
        let challenge =
            |audience: Option<&str>| LoginChallenge { nonce: "n".into(), audience: audience.map(str::to_owned) };
        let origin = "https://agent.example.org";
        assert_eq!(login_payload(&challenge(None), origin, true).expect("two parts"), "vs-agent-admin-auth:n");
        assert!(login_payload(&challenge(None), origin, false).is_err(), "only where it is allowed");
        let bound = login_payload(&challenge(Some(origin)), origin, false).expect("three parts");
        assert_eq!(bound, "vs-agent-admin-auth:https://agent.example.org:n");
        assert!(login_payload(&challenge(Some("https://other.example.org")), origin, true).is_err());
        for nonce in ["", "https://other.example.org:n", "n:m", "n=", &"n".repeat(257)] {
            let relayed = LoginChallenge { nonce: nonce.to_owned(), audience: None };
            assert!(login_payload(&relayed, origin, true).is_err(), "{nonce}");
        }
    }
}
