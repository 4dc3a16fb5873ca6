//! The reads over HTTP: one route per row of the table of reads, the header `At-Block-Height`, the headers of an answer, and the
//! errors in the shapes of the contract.

use std::{
    collections::HashMap,
    time::{Duration, Instant, SystemTime},
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
use svc_indexer::{MAX_BODY_BYTES, ReadAnswer, ReadArguments, ReadError, openapi, read_endpoints};
use svc_otel::metrics;
use svc_wire::indexer_reads::{HttpMethod, ReadEndpoint, ReadTableError};
use svc_wire::timestamp;
use tokio::time::timeout;

use super::api::IndexerApi;
use crate::status::{HealthStatus, health_response, indexer_health_response};

/// Longest read: a longer one would keep other reads from the store. It is also the longest wait for a body.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Headers of an answer, which pages of other origins may read too.
pub(super) const ANSWER_HEADERS: [&str; 8] = [
    "x-response-time-ms",
    "x-indexer-status",
    "x-crawling-status",
    "x-crawling-stopped-at",
    "x-index-ts",
    "x-height",
    "x-query-at",
    "at-block-height",
];

/// The reason for which a request has no answer.
enum RequestRejection {
    /// The read failed.
    Read(ReadError),
    /// The request did not arrive whole or in time.
    Transport { status: StatusCode, message: String },
}

impl From<ReadError> for RequestRejection {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

fn error_response(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({"error": text, "code": status.as_u16()}))).into_response()
}

fn read_error_response(error: &ReadError) -> Response {
    let status = match error {
        ReadError::InvalidParameter(_) => StatusCode::BAD_REQUEST,
        ReadError::NotFound(_) => StatusCode::NOT_FOUND,
        ReadError::Gone(_) => StatusCode::GONE,
        ReadError::HeightNotIndexed { oldest, .. } => {
            let body = json!({
                "error": error.to_string(), "code": 410, "reason": "HEIGHT_NOT_INDEXED", "oldest_block_height": oldest,
            });
            return (StatusCode::GONE, Json(body)).into_response();
        }
        ReadError::NotRunning => {
            let body = json!({
                "error": error.to_string(), "code": 503, "is_running": false, "is_crawling": false,
                "stopped_reason": "the follower is restarting",
            });
            return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
        }
        ReadError::Store(error) => {
            tracing::error!(%error, "a read has failed");
            return error_response(StatusCode::INTERNAL_SERVER_ERROR, "the indexer's store failed");
        }
    };
    error_response(status, &error.to_string())
}

/// The answer to a path without a route. A path of one segment, a path under a known prefix and any other path have different
/// shapes in the contract.
pub(super) async fn not_found(uri: Uri) -> Response {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let is_known = |prefix: &str| {
        let start = format!("/v4/{prefix}/");
        read_endpoints().is_ok_and(|all| all.iter().any(|endpoint| endpoint.path.starts_with(&start)))
    };
    match segments[..] {
        [] | [_] => return (StatusCode::NOT_FOUND, "Not found").into_response(),
        ["v4", prefix, _, ..] if is_known(prefix) => return error_response(StatusCode::NOT_FOUND, "Not found"),
        _ => {}
    }
    let body = json!({"name": "NotFoundError", "message": "Not found", "code": 404, "type": "NOT_FOUND"});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

pub(super) fn routes() -> Result<Router<IndexerApi>, ReadTableError> {
    let document = openapi()?;
    let document = get(|| async move { Json(document) });
    let own = Router::new().route("/openapi.json", document).route("/healthz", get(health));
    let all = read_endpoints()?.iter().fold(own, |router, endpoint| {
        let read = move |state: State<IndexerApi>,
                         path: Result<Path<HashMap<String, String>>, PathRejection>,
                         request: Request| handle_read(endpoint, state, path, request);
        let route = match endpoint.method {
            HttpMethod::Get => get(read),
            HttpMethod::Post => post(read),
        };
        router.route(&endpoint.path, route)
    });
    Ok(all.layer(DefaultBodyLimit::max(MAX_BODY_BYTES)))
}

/// Whether the follower ingests blocks.
async fn health(State(api): State<IndexerApi>) -> Response {
    let Some(state) = api.reader.follower_state().await else { return health_response(HealthStatus::Restarting) };
    let is_ok = state.last_error.is_none() && !state.is_stuck;
    let status = if is_ok { HealthStatus::Ok } else { HealthStatus::Degraded };
    indexer_health_response(status, state.block_age_seconds)
}

async fn handle_read(
    endpoint: &'static ReadEndpoint,
    State(api): State<IndexerApi>,
    path: Result<Path<HashMap<String, String>>, PathRejection>,
    request: Request,
) -> Response {
    let started = Instant::now();
    let Ok(Path(path)) = path else { return error_response(StatusCode::BAD_REQUEST, "path: is not UTF-8") };
    let outcome = answer_read(endpoint, &api, &path, request).await;
    let took = started.elapsed();
    let mut response = outcome.unwrap_or_else(|refusal| match refusal {
        RequestRejection::Read(error) => read_error_response(&error),
        RequestRejection::Transport { status, message } => error_response(status, &message),
    });
    let millis = format!("{:.1}", took.as_secs_f64() * 1_000.0);
    let headers = response.headers_mut();
    insert_header(headers, "x-response-time-ms", &millis);
    insert_header(headers, "x-indexer-status", "running");
    match api.reader.last_error() {
        None => insert_header(headers, "x-crawling-status", "active"),
        Some(error) => {
            insert_header(headers, "x-crawling-status", "stopped");
            insert_header(headers, "x-crawling-stopped-at", &error.timestamp);
        }
    }
    metrics::record_indexer_read(&endpoint.operation, response.status().as_u16(), took);
    response
}

async fn answer_read(
    endpoint: &'static ReadEndpoint,
    api: &IndexerApi,
    path: &HashMap<String, String>,
    request: Request,
) -> Result<Response, RequestRejection> {
    let (params, at) = parse_request(endpoint, path, request).await?;
    let answer = timeout(READ_TIMEOUT, api.reader.answer_read(endpoint, &params, at)).await.map_err(|_| {
        let text = "the read took too long; ask for less of it";
        RequestRejection::Transport { status: StatusCode::SERVICE_UNAVAILABLE, message: text.to_owned() }
    })?;
    Ok(answer_response(&answer?, at))
}

/// The parameters of a read and the height it asks for.
async fn parse_request(
    endpoint: &'static ReadEndpoint,
    path: &HashMap<String, String>,
    request: Request,
) -> Result<(ReadArguments, Option<u64>), RequestRejection> {
    let at = parse_at_block_height(request.headers());
    let params = match endpoint.method {
        HttpMethod::Get => {
            let path = path.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            ReadArguments::from_query(endpoint, path, request.uri().query().unwrap_or_default())?
        }
        HttpMethod::Post => {
            require_json_content(request.headers())?;
            ReadArguments::from_body(endpoint, &read_body(request).await?)?
        }
    };
    Ok((params, at?))
}

/// Refuses a body with a content type other than JSON. A body without a content type is read as JSON.
fn require_json_content(headers: &HeaderMap) -> Result<(), ReadError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/json" || (media.starts_with("application/") && media.ends_with("+json")) {
        return Ok(());
    }
    let shown: String = media.chars().take(64).collect();
    Err(ReadError::InvalidParameter(format!("content-type: {shown:?} is not application/json")))
}

async fn read_body(request: Request) -> Result<Bytes, RequestRejection> {
    let arrived = timeout(READ_TIMEOUT, Bytes::from_request(request, &())).await.map_err(|_| {
        let message = format!("body: did not arrive within {} s", READ_TIMEOUT.as_secs());
        RequestRejection::Transport { status: StatusCode::REQUEST_TIMEOUT, message }
    })?;
    arrived.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => RequestRejection::Transport {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            message: format!("body: longer than {MAX_BODY_BYTES} bytes"),
        },
        status => RequestRejection::Transport { status, message: "body: did not come whole".to_owned() },
    })
}

fn parse_at_block_height(headers: &HeaderMap) -> Result<Option<u64>, ReadError> {
    let mut values = headers.get_all("at-block-height").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ReadError::InvalidParameter("At-Block-Height: given more than once".to_owned()));
    }
    let text = value.to_str().unwrap_or_default().trim();
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bad = || {
        let shown: String = text.chars().take(64).collect();
        ReadError::InvalidParameter(format!("At-Block-Height: {shown:?} is not a whole number of 0 or more"))
    };
    text.parse().ok().filter(|_| is_digits).map(Some).ok_or_else(bad)
}

fn insert_header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// An answer with headers that name the height of the state it shows and the newest height of the indexer.
fn answer_response(answer: &ReadAnswer, requested_height: Option<u64>) -> Response {
    let mut response = Json(&answer.body).into_response();
    let headers = response.headers_mut();
    insert_header(headers, "x-index-ts", &timestamp::iso_millis(&timestamp::from_unix_nanos(answer.newest_time)));
    insert_header(headers, "x-height", &answer.newest_height.to_string());
    insert_header(headers, "x-query-at", &timestamp::iso_millis(&SystemTime::now().into()));
    if let Some(height) = requested_height {
        insert_header(headers, "at-block-height", &height.to_string());
    }
    response
}
