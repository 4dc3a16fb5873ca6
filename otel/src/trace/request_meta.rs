//! The trace context in the `_meta` of a request.

use opentelemetry::propagation::Extractor;

/// The members of `_meta` that carry a context.
pub(super) struct RequestMetaExtractor {
    pub(super) traceparent: Option<String>,
    pub(super) tracestate: Option<String>,
    pub(super) baggage: Option<String>,
}

impl Extractor for RequestMetaExtractor {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            "baggage" => self.baggage.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate", "baggage"]
    }
}
