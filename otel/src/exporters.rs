//! Exporters: JSON lines on stderr, OTLP over gRPC or HTTP as configured by the standard `OTEL_*` variables, Prometheus text.

use std::{sync::OnceLock, time::Duration};

use opentelemetry::{KeyValue, global, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource, metrics::SdkMeterProvider, propagation::TraceContextPropagator, trace::SdkTracerProvider,
};
use prometheus::{Registry, TextEncoder};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{EnvFilter, Layer, filter::Targets, prelude::*};

use crate::{
    log::{EmptyFieldFormat, JsonLineFormat, SpanFieldLayer},
    names::SCOPE,
};

/// Prefix of the log and span targets of this project: the name of every crate of the workspace begins with it. All other crates
/// log warnings only, at every level: some of them print whole requests at debug.
const PROJECT_TARGET: &str = "svc";

static PROMETHEUS: OnceLock<Registry> = OnceLock::new();

/// Running exporters. Shut them down before the process ends, or the last spans are lost.
pub struct Telemetry {
    tracer: Option<SdkTracerProvider>,
    meter: SdkMeterProvider,
}

/// An error of [`Telemetry::start`].
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The settings of an exporter are not usable.
    #[error("telemetry exporter: {0}")]
    Exporter(String),
    /// This process has started telemetry before.
    #[error("telemetry is already running")]
    AlreadyRunning,
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty())
}

/// Whether the standard variables ask for OTLP export of `signal` (`TRACES` or `METRICS`).
fn is_otlp_enabled(signal: &str) -> bool {
    let is_disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    let is_none = std::env::var(format!("OTEL_{signal}_EXPORTER")).is_ok_and(|value| value == "none");
    let has_endpoint =
        is_set("OTEL_EXPORTER_OTLP_ENDPOINT") || is_set(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
    has_endpoint && !is_disabled && !is_none
}

impl Telemetry {
    /// Starts logs, traces and metrics for this process. Call it inside a tokio runtime: the gRPC exporter connects on that runtime.
    ///
    /// # Errors
    /// When an exporter refuses its settings, and when telemetry runs already.
    pub fn start(levels: impl Into<LogLevels>, version: &str) -> Result<Self, TelemetryError> {
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
        if is_otlp_enabled("METRICS") {
            let exporter = opentelemetry_otlp::MetricExporter::builder().build().map_err(|error| failed(&error))?;
            meter = meter.with_periodic_exporter(exporter);
        }
        let meter = meter.build();
        PROMETHEUS.set(registry).map_err(|_| TelemetryError::AlreadyRunning)?;
        global::set_meter_provider(meter.clone());

        global::set_text_map_propagator(TraceContextPropagator::new());
        let tracer = if is_otlp_enabled("TRACES") {
            let exporter = opentelemetry_otlp::SpanExporter::builder().build().map_err(|error| failed(&error))?;
            Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
        } else {
            None
        };

        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .fmt_fields(EmptyFieldFormat)
            .event_format(JsonLineFormat);
        let spans = tracer.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(SCOPE))
                .with_location(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_target(false)
                .with_filter(project_span_filter())
        });
        tracing_subscriber::registry()
            .with(SpanFieldLayer.and_then(lines).with_filter(log_filter(&levels.into())))
            .with(spans)
            .try_init()
            .map_err(|_| TelemetryError::AlreadyRunning)?;
        Ok(Self { tracer, meter })
    }

    /// Exports the remaining spans and metrics, and stops. Blocks for a few seconds at most; call it outside async code.
    pub fn stop(self) {
        if let Some(tracer) = self.tracer {
            let _ = tracer.force_flush();
            let _ = tracer.shutdown_with_timeout(Duration::from_secs(5));
        }
        let _ = self.meter.shutdown();
    }
}

fn project_span_filter() -> Targets {
    Targets::new().with_default(LevelFilter::OFF).with_target(PROJECT_TARGET, LevelFilter::INFO)
}

/// The levels of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLevels {
    /// Level of the project's crates.
    pub crates: LevelFilter,
    /// Level of the program itself: its command line and its front ends.
    pub program: LevelFilter,
}

impl From<LevelFilter> for LogLevels {
    fn from(level: LevelFilter) -> Self {
        Self { crates: level, program: level }
    }
}

fn log_filter(levels: &LogLevels) -> EnvFilter {
    let LogLevels { crates, program } = levels;
    let others = crates.min(&LevelFilter::WARN);
    if crates == program {
        return EnvFilter::new(format!("{others},{PROJECT_TARGET}={crates}"));
    }
    EnvFilter::new(format!("{others},{PROJECT_TARGET}={crates},{PROJECT_TARGET}::={program}"))
}

/// Prometheus text of all metrics; empty when telemetry was not started.
pub fn render_metrics() -> String {
    let Some(registry) = PROMETHEUS.get() else {
        return String::new();
    };
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tracing::Level;

    use super::*;

    /// Package names of the workspace members, from the manifests.
    fn workspace_crates() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the root manifest");
        let (_, list) = manifest.split_once("members = [").expect("a list of members");
        let (list, _) = list.split_once(']').expect("the end of the list");
        let members = list.split(',').map(|member| member.trim().trim_matches('"')).filter(|member| !member.is_empty());
        std::iter::once(".").chain(members).map(|member| package_name(&root.join(member))).collect()
    }

    fn package_name(directory: &Path) -> String {
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
        let (_, package) = manifest.split_once("[package]").expect("a package");
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
        name.trim_matches('"').replace('-', "_")
    }

    #[test]
    fn every_crate_of_the_workspace_exports_spans_and_no_other_crate_does() {
        let crates = workspace_crates();
        assert!(crates.len() > 5 && crates.contains(&"svc_net".to_owned()), "{crates:?}");
        let filter = project_span_filter();
        for name in &crates {
            assert!(filter.would_enable(&format!("{name}::module"), &Level::INFO), "{name}");
            assert!(!filter.would_enable(&format!("{name}::module"), &Level::DEBUG), "{name}");
        }
        for foreign in ["hyper::client", "rmcp::service", "reqwest", "ractor::actor"] {
            assert!(!filter.would_enable(foreign, &Level::ERROR), "{foreign}");
        }
    }

    #[test]
    fn the_log_level_is_that_of_the_project_and_other_crates_log_warnings() {
        let directives = |level: LevelFilter| log_filter(&level.into()).to_string();
        assert_eq!(directives(LevelFilter::DEBUG), "svc=debug,warn");
        assert_eq!(directives(LevelFilter::ERROR), "svc=error,error");
        let levels = LogLevels { crates: LevelFilter::WARN, program: LevelFilter::INFO };
        assert_eq!(log_filter(&levels).to_string(), "svc::=info,svc=warn,warn");
    }
}
