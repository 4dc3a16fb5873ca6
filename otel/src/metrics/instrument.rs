//! Instruments, and the macros that declare them where they are used.

use std::time::Duration;

use opentelemetry::{KeyValue, global, metrics};

use crate::names::SCOPE;

/// Upper bounds in seconds, from a local in-memory step to the longest wait of a call.
const DURATION_BUCKETS: [f64; 14] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Declares an instrument of one kind and yields it; it is made once, at the first use.
macro_rules! instrument {
    ($kind:ident, $name:literal, $help:literal) => {{
        static INSTRUMENT: std::sync::LazyLock<$crate::metrics::instrument::$kind> =
            std::sync::LazyLock::new(|| $crate::metrics::instrument::$kind::new($name, $help));
        &*INSTRUMENT
    }};
}
pub(super) use instrument;

/// Counts events.
pub(super) struct Counter(metrics::Counter<u64>);

impl Counter {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Self(global::meter(SCOPE).u64_counter(name).with_description(help).build())
    }

    /// Counts one event with these labels.
    pub(super) fn increment<const N: usize>(&self, labels: [(&'static str, &str); N]) {
        self.add(1, labels);
    }

    pub(super) fn add<const N: usize>(&self, count: u64, labels: [(&'static str, &str); N]) {
        self.0.add(count, &key_values(labels));
    }
}

/// Holds the newest value of a quantity.
pub(super) struct Gauge(metrics::Gauge<u64>);

impl Gauge {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Self(global::meter(SCOPE).u64_gauge(name).with_description(help).build())
    }

    pub(super) fn set<const N: usize>(&self, value: u64, labels: [(&'static str, &str); N]) {
        self.0.record(value, &key_values(labels));
    }
}

/// Sums changes up and down.
pub(super) struct UpDownCounter(metrics::UpDownCounter<i64>);

impl UpDownCounter {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        Self(global::meter(SCOPE).i64_up_down_counter(name).with_description(help).build())
    }

    pub(super) fn add<const N: usize>(&self, change: i64, labels: [(&'static str, &str); N]) {
        self.0.add(change, &key_values(labels));
    }
}

/// Distributes durations over buckets, in seconds.
pub(super) struct DurationHistogram(metrics::Histogram<f64>);

impl DurationHistogram {
    pub(super) fn new(name: &'static str, help: &'static str) -> Self {
        let meter = global::meter(SCOPE);
        let histogram = meter.f64_histogram(name).with_description(help);
        Self(histogram.with_boundaries(DURATION_BUCKETS.to_vec()).build())
    }

    pub(super) fn record<const N: usize>(&self, duration: Duration, labels: [(&'static str, &str); N]) {
        self.0.record(duration.as_secs_f64(), &key_values(labels));
    }
}

fn key_values<const N: usize>(labels: [(&'static str, &str); N]) -> [KeyValue; N] {
    labels.map(|(key, value)| KeyValue::new(key, value.to_owned()))
}
