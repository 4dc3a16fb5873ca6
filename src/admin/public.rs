//! The public side of an agent: the files of its DID, and the door for messages of peers.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use http_body_util::BodyExt;
use svc_agent::{AccessGranterHandle, KeeperHandle, PeerService, PeerTransport, PublicLocation, PublishedFile};
use svc_net::{
    didcomm::{InboundDoor, PostBody},
    websocket::server::is_upgrade,
};
use svc_wire::endpoint_access::{DOCUMENT_FILE, JWKS_FILE, REVOKED_FILE};

use super::format::answer::set_header;

/// The state of the public routes.
#[derive(Clone)]
pub struct PublicApi {
    /// Holds the published document.
    pub keeper: KeeperHandle,
    /// Place of the files.
    pub location: PublicLocation,
    /// Takes messages of peers.
    pub peers: PeerService,
    /// The conditions of access, the keys of tokens, and the revoked grants.
    pub access: AccessGranterHandle,
}

/// The state of a request.
#[derive(Clone)]
struct PublicState {
    keeper: KeeperHandle,
    access: AccessGranterHandle,
    door: InboundDoor<PeerService>,
    transports: Arc<[PeerTransport]>,
}

/// All public routes. A path that is not served answers 404, the other form of a DID's paths included.
pub fn public_router(api: PublicApi) -> Router {
    let (document, log) = (api.location.file_path("did.json"), api.location.file_path("did.jsonl"));
    let base = api.location.url_path(if api.location.url_path("").is_empty() { "/" } else { "" });
    let settings = api.peers.settings();
    let state = PublicState {
        keeper: api.keeper,
        access: api.access,
        transports: settings.transports.clone().into(),
        door: InboundDoor::new(api.peers.clone(), settings.inbound_limits()),
    };
    let [conditions, keys, revoked] =
        [DOCUMENT_FILE, JWKS_FILE, REVOKED_FILE].map(|file| format!("{}/{file}", api.location.url_path("")));
    let router = Router::new()
        .route(&document, get(did_document))
        .route(&log, get(did_log))
        .route(&conditions, get(access_conditions))
        .route(&keys, get(access_keys))
        .route(&revoked, get(revoked_grants));
    router.route(&base, get(open_socket).post(take_message)).fallback(presentation).with_state(state)
}

/// The upgrade of a peer's WebSocket; every other GET is one of a file.
async fn open_socket(State(api): State<PublicState>, mut request: Request) -> Response {
    if !is_upgrade(request.headers()) || !api.transports.contains(&PeerTransport::WebSocket) {
        return presentation(State(api), request).await;
    }
    api.door.accept(&mut request).map(Body::from)
}

/// A message of a peer.
async fn take_message(State(api): State<PublicState>, request: Request) -> Response {
    if !api.transports.contains(&PeerTransport::Http) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut taken = match api.door.admit_post(request.headers()) {
        Ok(taken) => taken,
        Err(refused) => return (*refused).map(Body::from),
    };
    let mut body = request.into_body();
    let read = tokio::time::timeout(PostBody::TIME, async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(StatusCode::BAD_REQUEST.into_response()) };
            if let Some(part) = frame.data_ref() {
                taken.extend(part).map_err(|refused| (*refused).map(Body::from))?;
            }
        }
        Ok(())
    });
    match read.await {
        Ok(Ok(())) => api.door.take_post(taken).await.map(Body::from),
        Ok(Err(refused)) => refused,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

async fn did_document(State(api): State<PublicState>, request: Request) -> Response {
    serve_file(Some(&api.keeper.published().did_json), "application/did+json", request.headers())
}

async fn did_log(State(api): State<PublicState>, request: Request) -> Response {
    serve_file(api.keeper.published().did_log.as_ref(), "text/jsonl", request.headers())
}

/// The material that each endpoint needs.
async fn access_conditions(State(api): State<PublicState>, request: Request) -> Response {
    serve_file(api.access.document_file().as_ref(), "application/json", request.headers())
}

/// The keys of tokens, for verifiers without a resolver of DIDs.
async fn access_keys(State(api): State<PublicState>, request: Request) -> Response {
    serve_file(api.access.jwks_file().as_ref(), "application/jwk-set+json", request.headers())
}

/// The grants that were taken back. Without the store there is none: an older list could lack the newest.
async fn revoked_grants(State(api): State<PublicState>, request: Request) -> Response {
    match api.access.revoked_file().await {
        Ok(file) => {
            let mut response = serve_file(file.as_ref(), "application/json", request.headers());
            if file.is_some() {
                set_header(&mut response, header::CACHE_CONTROL, "max-age=30");
            }
            response
        }
        Err(error) => {
            tracing::warn!(%error, "the list of revoked grants cannot be read");
            let mut response = StatusCode::SERVICE_UNAVAILABLE.into_response();
            set_header(&mut response, header::RETRY_AFTER, "5");
            response
        }
    }
}

/// The presentations of the document, and the credentials of its schemas.
async fn presentation(State(api): State<PublicState>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let published = api.keeper.published();
    serve_file(published.presentation_file(request.uri().path()), "application/json", request.headers())
}

/// Answers with a file, which all readers share, or with 304 when the reader has it.
fn serve_file(file: Option<&PublishedFile>, content_type: &str, headers: &HeaderMap) -> Response {
    let Some(file) = file else { return StatusCode::NOT_FOUND.into_response() };
    let mut response = if has_tag(headers, &file.etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(file.body.clone()));
        set_header(&mut response, header::CONTENT_TYPE, content_type);
        response
    };
    set_header(&mut response, header::ETAG, &file.etag);
    set_header(&mut response, header::CACHE_CONTROL, "no-cache");
    set_header(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    response
}

fn has_tag(headers: &HeaderMap, etag: &str) -> bool {
    let texts = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = texts.flat_map(|text| text.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
