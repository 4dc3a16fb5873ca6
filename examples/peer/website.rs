//! A website for peers: one page for those with a token of the agent, one for those that hold a credential.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use svc_peer::verifier::{AccessToken, PresentationVerifier, TokenRejection, TokenVerifier};

/// The scope that a token for the page needs.
const SCOPE: &str = "read";

/// The verifiers of the pages.
pub struct Website {
    /// Of `/read`.
    pub tokens: TokenVerifier,
    /// Of `/members`.
    pub members: Option<PresentationVerifier>,
}

/// The pages.
pub fn router(site: Arc<Website>) -> Router {
    Router::new().route("/read", get(read)).route("/members", get(members)).with_state(site)
}

/// Greets a peer by its DID.
async fn read(State(site): State<Arc<Website>>, headers: HeaderMap) -> Response {
    let verified = async {
        let token = AccessToken::read(bearer(&headers)?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        site.tokens.verify(&token, &|scope| scope == SCOPE, now).await
    };
    match verified.await {
        Ok(claims) if claims.scopes.iter().any(|scope| scope == SCOPE) => {
            format!("hello {}\n", claims.subject).into_response()
        }
        Ok(_) => StatusCode::FORBIDDEN.into_response(),
        Err(rejection) => refuse(&rejection),
    }
}

/// Greets the holder of the credential.
async fn members(State(site): State<Arc<Website>>, headers: HeaderMap) -> Response {
    let Some(verifier) = &site.members else { return StatusCode::NOT_FOUND.into_response() };
    let verified = async { verifier.verify(bearer(&headers)?).await };
    match verified.await {
        Ok(member) => format!("hello member {}\n", member.did).into_response(),
        Err(rejection) => refuse(&rejection),
    }
}

/// The text of the header; an empty one is no token.
fn bearer(headers: &HeaderMap) -> Result<&str, TokenRejection> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    Ok(header.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default())
}

/// One answer for every token that is not valid: the reason would tell a forger how far it has come.
fn refuse(rejection: &TokenRejection) -> Response {
    match rejection {
        TokenRejection::Invalid(_) => {
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")]).into_response()
        }
        TokenRejection::Unavailable(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")]).into_response()
        }
    }
}
