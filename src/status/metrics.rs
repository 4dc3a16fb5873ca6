//! The metrics exposition, the same on every listener.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

/// All metrics of the process in the Prometheus text format.
pub(crate) async fn metrics_response() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], svc_otel::render_metrics()).into_response()
}
