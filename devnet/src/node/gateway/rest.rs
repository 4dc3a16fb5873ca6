//! REST: the paths, parameters, answers and errors of the SDK's gRPC gateway.

use std::{net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Query as UriQuery, RawPathParams, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get, post},
};
use serde_json::{Value, json};
use svc_net::listener::{HttpListener, ListenerSettings, TowerService};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{HEIGHT_HEADER, INVALID_ARGUMENT, NOT_FOUND, QueryFailure, UNIMPLEMENTED, UNKNOWN, ask},
    routes::{GatewayRoute, routes},
};
use crate::node::{cross_origin::cross_origin, shared::SharedChain};

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 1_000_000;

/// A route with the types of its messages.
#[derive(Clone)]
struct Served {
    shared: Arc<SharedChain>,
    method: Arc<str>,
    request: Arc<str>,
    response: Arc<str>,
}

/// Serves until the runtime of the node ends.
pub async fn serve_rest(listener: TcpListener, shared: Arc<SharedChain>) {
    let router = router(&shared);
    match HttpListener::tcp("rest", listener, ListenerSettings::for_one_machine()) {
        Ok(listener) => listener.serve(TowerService::new(router), CancellationToken::new()).await,
        Err(error) => tracing::error!(%error, "the listener of REST cannot be used"),
    }
}

fn router(shared: &Arc<SharedChain>) -> Router {
    let (registry, generation) = {
        let core = shared.core();
        (core.chain.registry.clone(), core.chain.generation)
    };
    let mut router = Router::new();
    for GatewayRoute { method, path, is_post } in routes(registry.namespace().as_str(), generation) {
        let Some(rpc) = registry.rpc_methods().find(|rpc| rpc.path == method) else {
            tracing::debug!(method, "this generation of nodes has no such method");
            continue;
        };
        let served = Served {
            shared: Arc::clone(shared),
            method: method.into(),
            request: rpc.request.full_name().into(),
            response: rpc.response.full_name().into(),
        };
        let handler: MethodRouter = if is_post { post(answer_body) } else { get(answer_query) }.with_state(served);
        router = router.route(&path, handler);
    }
    let router = router.fallback(async || failed(&QueryFailure::new(UNIMPLEMENTED, "Not Implemented")));
    router.layer(cross_origin(["content-type", HEIGHT_HEADER]).expose_headers([HeaderName::from_static(HEIGHT_HEADER)]))
}

async fn answer_query(
    State(served): State<Served>,
    path: RawPathParams,
    UriQuery(query): UriQuery<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Response {
    let in_path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let parameters: Vec<(String, String)> = query.into_iter().chain(in_path).collect();
    let registry = served.shared.core().chain.registry.clone();
    let request = registry.encode_query(&served.request, &parameters);
    respond(&served, request.map_err(|error| error.to_string()), &headers)
}

async fn answer_body(State(served): State<Served>, headers: HeaderMap, body: Body) -> Response {
    let registry = served.shared.core().chain.registry.clone();
    let request = match to_bytes(body, MAX_BODY_BYTES).await {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes)
            .map_err(|error| error.to_string())
            .and_then(|json| registry.encode(&served.request, &json).map_err(|error| error.to_string())),
        Err(error) => Err(error.to_string()),
    };
    respond(&served, request, &headers)
}

fn respond(served: &Served, request: Result<Vec<u8>, String>, headers: &HeaderMap) -> Response {
    let request = match request {
        Ok(request) => request,
        Err(reason) => return failed(&QueryFailure::new(INVALID_ARGUMENT, reason)),
    };
    let height = headers.get(HEIGHT_HEADER).and_then(|height| height.to_str().ok()).unwrap_or_default();
    match ask(&served.shared, &served.method, &request, height) {
        Ok((height, bytes)) => {
            let registry = served.shared.core().chain.registry.clone();
            match registry.decode(&served.response, &bytes) {
                Ok(answer) => (StatusCode::OK, height_header(height), answer.to_string()).into_response(),
                Err(error) => failed(&QueryFailure::new(UNKNOWN, error.to_string())),
            }
        }
        Err(failure) => failed(&failure),
    }
}

fn height_header(height: u64) -> [(HeaderName, HeaderValue); 2] {
    let json = HeaderValue::from_static("application/json");
    [(header::CONTENT_TYPE, json), (HeaderName::from_static(HEIGHT_HEADER), HeaderValue::from(height))]
}

/// The error of the gateway.
fn failed(failure: &QueryFailure) -> Response {
    let status = match failure.code {
        INVALID_ARGUMENT => StatusCode::BAD_REQUEST,
        NOT_FOUND => StatusCode::NOT_FOUND,
        UNIMPLEMENTED => StatusCode::NOT_IMPLEMENTED,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let body = json!({"code": failure.code, "message": failure.message, "details": []});
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
