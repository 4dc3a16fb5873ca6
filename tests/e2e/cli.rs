//! The command line: its client commands and `svc check`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::harness::{
    CREATE_ECOSYSTEM, OPERATOR_MNEMONIC, TEST_TIMEOUT, TestNetwork, ecosystem_arguments, start_quick_network,
};

struct CommandOutput {
    is_ok: bool,
    out: String,
    err: String,
}

fn command(world: &TestNetwork, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
    command
        .args(words)
        .env_clear()
        .env("SVC_MCP_URL", world.network.mcp_url())
        .env("MCP_BEARER_TOKEN", &world.network.bearer_token)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn command_output(mut command: Command) -> CommandOutput {
    let output = tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("in time").expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    CommandOutput { is_ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

async fn run(world: &TestNetwork, words: &[&str]) -> CommandOutput {
    command_output(command(world, words)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_explained_called_with_typed_arguments_and_completed() {
    let world = start_quick_network().await;
    let explained = run(&world, &["tools", CREATE_ECOSYSTEM]).await;
    assert!(explained.is_ok && explained.out.contains("* did=<string>") && explained.out.contains("dry_run=<boolean>"));
    let mistyped = run(&world, &["tools", "svc.idx.es.listecosystems"]).await;
    assert!(!mistyped.is_ok && mistyped.err.contains("svc.idx.es.listEcosystems"), "{}", mistyped.err);

    let given = ecosystem_arguments("words");
    let words: Vec<String> = given
        .as_object()
        .expect("an object")
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().expect("text")))
        .collect();
    let mut call = vec!["call", CREATE_ECOSYSTEM, "--json"];
    call.extend(words.iter().map(String::as_str));
    let made = run(&world, &call).await;
    assert!(made.is_ok, "{}", made.err);
    let made: Value = serde_json::from_str(&made.out).expect("JSON");
    assert_eq!(made["indexer_synced"], true);
    let id = made["response"]["ecosystem_id"].to_string().replace('"', "");
    let read = run(&world, &["call", "svc.idx.es.getEcosystem", &format!("id={id}"), "gf_data=none", "--json"]).await;
    let read: Value = serde_json::from_str(&read.out).expect("JSON");
    assert_eq!(read["ecosystem"]["did"], "did:web:words.example");
    let refused = run(&world, &["call", CREATE_ECOSYSTEM, "did=7", "--json"]).await;
    assert!(!refused.is_ok && refused.err.contains("INPUT_INVALID"), "{}", refused.err);
    let unlisted = run(&world, &["call", "svc.graph.did.trustSummary", "did=did:web:x"]).await;
    assert!(!unlisted.is_ok && unlisted.err.contains("SVC_GRAPH"), "{}", unlisted.err);

    for (words, expected) in [
        (&["complete", "svc.idx.es.getEcosystem", "id="][..], format!("id={id}")),
        (&["complete", "svc.idx.es.getEcosystem", "gf"], "gf_data=".to_owned()),
        (&["complete", "svc.idx.es."], "svc.idx.es.getEcosystem".to_owned()),
    ] {
        let completed = run(&world, words).await;
        assert!(completed.out.lines().any(|line| line == expected), "{words:?}: {}", completed.out);
    }
    let script = run(&world, &["completions", "bash"]).await;
    assert!(script.is_ok && script.out.contains("complete"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_resource_is_printed_after_each_change() {
    let world = start_quick_network().await;
    let listed = run(&world, &["resource"]).await;
    assert_eq!(listed.out.lines().count(), 8, "{}", listed.out);
    let mut watch = command(&world, &["resource", "svc://own/corporation", "--watch"]);
    let mut child = watch.stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut until = async |wanted: &str| {
        let found = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                let line = lines.next_line().await.expect("readable").expect("not ended");
                if line.starts_with("ecosystems") && line.contains(wanted) {
                    return;
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("{wanted:?} is not printed"));
    };
    until("[]").await;
    world.call_ok(CREATE_ECOSYSTEM, ecosystem_arguments("watched")).await;
    until("did:web:watched.example").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_each_problem() {
    let world = start_quick_network().await;
    let check = |changes: &[(&str, &str)]| {
        let mut command = command(&world, &["check", "--json"]);
        let (rpc, indexer) = (world.network.devnet.node.origin(), world.network.indexer_origin());
        command
            .env("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC)
            .env("SVC_CORPORATION", "1")
            .env("SVC_RPC", rpc)
            .env("SVC_INDEXER", indexer)
            .env("MCP_HTTP_PORT", "0");
        changes.iter().for_each(|(name, value)| {
            command.env(name, value);
        });
        command_output(command)
    };
    let findings = |ran: &CommandOutput| -> Vec<Value> { serde_json::from_str(&ran.out).expect("JSON") };
    let good = check(&[]).await;
    assert!(good.is_ok, "{} {}", good.out, good.err);
    let found = findings(&good);
    assert!(found.iter().all(|one| one["ok"] == true));
    let authorizations = found.iter().find(|one| one["what"] == "authorizations").expect("found");
    assert!(authorizations["found"].as_str().is_some_and(|text| text.starts_with("28 message types")));
    for (changes, what, expected) in [
        (&[("SVC_RPC", "http://127.0.0.1:1")][..], "SVC_RPC", "not reachable"),
        (&[("SVC_INDEXER", "http://127.0.0.1:1")], "SVC_INDEXER", "not reachable"),
        (&[("SVC_GRAPH", "http://127.0.0.1:1")], "SVC_GRAPH", "not reachable"),
        (&[("SVC_CHAIN_ID", "other-1")], "SVC_CHAIN_ID", "other-1"),
        (&[("SVC_CORPORATION", "99")], "SVC_CORPORATION", "does not exist"),
    ] {
        let bad = check(changes).await;
        assert!(!bad.is_ok, "{what}");
        let row = findings(&bad).into_iter().find(|one| one["what"] == what && one["ok"] == false).expect(what);
        assert!(row["found"].as_str().is_some_and(|text| text.contains(expected)), "{row}");
        assert!(!bad.out.contains("winner") && !bad.err.contains("winner"), "no word of the phrase");
    }
    let broken = check(&[("SVC_CORPORATION", "x"), ("SVC_TOOLSETS", "nothing")]).await;
    assert!(!broken.is_ok && broken.err.contains("SVC_CORPORATION") && broken.err.contains("SVC_TOOLSETS"));
    assert_eq!(json!(world.operator_txs_in_blocks()), json!(0), "it signs nothing");
}
