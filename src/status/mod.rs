//! Status routes that every listener has: health for a process supervisor, metrics for Prometheus.

mod health;
mod metrics;

pub(crate) use health::{HealthStatus, health_response, indexer_health_response};
pub(crate) use metrics::metrics_response;
