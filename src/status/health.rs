//! The answer of `/healthz`, the same on every listener.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// The health of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealthStatus {
    /// It serves.
    Ok,
    /// It boots.
    Starting,
    /// It serves, but something it depends on does not work.
    Degraded,
    /// An actor it depends on is being restarted.
    Restarting,
    /// It finishes running requests and takes no new ones.
    Draining,
}

impl HealthStatus {
    /// The status with a name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let all = [Self::Ok, Self::Starting, Self::Degraded, Self::Restarting, Self::Draining];
        all.into_iter().find(|status| status.as_str() == name)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Starting => "starting",
            Self::Degraded => "degraded",
            Self::Restarting => "restarting",
            Self::Draining => "draining",
        }
    }

    fn code(self) -> StatusCode {
        if self == Self::Ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }
}

/// `{"status": …}`, with status code 200 for a healthy server and 503 for any other.
pub(crate) fn health_response(status: HealthStatus) -> Response {
    (status.code(), Json(json!({"status": status.as_str()}))).into_response()
}

/// The same of an indexer, with the age of its newest block.
pub(crate) fn indexer_health_response(status: HealthStatus, block_age_seconds: Option<u64>) -> Response {
    let body = json!({"status": status.as_str(), "block_age_seconds": block_age_seconds});
    (status.code(), Json(body)).into_response()
}
