//! The agent's own state: info, liveness, readiness.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde_json::json;

use super::{
    answer::{Answer, to_response},
    request::QueryParameters,
    routes::AdminApi,
};

pub(super) async fn info(State(api): State<AdminApi>, request: Request) -> Response {
    let answer = || -> Answer {
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let published = api.agent.keeper().published();
        let document = json!({
            "versionId": published.version.version_id, "entries": published.version.number, "logBytes": published.log_bytes(),
        });
        Ok(json!({"did": published.document.did(), "version": env!("CARGO_PKG_VERSION"), "document": document}))
    };
    to_response(answer())
}

pub(super) async fn live() -> Response {
    to_response(Ok(json!({"status": "live"})))
}

pub(super) async fn ready(State(api): State<AdminApi>) -> Response {
    to_response(api.agent.check_ready().map(|()| json!({"status": "ready"})))
}
