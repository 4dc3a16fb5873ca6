//! Exporters: JSON lines on stderr, OTLP over gRPC or HTTP as the standard `OTEL_*` variables say, Prometheus text.

use std::{sync::OnceLock, time::Duration};

use opentelemetry::{KeyValue, global, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource, metrics::SdkMeterProvider, propagation::TraceContextPropagator, trace::SdkTracerProvider,
};
use prometheus::{Registry, TextEncoder};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, Layer, filter::Targets, prelude::*};

use crate::{
    log::{FieldStore, JsonLine, NoFields},
    names::SCOPE,
};

/// Crates of this project, as log and span targets. Dependencies log warnings only, whatever the level: some of them print
/// whole requests at debug.
const OWN_TARGETS: [&str; 7] = ["svc", "svc_wire", "svc_otel", "svc_kit", "svc_operator", "svc_indexer", "svc_devnet"];

static PROMETHEUS: OnceLock<Registry> = OnceLock::new();

/// Running exporters. Shut them down before the process ends, or the last spans are lost.
pub struct Telemetry {
    tracer: Option<SdkTracerProvider>,
    meter: SdkMeterProvider,
}

/// Telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// An exporter's settings are not usable.
    #[error("telemetry exporter: {0}")]
    Exporter(String),
    /// Telemetry was started before in this process.
    #[error("telemetry is already running")]
    AlreadyRunning,
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty())
}

/// Whether the standard variables ask for OTLP export of `signal` (`TRACES` or `METRICS`).
fn wants_otlp(signal: &str) -> bool {
    let is_disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    let is_none = std::env::var(format!("OTEL_{signal}_EXPORTER")).is_ok_and(|value| value == "none");
    let has_endpoint =
        is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
    has_endpoint && !is_disabled && !is_none
}

impl Telemetry {
    /// Starts logs, traces and metrics for this process. Call inside a tokio runtime: the gRPC exporter connects lazily on it.
    pub fn start(level: LevelFilter, version: &str) -> Result<Self, TelemetryError> {
        let failed = |error: &dyn std::fmt::Display| TelemetryError::Exporter(error.to_string());
        let mut resource = Resource::builder();
        if !is_set("OTEL_SERVICE_NAME") {
            resource = resource.with_service_name(SCOPE);
        }
        let resource = resource.with_attribute(KeyValue::new("service.version", version.to_owned())).build();

        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .without_units()
            .without_counter_suffixes()
            .build()
            .map_err(|error| failed(&error))?;
        let mut meter = SdkMeterProvider::builder().with_resource(resource.clone()).with_reader(reader);
        if wants_otlp("METRICS") {
            let exporter = opentelemetry_otlp::MetricExporter::builder().build().map_err(|error| failed(&error))?;
            meter = meter.with_periodic_exporter(exporter);
        }
        let meter = meter.build();
        global::set_meter_provider(meter.clone());
        PROMETHEUS.set(registry).map_err(|_| TelemetryError::AlreadyRunning)?;

        global::set_text_map_propagator(TraceContextPropagator::new());
        let tracer = if wants_otlp("TRACES") {
            let exporter = opentelemetry_otlp::SpanExporter::builder().build().map_err(|error| failed(&error))?;
            Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
        } else {
            None
        };

        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .fmt_fields(NoFields)
            .event_format(JsonLine);
        let spans = tracer.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(SCOPE))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_target(false)
                .with_filter(own_spans())
        });
        tracing_subscriber::registry()
            .with(FieldStore.and_then(lines).with_filter(log_filter(level)))
            .with(spans)
            .try_init()
            .map_err(|_| TelemetryError::AlreadyRunning)?;
        Ok(Self { tracer, meter })
    }

    /// Exports what is left and stops. Blocks for a few seconds at most; call it outside async code.
    pub fn stop(self) {
        if let Some(tracer) = self.tracer {
            let _ = tracer.force_flush();
            let _ = tracer.shutdown_with_timeout(Duration::from_secs(5));
        }
        let _ = self.meter.shutdown();
    }
}

fn own_spans() -> Targets {
    OWN_TARGETS.iter().fold(Targets::new().with_default(LevelFilter::OFF), |targets, target| {
        targets.with_target(*target, LevelFilter::INFO)
    })
}

fn log_filter(level: LevelFilter) -> EnvFilter {
    let own = OWN_TARGETS.map(|target| format!("{target}={level}")).join(",");
    EnvFilter::new(format!("{},{own}", level.min(LevelFilter::WARN)))
}

/// Prometheus text of all metrics; empty when telemetry was not started.
pub fn render_metrics() -> String {
    let Some(registry) = PROMETHEUS.get() else {
        return String::new();
    };
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_default()
}
