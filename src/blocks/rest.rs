//! The reads over HTTP: routes from their table, `At-Block-Height`, headers, and errors as the contract shapes them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, FromRequest, Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use serde_json::json;
use svc_indexer::{Answer, MAX_BODY_BYTES, Params, ReadError, endpoints, openapi};
use svc_otel::metrics;
use svc_wire::instant;
use svc_wire::reads::{Endpoint, Method};
use tokio::time::timeout;

use super::Front;

/// Longest a read may take: one that takes longer keeps others from the store. A body has as long to arrive.
const LONGEST: Duration = Duration::from_secs(15);

/// Why a request has no answer.
enum Refusal {
    Read(ReadError),
    /// For reasons of its transport.
    Transport(StatusCode, String),
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

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
    let all = endpoints().iter().fold(own, |router, endpoint| {
        let read = move |state: State<Front>,
                         path: Result<Path<HashMap<String, String>>, PathRejection>,
                         request: Request| read(endpoint, state, path, request);
        let route = match endpoint.method {
            Method::Get => get(read),
            Method::Post => post(read),
        };
        router.route(&endpoint.path, route)
    });
    all.layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
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
    request: Request,
) -> Response {
    let started = Instant::now();
    let Ok(Path(path)) = path else { return failure(StatusCode::BAD_REQUEST, "path: is not UTF-8") };
    let outcome = answer(endpoint, &front, &path, request).await;
    let took = started.elapsed();
    let mut response = outcome.unwrap_or_else(|refusal| match refusal {
        Refusal::Read(error) => refused(&error),
        Refusal::Transport(status, text) => failure(status, &text),
    });
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
    request: Request,
) -> Result<Response, Refusal> {
    let (params, at) = asked(endpoint, path, request).await?;
    let answer = timeout(LONGEST, front.reader.answer(endpoint, &params, at)).await.map_err(|_| {
        let text = "the read took too long; ask for less of it";
        Refusal::Transport(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
    })?;
    Ok(shown(&answer?, at))
}

/// What is asked: parameters, and the height.
async fn asked(
    endpoint: &'static Endpoint,
    path: &HashMap<String, String>,
    request: Request,
) -> Result<(Params, Option<u64>), Refusal> {
    let at = at_block_height(request.headers());
    let params = match endpoint.method {
        Method::Get => {
            let path = path.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            Params::read(endpoint, path, request.uri().query().unwrap_or_default())?
        }
        Method::Post => {
            is_json(request.headers())?;
            Params::posted(endpoint, &body(request).await?)?
        }
    };
    Ok((params, at?))
}

/// A body that says what it is must be JSON; one that does not is taken for it.
fn is_json(headers: &HeaderMap) -> Result<(), ReadError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/json" || (media.starts_with("application/") && media.ends_with("+json")) {
        return Ok(());
    }
    let shown: String = media.chars().take(64).collect();
    Err(ReadError::Parameter(format!("content-type: {shown:?} is not application/json")))
}

async fn body(request: Request) -> Result<Bytes, Refusal> {
    let arrived = timeout(LONGEST, Bytes::from_request(request, &())).await.map_err(|_| {
        let text = format!("body: did not arrive within {} s", LONGEST.as_secs());
        Refusal::Transport(StatusCode::REQUEST_TIMEOUT, text)
    })?;
    arrived.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Refusal::Transport(StatusCode::PAYLOAD_TOO_LARGE, format!("body: longer than {MAX_BODY_BYTES} bytes"))
        }
        status => Refusal::Transport(status, "body: did not come whole".to_owned()),
    })
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
