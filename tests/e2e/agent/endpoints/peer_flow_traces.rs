//! The traces of the peer flow, and its secrets: a call is one trace from the command to the tool, and no output has a token or a key.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::json;
use svc_test_support::otlp_receiver::OtlpReceiver;

use crate::e2e::agent::{endpoints::peer_flow::PeerWorld, processes::two_agents::ValidatorPlace};

/// The value of the key that the operator has written down.
const PLANTED: &str = "planted-key-value";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_and_its_secrets_are_in_no_output() {
    let receiver = OtlpReceiver::start().await;
    let export = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_METRICS_EXPORTER", "none".to_owned()),
    ];
    let loud = [("AGENT_LOG_LEVEL", "trace".to_owned()), ("ADMIN_API_LOG_LEVEL", "trace".to_owned())];
    let of_both = BTreeMap::from_iter(export.iter().cloned().chain(loud));
    let world = PeerWorld::start_unknown(ValidatorPlace { of_both, ..ValidatorPlace::default() }).await;
    world.agents.admit().await;
    let more: Vec<_> = export.iter().cloned().chain([("SVC_LOG_LEVEL", "trace".to_owned())]).collect();
    let tools = world.serve_tools(&more).await;
    let (pages, _) = world.serve_pages().await;
    world.put_entry("mcp", "MCP", &tools.url).await;
    for page in ["read", "members", "api", "turnstile", "closed"] {
        world.put_entry(page, "Website", &format!("{pages}/{page}")).await;
    }
    world.set_conditions(&world.conditions()).await;
    let exported: Vec<(&str, &str)> = export.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let call = async |words: &[&str]| {
        let endpoint = world.endpoint(words[0]);
        let words = [&["call", endpoint.as_str()], &words[1..]].concat();
        world.agents.applicant_home.peer_with(&words, "", &exported).await
    };
    let mut output = String::new();
    for words in [&["read"][..], &["members"], &["api"], &["turnstile"], &["mcp", "svc.idx.es.getEcosystem", "id=1"]] {
        let called = call(words).await;
        output.push_str(called.done());
        output.push_str(&called.errors);
    }
    // The tokens that the caller's agent holds.
    let tokens = [world.token_for("mcp").await, world.token_for("turnstile").await];

    // One trace from the command to the tool.
    let tool = "tools/call svc.idx.es.getEcosystem";
    let wanted = [
        "peer call",
        "POST /v2/vt/peer-resolutions",
        "call_peer",
        "POST /v2/vt/access-requests",
        "request_access",
        tool,
    ];
    let is_one_trace = async || {
        let spans = receiver.spans();
        let Some(called) = spans.iter().find(|span| span.name == tool) else { return false };
        let of_trace: BTreeSet<&str> =
            spans.iter().filter(|span| span.trace_id == called.trace_id).map(|span| span.name.as_str()).collect();
        wanted.iter().all(|name| of_trace.contains(name))
    };
    world.agents.world.wait_until("the call is one trace", is_one_trace).await;

    // Each grant and revocation is a webhook, and none has a secret.
    let (is_ok, revoked) = world.agents.validator_home.run(&["access", "revoke", "--all"]).await;
    assert!(is_ok, "{revoked}");
    let bodies = &world.agents.heard_by_validator;
    let states = || -> Vec<String> {
        let of_grants = |body: &serde_json::Value| body["type"] == "vt.access-grants.state-updated";
        let bodies = bodies.bodies().into_iter().filter(of_grants);
        bodies.map(|body| format!("{} {}", body["data"]["material"], body["data"]["state"])).collect()
    };
    let is_complete = async || {
        ["\"bearer\" \"active\"", "\"bearer\" \"revoked\"", "\"key\" \"active\"", "\"credential\" \"active\""]
            .iter()
            .all(|state| states().iter().any(|heard| heard == state))
    };
    world.agents.world.wait_until("the webhooks", is_complete).await;

    let spans = format!("{:?}", receiver.spans());
    let agents = world.agents;
    let pids = [agents.validator.child.id(), agents.applicant.child.id(), tools.child.id()];
    let mut outputs = vec![("the output of the commands", output), ("the spans", spans)];
    for pid in pids {
        let read = |file: &str| {
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/{file}")).expect("readable")).into_owned()
        };
        outputs.push(("an environment", read("environ")));
        // No process of these can leave a core file.
        let limits = read("limits");
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a limit");
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    }
    let heard = [agents.heard_by_validator.bodies(), agents.heard_by_applicant.bodies()];
    outputs.push(("the webhooks", json!(heard).to_string()));
    let (code, log) = tokio::task::spawn_blocking(move || tools.terminate()).await.expect("joins");
    assert_eq!(code, Some(0));
    outputs.push(("the log of the tool server", log));
    let homes = [agents.validator_home.directory.path().to_owned(), agents.applicant_home.directory.path().to_owned()];
    let ended = tokio::task::spawn_blocking(move || [agents.validator.terminate(), agents.applicant.terminate()]);
    for (is_ok, log) in ended.await.expect("joins") {
        assert!(is_ok && log.contains("made a DID"), "the log is whole");
        outputs.push(("the log of an agent", log));
    }
    let mut secrets = vec![PLANTED.to_owned()];
    secrets.extend(tokens);
    for (place, text) in &outputs {
        for secret in &secrets {
            assert!(!text.contains(secret.as_str()), "a secret is in {place}");
        }
    }
    for home in &homes {
        assert_eq!(files_with(home, &secrets), Vec::<String>::new());
    }
}

/// The files of a directory in which a text stands.
fn files_with(directory: &Path, texts: &[String]) -> Vec<String> {
    let files = std::fs::read_dir(directory).expect("a directory").flatten().filter(|entry| entry.path().is_file());
    let has = |bytes: &[u8]| texts.iter().any(|text| bytes.windows(text.len()).any(|part| part == text.as_bytes()));
    files
        .filter(|entry| has(&std::fs::read(entry.path()).unwrap_or_default()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
