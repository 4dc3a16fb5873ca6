//! `/approvals`: the calls that wait for another principal. They are decided here and not by a tool, so that no model is offered it.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;

use super::json_response;
use crate::{
    mcp::{call::DecisionRefusal, server::ToolServer},
    principals::Principal,
};

pub(super) fn routes() -> Router<Arc<ToolServer>> {
    Router::new().route("/approvals", get(list)).route("/approvals/{id}", post(decide))
}

async fn list(State(server): State<Arc<ToolServer>>, Extension(principal): Extension<Arc<Principal>>) -> Response {
    if principal.rights.is_peer {
        return not_for_peers();
    }
    Json(json!({"approvals": server.confirmations.approvals.list(&principal)})).into_response()
}

fn not_for_peers() -> Response {
    json_response(StatusCode::FORBIDDEN, &json!({"error": "forbidden", "message": "approvals are not for peers"}))
}

/// The decision about a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    approve: bool,
    /// Digest of the message that was read, so that no other one is decided.
    digest: String,
}

async fn decide(
    State(server): State<Arc<ToolServer>>,
    Extension(principal): Extension<Arc<Principal>>,
    Path(id): Path<String>,
    Json(decision): Json<Decision>,
) -> Response {
    if principal.rights.is_peer {
        return not_for_peers();
    }
    let approvals = &server.confirmations.approvals;
    let is_read = approvals.list(&principal).iter().any(|one| one.id == id && one.digest == decision.digest);
    let decided = match is_read {
        true => approvals.decide(&id, &principal, decision.approve),
        false => Err(DecisionRefusal::Unknown),
    };
    match decided {
        Ok(approval) => Json(approval).into_response(),
        Err(refusal) => {
            let status = match refusal {
                DecisionRefusal::NotAllowed => StatusCode::FORBIDDEN,
                DecisionRefusal::Unknown => StatusCode::NOT_FOUND,
                DecisionRefusal::Decided => StatusCode::CONFLICT,
            };
            json_response(status, &json!({"error": "not_decided", "message": refusal.to_string()}))
        }
    }
}
