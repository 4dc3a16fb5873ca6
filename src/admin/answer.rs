//! Answers of the admin API.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use svc_agent::Refusal;

/// The answer to a request.
pub(super) type Answer = Result<Value, Refusal>;

/// Shapes an answer. No answer is for caches.
pub(super) fn to_response(answer: Answer) -> Response {
    let mut response = match answer {
        Ok(body) => Json(body).into_response(),
        Err(refusal) => refusal_response(&refusal),
    };
    set_header(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

fn refusal_response(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.code.on_wire().1).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(refusal.to_json())).into_response();
    if let Some(seconds) = refusal.retry_after {
        set_header(&mut response, header::RETRY_AFTER, &seconds.to_string());
    }
    response
}

pub(super) fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
