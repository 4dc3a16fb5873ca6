//! The agent's own state: info, liveness, readiness.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde_json::json;

use super::{
    answer::{Answer, iso_seconds, to_response},
    api::AdminApi,
    request::QueryParameters,
};

pub(super) async fn info(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        let published = api.agent.keeper().published();
        let document = json!({
            "versionId": published.version.version_id, "entries": published.version.number, "logBytes": published.log_bytes(),
        });
        let sizes = api.agent.delivery().sizes().await?;
        let mut events = json!({"stored": sizes.stored, "deadLetters": sizes.dead_letters});
        if let Some(oldest) = sizes.oldest_at {
            events["oldestAt"] = iso_seconds(oldest).into();
        }
        let (did, version) = (published.document.did(), env!("CARGO_PKG_VERSION"));
        Ok(json!({"did": did, "version": version, "document": document, "events": events}))
    };
    to_response(answer().await)
}

pub(super) async fn live() -> Response {
    to_response(Ok(json!({"status": "live"})))
}

pub(super) async fn ready(State(api): State<AdminApi>) -> Response {
    to_response(api.agent.check_ready().map(|()| json!({"status": "ready"})))
}
