//! The agent's own state: info, liveness, readiness.

use axum::{
    extract::{Request, State},
    response::Response,
};
use svc_agent::BlockedReason;

use super::{
    api::AdminApi,
    format::{
        answer::{Answer, iso_seconds, to_response},
        request::QueryParameters,
        schema::{AgentInfo, ChainInfo, DocumentInfo, ErrorBody, EventsInfo, Health, ReadRefusals, ResolutionInfo},
    },
};

/// The way on from a chain with another history.
const REBASE_HINT: &str = "stop the agent and run svc agent rebase --to HEIGHT, the newest height that both have";

/// The agent's DID, its document and its events.
#[utoipa::path(get, path = "/v2/agent/info", operation_id = "getAgentInfo", tag = "agent",
    responses((status = 200, body = AgentInfo), ReadRefusals))]
pub(super) async fn info(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<AgentInfo> {
        QueryParameters::parse(query.as_deref())?.finish("none")?;
        let published = api.agent.keeper().published();
        let document = DocumentInfo {
            version_id: published.version.version_id.clone(),
            entries: published.version.number,
            log_bytes: published.log_bytes(),
        };
        let sizes = api.agent.delivery().sizes().await?;
        let oldest_at = sizes.oldest_at.map(iso_seconds);
        let events = EventsInfo { stored: sizes.stored, oldest_at, dead_letters: sizes.dead_letters };
        let report = api.agent.resolution().report();
        let reason = report.phase.reason();
        let resolution = ResolutionInfo {
            state: report.phase.as_str(),
            since: report.since,
            reason: reason.map(BlockedReason::as_str),
            text: reason.and_then(BlockedReason::text).map(str::to_owned),
            tx_hash: report.tx_hash,
        };
        let chain = api.agent.chain().access().map(|access| {
            let change = api.agent.chain_change();
            let agreed = change.as_ref().map(|change| change.agreed.unwrap_or(0));
            ChainInfo {
                height: agreed.unwrap_or_else(|| access.pipeline.clock().height),
                code: change.as_ref().map(|_| "CHAIN_CHANGED"),
                text: change.map(|change| format!("{change}; {REBASE_HINT}")),
            }
        });
        let (did, version) = (published.document.did().to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(AgentInfo { did, version, document, resolution, events, chain })
    };
    to_response(answer().await)
}

/// Whether the process runs. Every caller is answered.
#[utoipa::path(get, path = "/v2/agent/health/live", operation_id = "getLiveness", tag = "agent", security(()),
    responses((status = 200, body = Health)))]
pub(super) async fn live() -> Response {
    to_response(Ok(Health { status: "live" }))
}

/// Whether every part works. Every caller is answered.
#[utoipa::path(get, path = "/v2/agent/health/ready", operation_id = "getReadiness", tag = "agent", security(()),
    responses((status = 200, body = Health), (status = 503, body = ErrorBody, description = "NOT_READY: the details name the parts")))]
pub(super) async fn ready(State(api): State<AdminApi>) -> Response {
    to_response(api.agent.check_ready().map(|()| Health { status: "ready" }))
}
