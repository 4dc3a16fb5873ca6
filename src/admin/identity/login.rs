//! Logins: `POST /v2/auth/challenge` and `POST /v2/auth/token`.

use axum::{
    extract::{Request, State},
    response::Response,
};
use svc_agent::{AgentPart, LoginProof, Refusal, RefusalCode, TokenIssuerHandle};
use svc_kit::CallError;

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, iso_seconds, to_response},
        request::{BodyMembers, QueryParameters},
        schema::{BodyRefusals, Challenge, ChallengeRequest, ErrorBody, ReadRefusals, Token, TokenRequest},
    },
};

fn issuer(api: &AdminApi) -> Result<&TokenIssuerHandle, Refusal> {
    let message = "logins are served with ADMIN_API_AUTH_MODE=corporation only";
    api.agent.tokens().ok_or_else(|| Refusal::new(RefusalCode::UnknownId, message))
}

fn not_answered(error: CallError<Refusal>) -> Refusal {
    match error {
        CallError::Unanswered(error) => {
            Refusal::not_ready(AgentPart::Store, format!("logins do not work now: {error}"), 1)
        }
        CallError::Refused(refusal) => refusal,
    }
}

/// Makes a challenge for an account. Served with ADMIN_API_AUTH_MODE=corporation only.
#[utoipa::path(post, path = "/v2/auth/challenge", operation_id = "challenge", tag = "auth", security(()),
    request_body = ChallengeRequest, responses((status = 200, body = Challenge), ReadRefusals, BodyRefusals,
        (status = 404, body = ErrorBody, description = "UNKNOWN_ID: no logins are served")))]
pub(in crate::admin) async fn challenge(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Challenge> {
        let tokens = issuer(&api)?;
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read_login(request).await?;
        let account = members.require_text("account")?;
        members.finish("account")?;
        let made = tokens.challenge(account).await.map_err(not_answered)?;
        Ok(Challenge { nonce: made.nonce, expires_at: iso_seconds(made.expires_at), audience: made.audience })
    };
    to_response(answer().await)
}

/// Exchanges a signed challenge for a token. Every failure of a login is the same 401.
#[utoipa::path(post, path = "/v2/auth/token", operation_id = "token", tag = "auth", security(()),
    request_body = TokenRequest, responses((status = 200, body = Token), ReadRefusals, BodyRefusals,
        (status = 404, body = ErrorBody, description = "UNKNOWN_ID: no logins are served")))]
pub(in crate::admin) async fn redeem(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = async || -> Answer<Token> {
        let tokens = issuer(&api)?;
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read_login(request).await?;
        let proof = LoginProof {
            account: members.require_text("account")?,
            public_key: members.require_text("pubKey")?,
            signature: members.require_text("signature")?,
            nonce: members.require_text("nonce")?,
        };
        members.finish("account, pubKey, signature, nonce")?;
        let token = tokens.redeem(proof).await.map_err(not_answered)?;
        let expires_at = iso_seconds(token.expires_at);
        Ok(Token { token: token.value.expose_secret().to_owned(), expires_at })
    };
    to_response(answer().await)
}
