//! `svc devnet --home`: killed in the middle of its blocks, it continues with the same blocks, hashes and entities.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use svc::mcp_client::McpClient;

use crate::e2e::harness::{CREATE_ECOSYSTEM, ecosystem_arguments, into_arguments, pause};

struct DevnetChild {
    child: Child,
    description: Value,
    http: reqwest::Client,
}

fn devnet(home: &Path) -> DevnetChild {
    devnet_with(home, &[])
}

fn devnet_with(home: &Path, arguments: &[&str]) -> DevnetChild {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svc"));
    let ports = ["--rpc-port", "0", "--indexer-port", "0", "--mcp-port", "0", "--control-port", "0"];
    command.args(["devnet", "--json", "--block-time", "20ms", "--home"]).arg(home).args(ports).args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("svc starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    DevnetChild {
        child,
        description: serde_json::from_str(&line).expect("one JSON object"),
        http: reqwest::Client::new(),
    }
}

impl DevnetChild {
    async fn get(&self, server: &str, path: &str) -> Value {
        let url = format!("{}/{path}", self.description[server].as_str().expect("a URL"));
        self.http.get(url).send().await.expect("answers").json().await.expect("JSON")
    }

    async fn block(&self, height: u64) -> Value {
        self.get("rpc", &format!("block?height={height}")).await["result"].clone()
    }

    async fn height(&self) -> u64 {
        self.get("control", "").await["height"].as_u64().expect("a number")
    }

    async fn client(&self) -> McpClient {
        let text = |name: &str| self.description[name].as_str().expect("a text").to_owned();
        McpClient::connect(&text("mcp"), &text("bearer")).await.expect("connects")
    }

    /// Sends SIGKILL, so that no handler of the process runs.
    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_devnet_continues_with_the_same_chain() {
    let home = tempfile::tempdir().expect("a directory");
    let mut blocks: Vec<Value> = Vec::new();
    for written in 0..3 {
        let process = devnet(home.path());
        for (height, known) in (1..).zip(&blocks) {
            assert_eq!(process.block(height).await, *known, "{height}");
        }
        let client = process.client().await;
        // The indexer of the home has the entities written before the kill.
        for id in 1..=written {
            let read =
                client.call_tool("svc.idx.es.getEcosystem", into_arguments(json!({"id": id}))).await.expect("answered");
            assert_eq!(read.is_error, Some(false), "{id}");
        }
        let done = client
            .call_tool(CREATE_ECOSYSTEM, into_arguments(ecosystem_arguments(format!("e{written}"))))
            .await
            .expect("answered");
        assert_eq!(done.is_error, Some(false), "{done:?}");
        for height in blocks.len() as u64 + 1..=process.height().await {
            blocks.push(process.block(height).await);
        }
        // Further transactions are in flight at the kill, between two blocks.
        let late: Vec<_> = (0..4)
            .map(|index| {
                client.call_tool(CREATE_ECOSYSTEM, into_arguments(ecosystem_arguments(format!("late{written}{index}"))))
            })
            .collect();
        let late = futures::future::join_all(late);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(30), late).await;
        process.kill();
    }
    let process = devnet(home.path());
    assert!(process.height().await >= blocks.len() as u64);
    process.kill();
    // A scenario names its agents.
    for file in ["stranger.head", "stranger.db", "stranger.db-wal", "stranger.journal", "stranger.sock"] {
        std::fs::write(home.path().join(file), "").expect("written");
    }
    let reset = Command::new(env!("CARGO_BIN_EXE_svc")).args(["devnet", "reset", "--home"]).arg(home.path()).output();
    assert!(reset.expect("runs").status.success());
    assert_eq!(std::fs::read_dir(home.path()).expect("readable").count(), 0, "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_taken_and_loaded_from_the_command_line() {
    let home = tempfile::tempdir().expect("a directory");
    let process = devnet(home.path());
    let control = process.description["control"].as_str().expect("a URL").to_owned();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_svc"))
            .arg("devnet")
            .args(arguments)
            .args(["--control", &control])
            .output();
        let output = output.expect("runs");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (is_done, text) = run(&["save", "first"]);
    assert!(is_done && text.starts_with("at height "), "{text}");
    let (is_done, text) = run(&["load", "first"]);
    assert!(is_done && text.contains("application hash"), "{text}");
    let (is_done, text) = run(&["load", "second"]);
    assert!(!is_done && text.contains("there is no snapshot \"second\""), "{text}");
    process.kill();
    let (is_done, text) = run(&["save", "late"]);
    assert!(!is_done && text.contains("--control-port"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_begins_with_the_exported_state_of_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("genesis.json");
    let file = file.to_str().expect("a path");
    let first = devnet(&directory.path().join("first"));
    let control = first.description["control"].as_str().expect("a URL");
    let exported = Command::new(env!("CARGO_BIN_EXE_svc"))
        .args(["devnet", "export", file, "--control", control])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&exported.stdout);
    assert!(exported.status.success() && text.contains("chain \"svc-devnet-1\""), "{text}");
    let corporations = async |process: &DevnetChild| {
        // The indexer listens before it has its first block.
        loop {
            let list = process.get("indexer", "v4/corporation/list").await;
            match list["corporations"].as_array() {
                Some(found) if !found.is_empty() => break list["corporations"].clone(),
                _ => pause().await,
            }
        }
    };
    let expected = corporations(&first).await;
    first.kill();
    let home = directory.path().join("second");
    let mut newest = 0;
    for _ in 0..2 {
        let second = devnet_with(&home, &["--genesis", file]);
        assert_eq!(corporations(&second).await[0]["did"], expected[0]["did"]);
        let height = second.height().await;
        assert!(height >= newest, "{height} after {newest}");
        newest = height;
        second.kill();
    }
    // A file that is no genesis is named before anything starts.
    std::fs::write(file, "{}").expect("written");
    let refused = Command::new(env!("CARGO_BIN_EXE_svc")).args(["devnet", "--genesis", file]).output().expect("runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("the genesis has no app_state"), "{text}");
}
