//! The control endpoint: faults, clock, blocks, snapshots and restarts on request, over HTTP.
//!
//! It listens on loopback alone, and refuses requests of browsers.

mod orders;

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use axum::{
    extract::Request,
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use svc_net::listener::{HttpListener, ListenerSettings, TowerService};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{node::Node, scenario::ScenarioAccount};
use orders::{ControlRefusal, ControlState};

/// The endpoint cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for control: {cause}")]
pub struct ControlError {
    address: SocketAddr,
    cause: std::io::Error,
}

/// A running control endpoint; it stops on drop.
pub struct ControlServer {
    /// Address of the listener.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl ControlServer {
    /// Listens on a loopback port; 0 takes a free one.
    pub(crate) async fn start(
        port: u16,
        node: Node,
        accounts: Arc<BTreeMap<String, ScenarioAccount>>,
    ) -> Result<Self, ControlError> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let failed = |cause| ControlError { address, cause };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let router = orders::router(ControlState { node, accounts }).layer(middleware::from_fn(require_local_client));
        let listener = HttpListener::tcp("control", socket, ListenerSettings::for_one_machine()).map_err(failed)?;
        let task = tokio::spawn(listener.serve(TowerService::new(router), CancellationToken::new()));
        Ok(Self { address, task })
    }
}

/// Refuses requests of browsers. A page in a browser can reach loopback: its requests have an origin, or name another host.
async fn require_local_client(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if headers.contains_key(header::ORIGIN) || !matches!(name, "127.0.0.1" | "localhost") {
        let text = "the control endpoint answers local programs only, not browsers".to_owned();
        return ControlRefusal { status: StatusCode::FORBIDDEN, reason: text }.into_response();
    }
    let order = format!("{} {}", request.method(), request.uri().path());
    let answer = next.run(request).await;
    tracing::info!(component = "devnet.control", order, status = answer.status().as_u16(), "order answered");
    answer
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
