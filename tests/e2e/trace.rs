//! One call, as a real OTLP receiver sees it.

use std::time::Duration;

use fake_opentelemetry_collector::{ExportedSpan, FakeCollectorServer};
use rmcp::model::{CallToolRequestParams, RequestParamsMeta};
use svc::client::Client;

use super::{
    harness::{CREATE, arguments, ecosystem, quick},
    secrets::{assert_no_secret, serve},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_from_the_caller_through_every_stage() {
    let world = quick().await;
    let mut collector = FakeCollectorServer::start().await.expect("a receiver");
    let endpoint = collector.endpoint();
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || {
        let export = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ];
        serve(&rpc, &indexer, &export)
    })
    .await
    .expect("joins");
    let client = Client::connect(&served.url, served.token()).await.expect("connects");
    let mut request = CallToolRequestParams::new(CREATE).with_arguments(arguments(ecosystem("traced")));
    request.set_traceparent(&format!("00-{TRACE}-{PARENT}-01"));
    let result = client.service().call_tool(request).await.expect("answered").structured_content.expect("structured");
    let hash = result["tx_hash"].as_str().expect("a hash").to_owned();
    client.close().await;

    let terminated = tokio::task::spawn_blocking(move || served.terminate());
    let mut spans: Vec<ExportedSpan> = Vec::new();
    loop {
        let batch = collector.exported_spans(1, Duration::from_secs(10)).await;
        let is_last = batch.is_empty();
        spans.extend(batch);
        let has_all = spans.iter().any(|span| span.name == format!("tools/call {CREATE}"))
            && spans.iter().any(|span| span.name == "await_index");
        if is_last || has_all {
            break;
        }
    }
    let of_trace: Vec<&ExportedSpan> = spans.iter().filter(|span| span.trace_id == TRACE).collect();
    let names: Vec<&str> = of_trace.iter().map(|span| span.name.as_str()).collect();
    let find =
        |name: &str| *of_trace.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} in {names:?}"));

    let server = find(&format!("tools/call {CREATE}"));
    assert_eq!((server.parent_span_id.as_str(), server.kind.as_str()), (PARENT, "SPAN_KIND_SERVER"));
    assert!(
        server.attributes["gen_ai.tool.name"].contains(CREATE)
            && server.attributes["mcp.method.name"].contains("tools/call")
    );
    for stage in ["simulate", "sign", "broadcast", "await_inclusion", "await_index"] {
        let span = find(stage);
        assert_eq!(span.parent_span_id, server.span_id, "{stage}");
        if stage != "simulate" {
            assert!(span.attributes["chain.tx.hash"].contains(&hash), "{stage}: {:?}", span.attributes);
        }
    }
    let upstream = find("POST broadcast_tx_sync");
    assert_eq!(
        (upstream.parent_span_id.as_str(), upstream.kind.as_str()),
        (find("broadcast").span_id.as_str(), "SPAN_KIND_CLIENT")
    );
    assert!(upstream.attributes["svc.upstream.kind"].contains("rpc"));
    let simulated = find("POST /cosmos.tx.v1beta1.Service/Simulate");
    assert_eq!(simulated.parent_span_id, find("simulate").span_id);

    // Message spans are roots of their own, linked to whoever sent the message.
    let submit = spans.iter().find(|span| span.name == "signer submit").expect("a message span");
    assert_eq!(submit.parent_span_id, "");
    assert!(submit.links.iter().any(|link| link.span_id == server.span_id && link.trace_id == TRACE));
    assert!(submit.attributes.contains_key("svc.actor.mailbox_wait_seconds"));
    assert_no_secret("trace", &format!("{spans:?}"));
    terminated.await.expect("joins");
}
