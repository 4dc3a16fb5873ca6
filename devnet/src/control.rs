//! The control endpoint: faults, clock, blocks and snapshots on order. It listens on loopback only, and refuses browsers.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Request, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use svc_wire::instant;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    node::{Faults, Node, NodeError},
    scenario::{Account, SeedError, foreign_use},
};

const MAX_BLOCKS: u32 = 10_000;
const MAX_DOWN: Duration = Duration::from_secs(60);

/// Why the endpoint did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for control: {cause}")]
pub struct ControlError {
    address: SocketAddr,
    cause: std::io::Error,
}

/// A running control endpoint.
pub struct Control {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Controlled {
    node: Node,
    accounts: Arc<BTreeMap<String, Account>>,
}

/// A refused order.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

impl From<NodeError> for Refused {
    fn from(error: NodeError) -> Self {
        let status = match error {
            NodeError::NoSnapshot(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl From<JsonRejection> for Refused {
    fn from(error: JsonRejection) -> Self {
        Self(StatusCode::BAD_REQUEST, error.body_text())
    }
}

type Answer = Result<Json<Value>, Refused>;

impl Control {
    /// Listens on a loopback port; 0 takes a free one.
    pub(crate) async fn start(
        port: u16,
        node: Node,
        accounts: Arc<BTreeMap<String, Account>>,
    ) -> Result<Self, ControlError> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let failed = |cause| ControlError { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = Router::new()
            .route("/", get(status))
            .route("/faults", get(faults).post(order_faults))
            .route("/blocks", post(produce))
            .route("/clock", post(advance))
            .route("/snapshots/{name}", post(save))
            .route("/snapshots/{name}/load", post(load))
            .route("/websockets/cut", post(cut))
            .route("/restart", post(restart))
            .route("/foreign", post(foreign))
            .layer(middleware::from_fn(local_only))
            .with_state(Controlled { node, accounts });
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the control endpoint has ended");
            }
        });
        Ok(Self { address, task })
    }
}

/// A page in a browser reaches loopback too: its requests say where they come from, or name another host.
async fn local_only(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if headers.contains_key(header::ORIGIN) || !matches!(name, "127.0.0.1" | "localhost") {
        let text = "the control endpoint answers local programs only, not browsers".to_owned();
        return Refused(StatusCode::FORBIDDEN, text).into_response();
    }
    let order = format!("{} {}", request.method(), request.uri().path());
    let answer = next.run(request).await;
    tracing::info!(component = "devnet.control", order, status = answer.status().as_u16(), "order is answered");
    answer
}

fn told(node: &Node) -> Value {
    let faults = node.faults(|faults| faults.clone());
    node.inspect(|core| {
        json!({
            "height": core.height(),
            "time": core.latest().map(|block| instant::rfc3339_nanos(&block.time)),
            "app_hash": core.app_hash_hex(),
            "waiting": core.waiting().len(),
            "faults": faults,
        })
    })
}

async fn status(State(controlled): State<Controlled>) -> Answer {
    Ok(Json(told(&controlled.node)))
}

async fn faults(State(controlled): State<Controlled>) -> Answer {
    Ok(Json(json!(controlled.node.faults(|faults| faults.clone()))))
}

/// Changes the members that are given; the others stay.
async fn order_faults(State(controlled): State<Controlled>, body: Result<Json<Value>, JsonRejection>) -> Answer {
    let Json(Value::Object(changes)) = body? else {
        return Err(Refused(StatusCode::BAD_REQUEST, "expected an object of faults".to_owned()));
    };
    let mut all = json!(controlled.node.faults(|faults| faults.clone()));
    for (name, value) in changes {
        all[name] = value;
    }
    let ordered: Faults =
        serde_json::from_value(all).map_err(|error| Refused(StatusCode::BAD_REQUEST, error.to_string()))?;
    controlled.node.faults(|faults| *faults = ordered);
    Ok(Json(told(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Produce {
    #[serde(default = "one")]
    count: u32,
}

fn one() -> u32 {
    1
}

async fn produce(State(controlled): State<Controlled>, body: Result<Json<Produce>, JsonRejection>) -> Answer {
    let Json(Produce { count }) = body?;
    if count > MAX_BLOCKS {
        return Err(Refused(StatusCode::BAD_REQUEST, format!("at most {MAX_BLOCKS} blocks at once")));
    }
    for _ in 0..count {
        controlled.node.produce()?;
    }
    Ok(Json(told(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: u32,
}

async fn advance(State(controlled): State<Controlled>, body: Result<Json<Advance>, JsonRejection>) -> Answer {
    let Json(Advance { seconds }) = body?;
    controlled.node.advance(Duration::from_secs(seconds.into()));
    Ok(Json(told(&controlled.node)))
}

async fn save(State(controlled): State<Controlled>, Path(name): Path<String>) -> Answer {
    controlled.node.save(&name)?;
    Ok(Json(told(&controlled.node)))
}

async fn load(State(controlled): State<Controlled>, Path(name): Path<String>) -> Answer {
    controlled.node.load(&name)?;
    Ok(Json(told(&controlled.node)))
}

async fn cut(State(controlled): State<Controlled>) -> Answer {
    controlled.node.cut_websockets();
    Ok(Json(told(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    #[serde(default)]
    down_ms: u64,
}

async fn restart(State(controlled): State<Controlled>, body: Result<Json<Restart>, JsonRejection>) -> Answer {
    let Json(Restart { down_ms }) = body?;
    controlled.node.stop();
    tokio::time::sleep(Duration::from_millis(down_ms).min(MAX_DOWN)).await;
    controlled.node.start()?;
    Ok(Json(told(&controlled.node)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Foreign {
    account: String,
}

/// Uses an account's key as a second program would: its sequence moves on behind its owner's back.
async fn foreign(State(controlled): State<Controlled>, body: Result<Json<Foreign>, JsonRejection>) -> Answer {
    let Json(Foreign { account }) = body?;
    match foreign_use(&controlled.node, &controlled.accounts, &account).await {
        Ok(address) => Ok(Json(json!({"address": address}))),
        Err(error @ SeedError::Step { .. }) => Err(Refused(StatusCode::BAD_REQUEST, error.to_string())),
        Err(error) => Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}
