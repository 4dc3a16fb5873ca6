//! Mailboxes: self-messages and outside streams.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    ActorBehaviour, ActorContext, ActorFailure, Handle,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt;

use super::fixture::{Msg, start_tree};

/// Records for every ended span whether it is a root, and its number of links.
#[derive(Debug, Clone, Default)]
struct SpanShapeRecorder(Arc<Mutex<Vec<(bool, usize)>>>);

impl SpanProcessor for SpanShapeRecorder {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}
    fn on_end(&self, span: SpanData) {
        let is_root = span.parent_span_id == SpanId::INVALID;
        self.0.lock().expect("not poisoned").push((is_root, span.links.links.len()));
    }
    fn force_flush(&self) -> opentelemetry_sdk::error::OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> opentelemetry_sdk::error::OTelSdkResult {
        Ok(())
    }
}

/// With the default span propagation of the actor library, this aborts the process.
#[test]
fn a_hundred_thousand_self_messages_nest_neither_stack_nor_spans() {
    let shapes = SpanShapeRecorder::default();
    let provider = SdkTracerProvider::builder().with_span_processor(shapes.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tree = start_tree(8, |child| child).await;
        let handled = tree.probe.ask_within(Duration::from_secs(300), |reply| Msg::Loop(100_000, reply)).await;
        assert_eq!(handled, Ok(100_001));
    });
    let shapes = shapes.0.lock().expect("not poisoned");
    assert!(shapes.iter().filter(|(is_root, links)| *is_root && *links == 1).count() >= 99_999);
    assert!(shapes.iter().all(|(_, links)| *links <= 1));
}

#[tokio::test]
async fn a_stream_waits_for_room_instead_of_queueing_without_bound() {
    struct StalledActor;
    impl ActorBehaviour for StalledActor {
        const KIND: &'static str = "slow";
        type Msg = Msg;
        type Args = Arc<Mutex<Option<tokio::sync::oneshot::Sender<u64>>>>;
        type State = ();
        async fn start(context: &ActorContext<Msg>, args: &Arc<Self::Args>) -> Result<(), ActorFailure> {
            let (mailbox, done) = (context.mailbox(), args.lock().expect("not poisoned").take());
            context.spawn(async move {
                let mut sent = 0;
                let flood = async {
                    while mailbox.send_with_backpressure(Msg::Stream).await {
                        sent += 1;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_millis(200), flood).await;
                if let Some(done) = done {
                    let _ = done.send(sent);
                }
            });
            Ok(())
        }
        async fn handle(_: &ActorContext<Msg>, _: Msg, (): &mut ()) -> Result<(), ActorFailure> {
            std::future::pending().await
        }
        fn observe((): &()) -> serde_json::Value {
            json!({})
        }
    }
    let (done, sent) = tokio::sync::oneshot::channel();
    let slow = Handle::new("slow", "slow", 8);
    let root = Supervisor::new("root");
    let child = ChildSpec::worker::<StalledActor>(&slow, Arc::new(Mutex::new(Some(done))));
    root.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    let sent = sent.await.expect("reported");
    assert!((200..=300).contains(&sent), "{sent} items were taken in");
}
