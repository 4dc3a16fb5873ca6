//! Telemetry of the svc systems: metrics, spans and log lines, the trace context that travels between actors and over the wire,
//! and the exporters.
//!
//! Other crates never spell the name of a metric, a span or an attribute: they call the functions of [`metrics`] and [`trace`].
//! This crate is no logger: code logs with `tracing`, and [`Telemetry`] formats the lines.
//!
//! ```
//! use std::time::Duration;
//!
//! use svc_otel::{Telemetry, metrics, render_metrics};
//! use tracing::level_filters::LevelFilter;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let telemetry = Telemetry::start(LevelFilter::INFO, "1.0.0")?;
//! metrics::record_tool_call("get_tx", "", Duration::from_millis(20));
//! assert!(render_metrics().contains(r#"svc_mcp_tool_calls_total{error_code="",outcome="ok",tool="get_tx"} 1"#));
//! tokio::task::spawn_blocking(|| telemetry.stop()).await?;
//! # Ok(())
//! # }
//! ```

mod exporters;
#[cfg(test)]
mod exposition_tests;
mod log;
pub mod metrics;
pub mod names;
pub mod trace;

pub use exporters::{LogLevels, Telemetry, TelemetryError, render_metrics};
