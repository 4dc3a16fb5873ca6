//! Answers of the admin API.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use prost_types::Timestamp;
use serde::Serialize;
use svc_agent::Refusal;
use svc_wire::timestamp;

/// The answer to a request.
pub(in crate::admin) type Answer<T> = Result<T, Refusal>;

/// Shapes an answer.
pub(in crate::admin) fn to_response<T: Serialize>(answer: Answer<T>) -> Response {
    no_store(match answer {
        Ok(body) => Json(body).into_response(),
        Err(refusal) => refusal_response(&refusal),
    })
}

/// No answer is for caches.
pub(in crate::admin) fn no_store(mut response: Response) -> Response {
    set_header(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

/// An instant in seconds since the epoch, as answers have it.
pub(in crate::admin) fn iso_seconds(seconds: i64) -> String {
    timestamp::iso_millis(&Timestamp { seconds, nanos: 0 })
}

/// Shapes a refusal.
pub(in crate::admin) fn refuse(refusal: Refusal) -> Response {
    no_store(refusal_response(&refusal))
}

fn refusal_response(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.code.on_wire().1).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(refusal.to_json())).into_response();
    if let Some(seconds) = refusal.retry_after {
        set_header(&mut response, header::RETRY_AFTER, &seconds.to_string());
    }
    response
}

pub(in crate::admin) fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
