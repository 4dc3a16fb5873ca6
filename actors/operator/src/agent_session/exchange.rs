//! What goes over the wire to an agent: finding it, logging in, asking.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_kit::{
    did::{DidResolver, service_origin},
    upstream::{Kind, Upstream, UpstreamError},
    wall,
};
use svc_wire::{instant, secret::Secret};
use tokio::time::Instant;

use super::{AgentError, AgentRequest, core::Outcome};
use crate::signer::SignerHandle;

/// Type of the admin API in a DID Document.
const ADMIN_API: &str = "VsAgentAdminAPI";
/// Longest time a token is kept, whatever it says of itself.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest nonce.
const MAX_NONCE: usize = 256;
/// How long the signer may take.
const SIGNING: Duration = Duration::from_secs(10);

/// A token, and the moment it ends.
pub struct Token {
    pub value: Secret,
    pub until: Instant,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Challenge {
    nonce: String,
    audience: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Granted {
    token: String,
    expires_at: String,
}

/// Origin of the agent's admin API, from its DID Document.
pub async fn find(resolver: &DidResolver, did: &str) -> Result<String, AgentError> {
    // An agent is looked up because what was known of it may have changed.
    let document = resolver.resolve_fresh(did).await.map_err(|error| AgentError::Resolution(error.to_string()))?;
    let origin = service_origin(&document, ADMIN_API).ok_or_else(|| {
        AgentError::NoAdminApi(format!("the DID Document of {did} has no service of type {ADMIN_API} with an origin"))
    })?;
    resolver
        .policy()
        .check(&origin)
        .map_err(|error| AgentError::NoAdminApi(format!("the admin API of {did}: {error}")))?;
    Ok(origin)
}

/// A client for the agent at an origin.
pub fn client(resolver: &DidResolver, origin: &str) -> Result<Upstream, AgentError> {
    Ok(Upstream::under(Kind::VsAgent, origin, resolver.policy())?)
}

/// Challenge, signature, token.
pub async fn log_in(agent: &Upstream, signer: &SignerHandle, account: &str) -> Result<Token, AgentError> {
    let refused = |reason: String| AgentError::Login { origin: agent.origin().to_owned(), reason };
    let told = |error: UpstreamError| match error {
        UpstreamError::Http { status: status @ 400..=499, body, .. } => {
            refused(format!("HTTP status {status}: {body}"))
        }
        other => AgentError::Upstream(other),
    };
    let answer = agent.post("challenge", "/v2/auth/challenge", &json!({"account": account})).await.map_err(told)?;
    let challenge: Challenge = agent.json(&answer)?;
    let payload = payload(&challenge, agent.origin()).map_err(refused)?;
    let signed = match signer.sign_login(payload, SIGNING).await {
        Ok(Some(signed)) => signed,
        Ok(None) => return Err(AgentError::Signer("the key failed".to_owned())),
        Err(error) => return Err(AgentError::Signer(error.to_string())),
    };
    let body = json!({
        "account": account, "pubKey": signed.public_key, "signature": signed.signature, "nonce": challenge.nonce,
    });
    let answer = agent.post("token", "/v2/auth/token", &body).await.map_err(told)?;
    // What an unexpected answer holds is not told: it may hold the token.
    let granted: Granted = serde_json::from_slice(&answer.body)
        .map_err(|_| agent.protocol_error("the answer to the login has no token and expiresAt", b""))?;
    let expires = instant::parse_rfc3339(&granted.expires_at)
        .ok_or_else(|| agent.protocol_error("expiresAt of the token is no RFC 3339 instant", b""))?;
    let left = instant::nanos(&expires) - instant::nanos(&wall::now());
    let left = Duration::from_nanos(u64::try_from(left.max(0)).unwrap_or(u64::MAX)).min(LONGEST);
    Ok(Token { value: Secret::new(granted.token), until: Instant::now() + left })
}

/// What is signed: bound to the agent's origin when the agent says so, and then only to this origin.
fn payload(challenge: &Challenge, origin: &str) -> Result<String, String> {
    // A nonce with a colon could make the two-part form read as another agent's three-part form.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if challenge.nonce.is_empty() || challenge.nonce.len() > MAX_NONCE || !challenge.nonce.bytes().all(is_plain) {
        return Err("its nonce is not base64url; nothing was signed".to_owned());
    }
    match &challenge.audience {
        None => Ok(format!("{LOGIN_PREFIX}{}", challenge.nonce)),
        Some(audience) if audience.trim_end_matches('/') == origin => {
            Ok(format!("{LOGIN_PREFIX}{audience}:{}", challenge.nonce))
        }
        Some(audience) => Err(format!("its challenge is for {audience:?}, not for {origin:?}; nothing was signed")),
    }
}

/// How every login payload begins. The signer signs nothing else off-chain.
pub const LOGIN_PREFIX: &str = "vs-agent-admin-auth:";

/// One request with a token.
pub async fn ask(agent: &Upstream, token: &Secret, request: AgentRequest) -> Outcome<Value> {
    let mut headers = HeaderMap::new();
    match HeaderValue::from_str(&format!("Bearer {}", token.expose())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Err(_) => return Outcome::TokenRefused,
    }
    let AgentRequest { method, operation, path, body } = request;
    // A request of unknown outcome is not repeated: the upstream client sends each once.
    let has_body = method != Method::GET && method != Method::DELETE;
    let body = if has_body { Some(body.unwrap_or_else(|| json!({}))) } else { None };
    match agent.send(method, operation, &path, headers, body.as_ref()).await {
        Ok(answer) if answer.body.is_empty() => Outcome::Answered(json!({})),
        Ok(answer) => match agent.json(&answer) {
            Ok(body) => Outcome::Answered(body),
            Err(error) => Outcome::Failed(error.into()),
        },
        Err(UpstreamError::Http { status: 401, .. }) => Outcome::TokenRefused,
        Err(UpstreamError::Http { status: 403, body, .. }) => {
            let (origin, reason) = (agent.origin().to_owned(), format!("HTTP status 403: {body}"));
            Outcome::Failed(AgentError::Login { origin, reason })
        }
        Err(error) => Outcome::Failed(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_bound_to_the_origin_the_agent_states_and_to_no_other() {
        let challenge = |audience: Option<&str>| Challenge { nonce: "n".into(), audience: audience.map(str::to_owned) };
        let origin = "https://agent.example.org";
        assert_eq!(payload(&challenge(None), origin).expect("two parts"), "vs-agent-admin-auth:n");
        let bound = payload(&challenge(Some(origin)), origin).expect("three parts");
        assert_eq!(bound, "vs-agent-admin-auth:https://agent.example.org:n");
        assert!(payload(&challenge(Some("https://other.example.org")), origin).is_err());
        for nonce in ["", "https://other.example.org:n", "n:m", "n=", &"n".repeat(257)] {
            let relayed = Challenge { nonce: nonce.to_owned(), audience: None };
            assert!(payload(&relayed, origin).is_err(), "{nonce}");
        }
    }
}
