//! Telemetry of the svc systems: every span, metric and attribute name, the exporters behind them, and the trace context that
//! travels between actors and over the wire.
//!
//! Actors never spell a telemetry name: they call [`metrics`] and [`trace`].

pub mod log;
pub mod metrics;
pub mod names;
mod pipeline;
pub mod trace;

pub use pipeline::{Telemetry, TelemetryError, render_metrics};
