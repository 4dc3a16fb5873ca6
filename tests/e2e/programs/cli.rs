//! The command line: its client commands and `svc check`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

use crate::e2e::harness::{
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
async fn lists_are_tables_and_arguments_come_from_files_and_standard_input() {
    let world = start_quick_network().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), ecosystem_arguments("from-file").to_string()).expect("written");
    let made = run(&world, &["call", CREATE_ECOSYSTEM, &format!("@{}", file.path().display())]).await;
    assert!(made.is_ok && made.out.contains("indexer_synced"), "{}", made.err);
    let mut piped = command(&world, &["call", CREATE_ECOSYSTEM, "-", "--json"]);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(ecosystem_arguments("from-pipe").to_string().as_bytes()).await.expect("written");
    drop(input);
    let output = child.wait_with_output().await.expect("ended");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["response"]["ecosystem_id"], "2");
    let table = run(&world, &["call", "svc.idx.es.listEcosystems"]).await;
    assert!(table.out.contains("ecosystems (2)") && table.out.contains("--wide or --json shows all"), "{}", table.out);
    assert!(table.out.lines().any(|line| line.contains("did:web:from-pipe.example")), "{}", table.out);
    let wide = run(&world, &["call", "svc.idx.es.listEcosystems", "raw=true", "--wide"]).await;
    assert!(wide.out.contains("corporation_id") && !wide.out.contains("left out"), "{}", wide.out);
    // Without a terminal there is no question: a program that archives is not held up.
    let archived = run(&world, &["call", "svc.ledger.es.archiveEcosystem", "id=1", "archive=true"]).await;
    assert!(archived.is_ok, "{}", archived.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_explained_in_words_and_a_proxy_does_not_stand_before_the_own_machine() {
    let world = start_quick_network().await;
    let mut proxied = command(&world, &["call", "svc.wallet.getStatus"]);
    proxied.env("http_proxy", "http://127.0.0.1:9").env("HTTP_PROXY", "http://127.0.0.1:9");
    let proxied = command_output(proxied).await;
    assert!(proxied.is_ok && proxied.out.contains("bootstrap_complete"), "{}", proxied.err);
    for (url, expected) in [
        ("http://127.0.0.1:9/mcp", "cannot reach http://127.0.0.1:9/mcp: connection refused; is the server running?"),
        (
            &*format!("{}/none", world.network.server_origin()),
            "answers with HTTP status 404 Not Found, and not as an MCP server",
        ),
        ("nonsense", "\"nonsense\" is no http or https URL"),
    ] {
        let failed = run(&world, &["tools", "--url", url]).await;
        assert!(!failed.is_ok && failed.err.contains(expected) && !failed.err.contains("::"), "{}", failed.err);
    }
    let mut script = command(&world, &["completions", "bash"]);
    let mut child = script.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().await.expect("ended");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    let port = world.network.server_origin().rsplit(':').next().expect("a port").to_owned();
    let taken =
        run(&world, &["devnet", "--rpc-port", "0", "--indexer-port", "0", "--services-port", "0", "--mcp-port", &port])
            .await;
    assert!(
        !taken.is_ok && taken.err.contains(&format!("127.0.0.1:{port}")) && taken.err.contains("--mcp-port"),
        "{}",
        taken.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_resource_is_printed_after_each_change() {
    let world = start_quick_network().await;
    let listed = run(&world, &["resource"]).await;
    assert_eq!(listed.out.lines().count(), 9, "{}", listed.out);
    let mut watch = command(&world, &["resource", "svc://own/corporation", "--watch"]);
    let mut child = watch.stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut until = async |wanted: &str| {
        let found = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                let line = lines.next_line().await.expect("readable").expect("not ended");
                if line.contains(wanted) {
                    return;
                }
            }
        });
        found.await.unwrap_or_else(|_| panic!("{wanted:?} is not printed"));
    };
    until("ecosystems      []").await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_devnet_prints_the_ecosystems_whose_essential_schemas_count() {
    // With a tool server, without one, and without services.
    for (scenario, has_ecosystem) in [("marketplace", true), ("services", true), ("corporation", false)] {
        for as_json in [true, false] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
            command.args(["devnet", "--no-agents", "--scenario", scenario]).args(as_json.then_some("--json"));
            for port in ["--rpc-port", "--indexer-port", "--mcp-port", "--services-port"] {
                command.args([port, "0"]);
            }
            command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().expect("starts");
            let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
            let found = tokio::time::timeout(TEST_TIMEOUT, async {
                if as_json {
                    let line = lines.next_line().await.expect("readable").expect("a line");
                    let described: Value = serde_json::from_str(&line).expect("JSON");
                    let ecosystems = described["essential_ecosystems"].as_array().expect("a list").clone();
                    let values = described["values"].as_object().expect("values");
                    assert!(ecosystems.iter().all(|did| values.values().any(|value| value == did)), "{ecosystems:?}");
                    return ecosystems.len() == 1;
                }
                // The node is the first row; the row of the ecosystem follows below.
                let mut table = Vec::new();
                while let Some(line) = lines.next_line().await.expect("readable") {
                    let ends = line.is_empty() && table.iter().any(|row: &String| row.contains("node RPC"));
                    table.push(line);
                    if ends || table.last().is_some_and(|row| row.contains("essential schemas of")) {
                        break;
                    }
                }
                table.last().is_some_and(|row| row.contains("essential schemas of") && row.contains("did:"))
            });
            assert_eq!(found.await.expect("in time"), has_ecosystem, "{scenario}, {as_json}");
            child.kill().await.expect("killed");
        }
    }
}
