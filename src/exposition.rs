//! Metrics for whoever scrapes them, on every listener alike.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};

/// The Prometheus text format.
pub(crate) async fn metrics() -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], svc_otel::render_metrics()).into_response()
}
