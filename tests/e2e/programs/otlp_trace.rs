//! The spans of one call, as an OTLP receiver gets them.

use rmcp::model::{CallToolRequestParams, RequestParamsMeta};
use svc::mcp_client::{McpClient, result_content};
use svc_test_support::otlp_receiver::{ExportedSpan, OtlpReceiver};

use crate::e2e::{
    callers::secrets::{ServerChild, assert_no_secret, spawn_server},
    harness::{CREATE_ECOSYSTEM, TEST_TIMEOUT, TestNetwork, ecosystem_arguments, into_arguments, start_quick_network},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A server that exports its spans to a receiver.
async fn traced(world: &TestNetwork, timeout_ms: &str) -> (OtlpReceiver, ServerChild) {
    let receiver = OtlpReceiver::start().await;
    let (endpoint, timeout) = (receiver.endpoint(), timeout_ms.to_owned());
    let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
    let served = tokio::task::spawn_blocking(move || {
        let export = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("SVC_TX_TIMEOUT_MS", timeout.as_str()),
        ];
        spawn_server(&rpc, &indexer, &export)
    });
    (receiver, served.await.expect("joins"))
}

/// The exported spans, once there is a span of each name.
async fn until_exported(receiver: &OtlpReceiver, names: &[&str]) -> Vec<ExportedSpan> {
    let has_all = |spans: &[ExportedSpan]| names.iter().all(|name| spans.iter().any(|span| span.name == *name));
    receiver.spans_when(TEST_TIMEOUT, has_all).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reconciliation_after_a_timeout_is_a_trace_linked_to_the_call() {
    let world = start_quick_network().await;
    let (receiver, served) = traced(&world, "500").await;
    world.network.devnet.node.update_faults(|faults| faults.hold_inclusion = true);
    let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
    let mut request =
        CallToolRequestParams::new(CREATE_ECOSYSTEM).with_arguments(into_arguments(ecosystem_arguments("late")));
    request.set_traceparent(&format!("00-{TRACE}-{PARENT}-01"));
    let answer = result_content(&client.service().call_tool(request).await.expect("answered"));
    assert_eq!(answer["code"], "BCAST_TIMEOUT");
    client.close().await;
    // The span of the call ends with its answer, and that of the reconciliation with the outcome: the transaction expires.
    let call = format!("tools/call {CREATE_ECOSYSTEM}");
    let spans = until_exported(&receiver, &[&call, "reconcile"]).await;
    let server = spans.iter().find(|span| span.name == call).expect("the call's span");
    let reconcile = spans.iter().find(|span| span.name == "reconcile").expect("a span of what followed");
    assert_eq!(reconcile.parent_span_id, "");
    assert!(reconcile.links.iter().any(|link| link.trace_id == TRACE && link.span_id == server.span_id));
    let hash = answer["details"]["tx_hash"].as_str().expect("a hash");
    let waited = spans.iter().find(|span| span.name == "await_inclusion" && span.trace_id == reconcile.trace_id);
    assert!(waited.expect("below it").attributes["chain.tx.hash"].contains(hash));
    tokio::task::spawn_blocking(move || served.terminate()).await.expect("joins");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_of_all_stages_of_a_call_are_one_trace() {
    let world = start_quick_network().await;
    let (receiver, served) = traced(&world, "30000").await;
    let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
    let mut request =
        CallToolRequestParams::new(CREATE_ECOSYSTEM).with_arguments(into_arguments(ecosystem_arguments("traced")));
    request.set_traceparent(&format!("00-{TRACE}-{PARENT}-01"));
    let result = client.service().call_tool(request).await.expect("answered").structured_content.expect("structured");
    let hash = result["tx_hash"].as_str().expect("a hash").to_owned();
    client.close().await;

    let terminated = tokio::task::spawn_blocking(move || served.terminate());
    let call = format!("tools/call {CREATE_ECOSYSTEM}");
    let spans = until_exported(&receiver, &[&call, "await_index"]).await;
    let of_trace: Vec<&ExportedSpan> = spans.iter().filter(|span| span.trace_id == TRACE).collect();
    let names: Vec<&str> = of_trace.iter().map(|span| span.name.as_str()).collect();
    let find =
        |name: &str| *of_trace.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} in {names:?}"));

    let server = find(&format!("tools/call {CREATE_ECOSYSTEM}"));
    assert_eq!((server.parent_span_id.as_str(), server.kind.as_str()), (PARENT, "SPAN_KIND_SERVER"));
    assert!(
        server.attributes["gen_ai.tool.name"].contains(CREATE_ECOSYSTEM)
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

    // The span of a message is a root, linked to the span of its sender.
    let submit = spans.iter().find(|span| span.name == "signer submit").expect("a message span");
    assert_eq!(submit.parent_span_id, "");
    assert!(submit.links.iter().any(|link| link.span_id == server.span_id && link.trace_id == TRACE));
    assert!(submit.attributes.contains_key("svc.actor.mailbox_wait_seconds"));
    assert_no_secret("trace", &format!("{spans:?}"));
    terminated.await.expect("joins");
}
