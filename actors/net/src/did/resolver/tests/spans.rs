//! The spans of a resolution.

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use tracing_subscriber::layer::SubscriberExt;

use super::*;

/// Spans that have ended.
#[derive(Debug, Clone, Default)]
struct SpanCollector(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for SpanCollector {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}
    fn on_end(&self, span: SpanData) {
        self.0.lock().expect("not poisoned").push(span);
    }
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[tokio::test]
async fn a_resolution_is_a_span_below_its_callers() {
    let ended = SpanCollector::default();
    let provider = SdkTracerProvider::builder().with_span_processor(ended.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    // With a single subscriber, tests in other threads without one would disable the spans of all threads.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let (site, resolver) = (DidWebServer::start().await, resolver());
    site.put(DID_JSON, "", json!({"id": site.did_web()}));
    let caller = tracing::info_span!("caller");
    let requests = async {
        resolver.resolve(&site.did_web()).await.expect("a document");
        resolver.resolve(&site.did_web()).await.expect("the cached one");
        resolver.resolve(&format!("{}:x", site.did_web())).await.expect_err("absent");
    };
    tracing::Instrument::instrument(requests, caller).await;
    let spans = ended.0.lock().expect("not poisoned");
    let caller = spans.iter().find(|span| span.name == "caller").expect("the caller's");
    let recorded: Vec<Vec<(String, String)>> = spans
        .iter()
        .filter(|span| span.name == "resolve_did" && span.parent_span_id == caller.span_context.span_id())
        .map(|span| {
            let attributes = span.attributes.iter().map(|one| (one.key.to_string(), one.value.to_string()));
            attributes.filter(|(key, _)| key.starts_with("svc.") || key == "error.type").collect()
        })
        .collect();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        recorded,
        [
            vec![pair("svc.did.method", "web"), pair("svc.did.outcome", "ok")],
            vec![
                pair("svc.did.method", "web"),
                pair("svc.did.outcome", "did_fetch_failed"),
                pair("error.type", "did_fetch_failed"),
            ],
        ]
    );
}
