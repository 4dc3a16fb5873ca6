//! The orders of the control endpoint and their routes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, State, rejection::JsonRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_wire::{proto_registry::NodeGeneration, timestamp};

use crate::{
    node::{Node, NodeError, NodeFaults},
    scenario::{ScenarioAccount, SeedError, send_foreign_tx},
};

const MAX_BLOCKS: u32 = 10_000;
const MAX_DOWNTIME: Duration = Duration::from_secs(60);

/// The node and the accounts that orders apply to.
#[derive(Clone)]
pub struct ControlState {
    pub node: Node,
    pub accounts: Arc<BTreeMap<String, ScenarioAccount>>,
}

/// The response to a refused order.
pub struct ControlRefusal {
    pub status: StatusCode,
    pub reason: String,
}

impl IntoResponse for ControlRefusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.reason}))).into_response()
    }
}

impl From<NodeError> for ControlRefusal {
    fn from(error: NodeError) -> Self {
        let status = match error {
            NodeError::NoSnapshot(_) => StatusCode::NOT_FOUND,
            NodeError::UpgradePlan(_) | NodeError::NoHeight { .. } => StatusCode::BAD_REQUEST,
            NodeError::UpgradeNeeded(_) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, reason: error.to_string() }
    }
}

impl From<JsonRejection> for ControlRefusal {
    fn from(error: JsonRejection) -> Self {
        bad_request(error.body_text())
    }
}

type ControlResult = Result<Json<Value>, ControlRefusal>;

fn bad_request(reason: impl Into<String>) -> ControlRefusal {
    ControlRefusal { status: StatusCode::BAD_REQUEST, reason: reason.into() }
}

/// Returns the routes of all orders.
pub fn router(state: ControlState) -> Router {
    Router::new()
        .route("/", get(status))
        .route("/faults", get(faults).post(change_faults))
        .route("/genesis", get(export_genesis))
        .route("/blocks", post(produce_blocks))
        .route("/clock", post(advance_clock))
        .route("/back", post(go_back))
        .route("/snapshots/{name}", post(save_snapshot))
        .route("/snapshots/{name}/load", post(load_snapshot))
        .route("/websockets/cut", post(cut_websockets))
        .route("/restart", post(restart_node))
        .route("/upgrade", post(plan_upgrade))
        .route("/foreign", post(post_foreign_tx))
        .with_state(state)
}

fn describe_node(node: &Node) -> Value {
    let faults = node.update_faults(|faults| faults.clone());
    node.read_core(|core| {
        json!({
            "height": core.height(),
            "time": core.latest().map(|block| timestamp::rfc3339_nanos(&block.time)),
            "app_hash": core.app_hash_hex(),
            "waiting": core.mempool_txs().len(),
            "faults": faults,
        })
    })
}

async fn status(State(controlled): State<ControlState>) -> ControlResult {
    Ok(Json(describe_node(&controlled.node)))
}

async fn faults(State(controlled): State<ControlState>) -> ControlResult {
    Ok(Json(json!(controlled.node.update_faults(|faults| faults.clone()))))
}

/// Returns a genesis document with the newest state.
async fn export_genesis(State(controlled): State<ControlState>) -> ControlResult {
    Ok(Json(controlled.node.export_genesis()?))
}

/// Changes the given members of the faults; the others stay.
async fn change_faults(
    State(controlled): State<ControlState>,
    body: Result<Json<Value>, JsonRejection>,
) -> ControlResult {
    let Json(Value::Object(changes)) = body? else {
        return Err(bad_request("expected an object of faults".to_owned()));
    };
    let mut all = json!(controlled.node.update_faults(|faults| faults.clone()));
    for (name, value) in changes {
        all[name] = value;
    }
    let ordered: NodeFaults = serde_json::from_value(all).map_err(|error| bad_request(error.to_string()))?;
    controlled.node.update_faults(|faults| *faults = ordered);
    Ok(Json(describe_node(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProduceBlocksRequest {
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

async fn produce_blocks(
    State(controlled): State<ControlState>,
    body: Result<Json<ProduceBlocksRequest>, JsonRejection>,
) -> ControlResult {
    let Json(ProduceBlocksRequest { count }) = body?;
    if count > MAX_BLOCKS {
        return Err(bad_request(format!("at most {MAX_BLOCKS} blocks at once")));
    }
    for _ in 0..count {
        controlled.node.produce_block()?;
    }
    Ok(Json(describe_node(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdvanceClockRequest {
    seconds: u32,
}

async fn advance_clock(
    State(controlled): State<ControlState>,
    body: Result<Json<AdvanceClockRequest>, JsonRejection>,
) -> ControlResult {
    let Json(AdvanceClockRequest { seconds }) = body?;
    controlled.node.advance_clock(Duration::from_secs(seconds.into()));
    Ok(Json(describe_node(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GoBackRequest {
    to: u64,
}

async fn go_back(
    State(controlled): State<ControlState>,
    body: Result<Json<GoBackRequest>, JsonRejection>,
) -> ControlResult {
    let Json(GoBackRequest { to }) = body?;
    controlled.node.go_back(to)?;
    Ok(Json(describe_node(&controlled.node)))
}

async fn save_snapshot(State(controlled): State<ControlState>, Path(name): Path<String>) -> ControlResult {
    controlled.node.save_snapshot(&name)?;
    Ok(Json(describe_node(&controlled.node)))
}

async fn load_snapshot(State(controlled): State<ControlState>, Path(name): Path<String>) -> ControlResult {
    controlled.node.load_snapshot(&name)?;
    Ok(Json(describe_node(&controlled.node)))
}

async fn cut_websockets(State(controlled): State<ControlState>) -> ControlResult {
    controlled.node.cut_websockets();
    Ok(Json(describe_node(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestartNodeRequest {
    #[serde(default)]
    down_ms: u64,
    /// Generation that the node has afterwards.
    generation: Option<String>,
}

async fn restart_node(
    State(controlled): State<ControlState>,
    body: Result<Json<RestartNodeRequest>, JsonRejection>,
) -> ControlResult {
    let Json(RestartNodeRequest { down_ms, generation }) = body?;
    let generation = generation.map(|text| parse_generation(&text)).transpose()?;
    controlled.node.stop();
    if let Some(generation) = generation {
        controlled.node.upgrade(generation)?;
    }
    tokio::time::sleep(Duration::from_millis(down_ms).min(MAX_DOWNTIME)).await;
    controlled.node.start()?;
    Ok(Json(describe_node(&controlled.node)))
}

fn parse_generation(text: &str) -> Result<NodeGeneration, ControlRefusal> {
    let known = || NodeGeneration::ALL.map(NodeGeneration::as_str).join(", ");
    NodeGeneration::parse(text).ok_or_else(|| bad_request(format!("generation: one of {}", known())))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpgradeRequest {
    generation: String,
    height: u64,
}

async fn plan_upgrade(
    State(controlled): State<ControlState>,
    body: Result<Json<UpgradeRequest>, JsonRejection>,
) -> ControlResult {
    let Json(UpgradeRequest { generation, height }) = body?;
    controlled.node.plan_upgrade(parse_generation(&generation)?, height)?;
    Ok(Json(describe_node(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignTxRequest {
    account: String,
}

/// Sends a transaction of an account as a second program with the same key would: the sequence changes without the owner.
async fn post_foreign_tx(
    State(controlled): State<ControlState>,
    body: Result<Json<ForeignTxRequest>, JsonRejection>,
) -> ControlResult {
    let Json(ForeignTxRequest { account }) = body?;
    match send_foreign_tx(&controlled.node, &controlled.accounts, &account).await {
        Ok(address) => Ok(Json(json!({"address": address}))),
        Err(error @ SeedError::Step { .. }) => Err(bad_request(error.to_string())),
        Err(error) => Err(ControlRefusal { status: StatusCode::INTERNAL_SERVER_ERROR, reason: error.to_string() }),
    }
}
