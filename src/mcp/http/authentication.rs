//! The principal of a request: its bearer token is verified before anything else of it is looked at.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde_json::json;
use svc_net::listener::{ClientConnection, Refusal};
use svc_wire::secret::SecretString;
use tokio::time::Instant;

use super::json_response;
use crate::{
    listener::record_refusal,
    mcp::server::ToolServer,
    principals::{Authenticator, OauthVerifier, TokenRejection, TokenVerdict, WrongTokenThrottle},
};

/// The verifiers, and the server whose audit counts the requests without a valid token.
#[derive(Clone)]
pub(super) struct BearerGuard {
    pub authenticator: Authenticator,
    pub oauth: Option<Arc<OauthVerifier>>,
    /// Whether tokens of peers are accepted.
    pub has_peers: bool,
    pub server: Arc<ToolServer>,
    pub throttle: Arc<Mutex<WrongTokenThrottle>>,
}

/// Finds the principal of a request, or refuses it before any MCP handling.
pub(super) async fn authenticate(State(guard): State<BearerGuard>, mut request: Request, next: Next) -> Response {
    let connection = request.extensions().get::<ClientConnection>().cloned();
    let verdict = match bearer_token(request.headers()) {
        None => None,
        // No verdict yet: the connection makes room for others meanwhile.
        Some(token) => Some(held(connection.as_ref(), guard.authenticator.verify(&token)).await),
    };
    let rejection = match verdict {
        Some(TokenVerdict::Accepted(principal)) => {
            if let Some(connection) = connection {
                connection.trust();
            }
            request.extensions_mut().insert(principal);
            return next.run(request).await;
        }
        Some(TokenVerdict::Rejected(rejection)) => Some(rejection),
        Some(TokenVerdict::Unknown) => Some(TokenRejection::Invalid("the bearer token is not known".to_owned())),
        None => None,
    };
    if let Some(connection) = &connection {
        connection.doubt();
    }
    guard.server.operator().audit().count_unauthorized();
    let detail = rejection.as_ref().map_or_else(|| "no bearer token".to_owned(), ToString::to_string);
    record_refusal(&request, Refusal::Token, &detail);
    if let (Some(connection), Some(TokenRejection::Invalid(_))) = (&connection, &rejection) {
        let delay = guard.delay_for(connection);
        if !delay.is_zero() {
            connection.hold_back(delay).await;
        }
    }
    guard.refuse(rejection)
}

async fn held<T>(connection: Option<&ClientConnection>, work: impl Future<Output = T>) -> T {
    match connection {
        Some(connection) => connection.hold_during(work).await,
        None => work.await,
    }
}

impl BearerGuard {
    fn delay_for(&self, connection: &ClientConnection) -> Duration {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        // Behind a proxy one address is many clients, and a wrong token of one must not slow the others.
        connection.client_key().map_or(Duration::ZERO, |address| throttle.record(address, Instant::now()))
    }

    fn refuse(&self, rejection: Option<TokenRejection>) -> Response {
        let (status, error, message) = match &rejection {
            None => (StatusCode::UNAUTHORIZED, None, "a bearer token is required".to_owned()),
            // The static tokens have no details: to a guesser every wrong one is the same.
            Some(TokenRejection::Invalid(reason)) if self.oauth.is_some() || self.has_peers => {
                (StatusCode::UNAUTHORIZED, Some("invalid_token"), reason.clone())
            }
            Some(TokenRejection::Invalid(_)) => {
                (StatusCode::UNAUTHORIZED, None, "a bearer token is required".to_owned())
            }
            Some(TokenRejection::InsufficientScope(_)) => {
                let message = "the token has no scope that is a principal's".to_owned();
                (StatusCode::FORBIDDEN, Some("insufficient_scope"), message)
            }
            Some(TokenRejection::Unavailable(_)) => {
                let message = "the keys of the token's issuer cannot be read now".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, None, message)
            }
        };
        let name = if status == StatusCode::FORBIDDEN { "forbidden" } else { "unauthorized" };
        let mut response = json_response(status, &json!({"error": name, "message": message}));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
            return response;
        }
        let mut challenge = "Bearer".to_owned();
        let mut parameters = Vec::new();
        if let Some(error) = error {
            parameters.push(format!("error=\"{error}\""));
        }
        if let Some(TokenRejection::InsufficientScope(scopes)) = &rejection {
            parameters.push(format!("scope=\"{scopes}\""));
        }
        if let Some(oauth) = &self.oauth {
            parameters.push(format!("resource_metadata=\"{}\"", oauth.metadata_url()));
        }
        if !parameters.is_empty() {
            challenge = format!("{challenge} {}", parameters.join(", "));
        }
        let challenge = HeaderValue::from_str(&challenge).unwrap_or(HeaderValue::from_static("Bearer"));
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        response
    }
}

/// The token of the one authorization header; `None` for none, several, or another scheme.
fn bearer_token(headers: &HeaderMap) -> Option<SecretString> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| SecretString::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_in_the_one_authorization_header() {
        let token = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|value| {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            });
            bearer_token(&headers).map(|token| token.expose_secret().to_owned())
        };
        assert_eq!(token(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token(&["bearer abc"]).as_deref(), Some("abc"));
        for bad in [&[][..], &["Bearer"], &["Bearer "], &["Basic abc"], &["Bearer abc", "Bearer x"]] {
            assert_eq!(token(bad), None, "{bad:?}");
        }
    }
}
