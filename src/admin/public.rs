//! The public files of a DID: its document and the log of its versions.

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use svc_agent::{KeeperHandle, PublicLocation, PublishedFile};

use super::answer::set_header;

/// The state of the public routes.
#[derive(Clone)]
pub struct PublicApi {
    /// Holds the published document.
    pub keeper: KeeperHandle,
    /// Place of the files.
    pub location: PublicLocation,
}

/// All public routes. A path that is not served answers 404, the other form of a DID's paths included.
pub fn public_router(api: PublicApi) -> Router {
    let (document, log) = (api.location.file_path("did.json"), api.location.file_path("did.jsonl"));
    let router = Router::new().route(&document, get(did_document)).route(&log, get(did_log));
    router.fallback(presentation).with_state(api)
}

async fn did_document(State(api): State<PublicApi>, request: Request) -> Response {
    serve_file(Some(&api.keeper.published().did_json), "application/did+json", request.headers())
}

async fn did_log(State(api): State<PublicApi>, request: Request) -> Response {
    serve_file(api.keeper.published().did_log.as_ref(), "text/jsonl", request.headers())
}

/// The presentations of the document, and the credentials of its schemas.
async fn presentation(State(api): State<PublicApi>, request: Request) -> Response {
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
