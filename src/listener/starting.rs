//! The answer of a server that starts: 503 to every request, with the part that it waits for.

use std::time::Duration;

use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ListenerConfig;
use crate::status::HealthStatus;

/// Longest wait for the connections of a start.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

/// Answers every request until the start is over.
pub(crate) struct StartupResponder {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl StartupResponder {
    /// Starts to answer on a socket. `missing` is the part that the start waits for, `node` or `indexer`. `layer` adds the headers that the
    /// server has later.
    pub fn start<F>(
        name: &'static str,
        socket: std::net::TcpListener,
        front: &ListenerConfig,
        missing: F,
        layer: impl FnOnce(Router) -> Router,
    ) -> std::io::Result<Self>
    where
        F: Fn() -> Option<&'static str> + Clone + Send + Sync + 'static,
    {
        let router = layer(Router::new().fallback(move || std::future::ready(starting_response(missing()))));
        let stop = CancellationToken::new();
        let task = super::serve(name, socket, router, front, stop.clone())?;
        Ok(Self { stop, task })
    }

    /// Ends the connections, so that the next requests reach the server.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if tokio::time::timeout(CLOSE_WAIT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for StartupResponder {
    /// A start that is cancelled ends it too.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// `{"status": "starting", "waiting_for": …}`, with null while the start waits for nothing.
fn starting_response(missing: Option<&str>) -> Response {
    let body = json!({"status": HealthStatus::Starting.as_str(), "waiting_for": missing});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
