//! The reads over HTTP: routes from their table, `At-Block-Height`, headers, and errors as the contract shapes them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;
use svc_indexer::{Answer, Params, ReadError, endpoints, openapi};
use svc_otel::metrics;
use svc_wire::instant;
use svc_wire::reads::Endpoint;
use tokio::time::timeout;

use super::Front;

/// Longest a read may take: one that takes longer keeps others from the store.
const LONGEST: Duration = Duration::from_secs(15);

fn failure(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"error": text, "code": status.as_u16()}))).into_response()
}

fn refused(error: &ReadError) -> Response {
    let status = match error {
        ReadError::Parameter(_) => StatusCode::BAD_REQUEST,
        ReadError::NotFound(_) => StatusCode::NOT_FOUND,
        ReadError::Gone(_) => StatusCode::GONE,
        ReadError::NotRunning => {
            let body = json!({
                "error": error.to_string(), "code": 503, "is_running": false, "is_crawling": false,
                "stopped_reason": "the follower is restarting",
            });
            return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
        }
        ReadError::Store(error) => {
            tracing::error!(%error, "a read has failed");
            return failure(StatusCode::INTERNAL_SERVER_ERROR, "the indexer's store failed");
        }
    };
    failure(status, &error.to_string())
}

/// What no route matches: one segment, a known prefix, or anything else, each in its own form.
pub(super) async fn not_found(uri: Uri) -> Response {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let is_known = |prefix: &str| {
        let start = format!("/v4/{prefix}/");
        endpoints().iter().any(|endpoint| endpoint.path.starts_with(&start))
    };
    match segments[..] {
        [] | [_] => return (StatusCode::NOT_FOUND, "Not found").into_response(),
        ["v4", prefix, _, ..] if is_known(prefix) => return failure(StatusCode::NOT_FOUND, "Not found"),
        _ => {}
    }
    let body = json!({"name": "NotFoundError", "message": "Not found", "code": 404, "type": "NOT_FOUND"});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

pub(super) fn routes() -> Router<Front> {
    let document = get(|| async { Json(openapi()) });
    let own = Router::new()
        .route("/openapi.json", document)
        .route("/metrics", get(crate::exposition::metrics))
        .route("/healthz", get(health));
    endpoints().iter().copied().fold(own, |router, endpoint| {
        let read = move |state: State<Front>,
                         path: Result<Path<HashMap<String, String>>, PathRejection>,
                         uri: Uri,
                         headers: HeaderMap| { read(endpoint, state, path, uri, headers) };
        router.route(&endpoint.path, get(read))
    })
}

/// Whether blocks are taken in, for whoever restarts what is not well.
async fn health(State(front): State<Front>) -> Response {
    match front.reader.follower().await {
        Some(state) if state.last_error.is_none() => Json(json!({"status": "ok"})).into_response(),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "degraded"}))).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "restarting"}))).into_response(),
    }
}

async fn read(
    endpoint: &'static Endpoint,
    State(front): State<Front>,
    path: Result<Path<HashMap<String, String>>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let started = Instant::now();
    let Ok(Path(path)) = path else { return failure(StatusCode::BAD_REQUEST, "path: is not UTF-8") };
    let outcome = timeout(LONGEST, answer(endpoint, &front, &path, uri.query().unwrap_or_default(), &headers)).await;
    let took = started.elapsed();
    let mut response = match outcome {
        Ok(Ok((answer, asked))) => shown(&answer, asked),
        Ok(Err(error)) => refused(&error),
        Err(_) => failure(StatusCode::SERVICE_UNAVAILABLE, "the read took too long; ask for less of it"),
    };
    let millis = format!("{:.1}", took.as_secs_f64() * 1_000.0);
    let headers = response.headers_mut();
    put(headers, "x-response-time-ms", &millis);
    put(headers, "x-indexer-status", "running");
    match front.reader.last_error() {
        None => put(headers, "x-crawling-status", "active"),
        Some(error) => {
            put(headers, "x-crawling-status", "stopped");
            put(headers, "x-crawling-stopped-at", &error.timestamp);
        }
    }
    metrics::read(&endpoint.operation, response.status().as_u16(), took);
    response
}

async fn answer(
    endpoint: &'static Endpoint,
    front: &Front,
    path: &HashMap<String, String>,
    query: &str,
    headers: &HeaderMap,
) -> Result<(Answer, Option<u64>), ReadError> {
    let path = path.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let params = Params::read(endpoint, path, query)?;
    let asked = at_block_height(headers)?;
    Ok((front.reader.answer(endpoint, &params, asked).await?, asked))
}

fn at_block_height(headers: &HeaderMap) -> Result<Option<u64>, ReadError> {
    let mut values = headers.get_all("at-block-height").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ReadError::Parameter("At-Block-Height: given more than once".to_owned()));
    }
    let text = value.to_str().unwrap_or_default().trim();
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bad = || {
        let shown: String = text.chars().take(64).collect();
        ReadError::Parameter(format!("At-Block-Height: {shown:?} is not a whole number of 0 or more"))
    };
    text.parse().ok().filter(|_| is_digits).map(Some).ok_or_else(bad)
}

fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// An answer, with headers that say which state it shows and how far the indexer is.
fn shown(answer: &Answer, asked: Option<u64>) -> Response {
    let mut response = Json(&answer.body).into_response();
    let headers = response.headers_mut();
    put(headers, "x-index-ts", &instant::iso_millis(&instant::from_nanos(answer.newest_time)));
    put(headers, "x-height", &answer.newest.to_string());
    put(headers, "x-query-at", &answer.height.to_string());
    if let Some(asked) = asked {
        put(headers, "at-block-height", &asked.to_string());
    }
    response
}
