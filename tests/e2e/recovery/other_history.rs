//! Chains that go back and make other blocks: nothing is signed until a person has rebased the journal, and no key sends twice.

use std::{
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use sqlx::{Connection, Row, SqliteConnection};
use svc::mcp_client::McpClient;
use svc_devnet::node::Node;
use svc_indexer::IndexerConfig;
use svc_operator::{BootSubject, Operator, OperatorConfig, preflight};

use super::{
    foreign_indexers::{Disguise, IndexProxy, operator_config, operator_key, write as write_by},
    process_kill::{ServerFiles, keyed_arguments, kill, new_files, start_with},
};
use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild},
    harness::{CREATE_ECOSYSTEM, CallResult, TestNetwork, call_tool, network_config, poll_until, start_network},
    indexer::{IndexerReplica, await_indexed},
};

/// A chain that makes blocks, and the files of a server.
struct Grounds {
    world: TestNetwork,
    files: ServerFiles,
}

impl Grounds {
    async fn new() -> Self {
        Self { world: start_network(network_config(100)).await, files: new_files() }
    }

    fn node(&self) -> &Node {
        &self.world.network.devnet.node
    }

    fn hash_at(&self, height: u64) -> String {
        self.node().read_core(|core| core.block(height).expect("a block").hash.clone())
    }

    fn hashes(&self) -> Vec<String> {
        self.node().read_core(|core| core.blocks().iter().map(|block| block.hash.clone()).collect())
    }

    async fn start(&self) -> (ServerChild, McpClient) {
        start_with(&self.world, &self.files, &[]).await
    }

    /// Starts a server with an index that has followed the present history from its beginning, as one does that was rolled back.
    async fn start_with_index(&self, index: &IndexerReplica) -> (ServerChild, McpClient) {
        start_with(&self.world, &self.files, &[("SVC_INDEXER", &index.origin)]).await
    }

    async fn new_index(&self) -> IndexerReplica {
        let index = IndexerReplica::launch(IndexerConfig::new(self.node().origin(), "sqlite::memory:")).await;
        await_indexed(&index.origin, self.world.height()).await;
        index
    }

    fn rebase_of(&self, journal: &str, to: u64) -> Command {
        let mut command = Command::new(SERVER_PROGRAM);
        command.args(["journal", "rebase", "--json", "--to", &to.to_string()]).env_clear();
        command.env("SVC_RPC", self.node().origin()).env("SVC_JOURNAL", journal);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn run(mut command: Command) -> Output {
        tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("joins")
    }

    async fn rebase(&self, to: u64) -> Value {
        let output = Self::run(self.rebase_of(&self.files.path("journal.db"), to)).await;
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    async fn refused_rebase(&self, to: u64) -> String {
        let output = Self::run(self.rebase_of(&self.files.path("journal.db"), to)).await;
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The finding of the check about the blocks of the journal.
    async fn checked_history(&self) -> (bool, String) {
        let config = OperatorConfig {
            journal: Some(self.files.path("journal.db")),
            ..OperatorConfig::new(1, self.node().origin(), self.world.network.indexer_origin())
        };
        let found = preflight(&config, &operator_key()).await;
        let found = found.into_iter().find(|one| one.subject == BootSubject::Journal).expect("a finding");
        (found.has_passed, found.detail)
    }

    /// Takes the chain back, and waits until it is above the height that it had.
    async fn go_back(&self, to: u64) {
        let top = self.world.height();
        self.node().go_back(to).expect("goes back");
        self.world.wait_until("the chain is as high as before", async || self.world.height() > top + 2).await;
    }
}

async fn journal_status(client: &McpClient) -> Value {
    call_tool(client, "svc.wallet.getStatus", json!({})).await.content["journal"].clone()
}

async fn write(client: &McpClient, name: &str) -> CallResult {
    call_tool(client, CREATE_ECOSYSTEM, keyed_arguments(name)).await
}

fn height_of(answer: &CallResult) -> u64 {
    answer.content["block_height"].as_u64().unwrap_or_else(|| panic!("no block in {:#}", answer.content))
}

/// Every write is refused, with both hashes and the command; reads go on. Returns the height of the command.
async fn assert_refused(client: &McpClient, served: &ServerChild, known: &[String]) -> u64 {
    let refused = write(client, "refused").await.content;
    assert_eq!((&refused["code"], &refused["retryable"]), (&json!("CHAIN_CHANGED"), &json!(false)), "{refused:#}");
    let details = &refused["details"];
    let height = usize::try_from(details["height"].as_u64().expect("a height")).expect("small");
    assert_eq!(details["pinned"], known[height - 1].as_str(), "{refused:#}");
    assert_ne!(details["pinned"], details["found"], "{refused:#}");
    let to = details["rebase_to"].as_u64().expect("a height");
    let command = format!("svc journal rebase --to {to}");
    assert_eq!(details["command"], command.as_str());
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains(&command)), "{refused:#}");
    let status = call_tool(client, "svc.wallet.getStatus", json!({})).await;
    assert!(!status.is_error && status.content["journal"]["chain_change"]["height"] == details["height"]);
    let read = call_tool(client, "svc.wallet.getCorporation", json!({})).await;
    assert!(!read.is_error, "{:#}", read.content);
    let health = reqwest::get(served.url.replace("/mcp", "/healthz")).await.expect("answered");
    assert_eq!(health.status().as_u16(), 503);
    to
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_goes_back_stops_all_writing_until_the_journal_is_rebased_and_no_key_sends_twice() {
    for back in [1, 50] {
        let grounds = Grounds::new().await;
        let world = &grounds.world;
        let (served, client) = grounds.start().await;
        let kept = write(&client, "kept").await;
        world.assert_included_once("kept", &kept);
        world.await_blocks(3).await;
        let gone = write(&client, "gone").await;
        world.assert_included_once("gone", &gone);
        if back > 1 {
            world.await_blocks(back - 2).await;
        }
        let (known, fork) = (grounds.hashes(), height_of(&gone) - 1);
        grounds.node().go_back(fork).expect("goes back");
        poll_until("the change is noticed", async || !journal_status(&client).await["chain_change"].is_null()).await;
        let to = assert_refused(&client, &served, &known).await;
        assert!((height_of(&kept)..=fork).contains(&to), "{to} of {fork}");
        // A key that has its answer is refused too: the block of the answer may be gone.
        assert_eq!(write(&client, "gone").await.content["code"], "CHAIN_CHANGED");
        if back > 1 {
            served.terminate();
        } else {
            kill(served);
        }

        let top = u64::try_from(known.len()).expect("small");
        world.wait_until("the chain is as high as before", async || world.height() > top).await;
        let index = grounds.new_index().await;
        let (served, client) = grounds.start_with_index(&index).await;
        assert_eq!(assert_refused(&client, &served, &known).await, to);
        // The check is made beside the running server.
        let (has_passed, words) = grounds.checked_history().await;
        assert!(!has_passed && words.contains(&format!("svc journal rebase --to {to}")), "{words}");
        let in_use = grounds.refused_rebase(to).await;
        assert!(in_use.contains("give each server a journal of its own"), "{in_use}");
        kill(served);

        let above = grounds.refused_rebase(height_of(&gone)).await;
        assert!(above.contains("--to must lie below"), "{above}");
        let above = grounds.refused_rebase(1_000_000).await;
        assert!(above.contains("the node is at height"), "{above}");
        let done = grounds.rebase(to).await;
        let expected = json!([to, grounds.hash_at(to), true, 1]);
        assert_eq!(json!([done["height"], done["hash"], done["is_changed"], done["abandoned"]]), expected, "{done:#}");
        assert!(grounds.checked_history().await.0);
        let again = grounds.rebase(to).await;
        assert_eq!((&again["is_changed"], &again["abandoned"]), (&json!(false), &json!(0)), "{again:#}");

        let (served, client) = grounds.start_with_index(&index).await;
        assert!(journal_status(&client).await["chain_change"].is_null());
        let repeated = write(&client, "kept").await;
        assert_eq!(repeated.content["tx_hash"], kept.content["tx_hash"], "{:#}", repeated.content);
        world.assert_included_once("kept", &repeated);
        for _ in 0..2 {
            let abandoned = write(&client, "gone").await.content;
            assert_eq!(abandoned["code"], "WRITE_ABANDONED", "{abandoned:#}");
            let details = &abandoned["details"];
            assert_eq!(details["tx_hash"], gone.content["tx_hash"]);
            let found = (&details["was"], &details["block_height"], &details["msg_type"]);
            let expected = (&json!("included"), &json!(height_of(&gone)), &json!("/svc.ec.v1.MsgCreateEcosystem"));
            assert_eq!(found, expected);
            assert_eq!(world.times_on_chain("gone"), 0);
        }
        let mut arguments = keyed_arguments("gone");
        arguments["idempotency_key"] = "a new key".into();
        let sent = call_tool(&client, CREATE_ECOSYSTEM, arguments).await;
        world.assert_included_once("gone", &sent);
        assert_eq!(sent.content["indexer_synced"], true, "{:#}", sent.content);
        assert_eq!(write(&client, "gone").await.content["code"], "WRITE_ABANDONED");
        assert_eq!((world.times_on_chain("gone"), world.times_on_chain("refused")), (1, 0));
        kill(served);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_went_back_while_the_server_was_killed_is_noticed_at_the_next_boot() {
    for back in [1, 50] {
        let grounds = Grounds::new().await;
        let world = &grounds.world;
        let (served, client) = grounds.start().await;
        let kept = write(&client, "kept").await;
        world.await_blocks(back).await;
        let gone = write(&client, "gone").await;
        kill(served);
        let known = grounds.hashes();
        grounds.go_back(if back > 1 { height_of(&kept) + 1 } else { height_of(&gone) - 1 }).await;
        let index = grounds.new_index().await;
        let (served, client) = grounds.start_with_index(&index).await;
        let refused = write(&client, "refused").await.content;
        assert_eq!(refused["code"], "CHAIN_CHANGED", "{refused:#}");
        // The process may have died before the block of its last transaction was pinned: then the transaction shows the change.
        let details = &refused["details"];
        let height = usize::try_from(details["height"].as_u64().expect("a height")).expect("small");
        let pinned = details["pinned"].as_str().unwrap_or(&known[height - 1]);
        assert!(pinned == known[height - 1] && details["found"] != pinned, "{refused:#}");
        let to = details["rebase_to"].as_u64().expect("a height");
        kill(served);
        assert_eq!(grounds.rebase(to).await["abandoned"], if to < height_of(&kept) { 2 } else { 1 });
        let (served, client) = grounds.start_with_index(&index).await;
        assert_eq!(write(&client, "gone").await.content["code"], "WRITE_ABANDONED");
        // The block of the first one is in both histories, also where the journal does not know it.
        world.assert_included_once("kept", &write(&client, "kept").await);
        world.assert_included_once("next", &write(&client, "next").await);
        assert_eq!(world.times_on_chain("gone"), 0);
        kill(served);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_an_abandoned_write_that_come_into_a_block_are_its_answer() {
    let grounds = Grounds::new().await;
    let world = &grounds.world;
    let (served, client) = grounds.start().await;
    let gone = write(&client, "back").await;
    let hash = gone.content["tx_hash"].as_str().expect("a hash").to_owned();
    kill(served);
    let bytes = grounds.node().read_core(|core| {
        let (block, position) = core.find_tx(&hash).expect("in a block");
        block.txs[position].clone()
    });
    grounds.go_back(height_of(&gone) - 1).await;
    let index = grounds.new_index().await;
    let (served, client) = grounds.start_with_index(&index).await;
    let to = write(&client, "back").await.content["details"]["rebase_to"].as_u64().expect("a height");
    kill(served);
    grounds.rebase(to).await;
    let (served, client) = grounds.start_with_index(&index).await;
    let abandoned = write(&client, "back").await.content;
    assert_eq!(abandoned["code"], "WRITE_ABANDONED", "{abandoned:#}");
    assert!(
        abandoned["hint"].as_str().is_some_and(|hint| hint.contains("may still come into a block")),
        "{abandoned:#}"
    );
    // Another node had kept the bytes.
    let node = svc_net::upstream::NodeClient::new(grounds.node().origin()).expect("a client");
    node.broadcast(&bytes).await.expect("answered");
    world.wait_until("they are in a block", async || world.times_on_chain("back") == 1).await;
    let answer = write(&client, "back").await;
    world.assert_included_once("back", &answer);
    assert_eq!(answer.content["tx_hash"], hash.as_str());
    kill(served);
    // The next process finds them while it compares the journal with the account.
    let (served, client) = grounds.start_with_index(&index).await;
    world.assert_included_once("back", &write(&client, "back").await);
    assert_eq!(world.operator_txs_in_blocks(), 1);
    kill(served);
}

/// The content of a journal, without the times of its rebases.
async fn content(file: &str) -> Vec<String> {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{file}")).await.expect("connects");
    let mut rows = Vec::new();
    for sql in [
        "SELECT tx_hash || '|' || state || '|' || sequence || '|' || uses_sequence || '|' || COALESCE(checksum, 0) AS row \
         FROM transactions ORDER BY number",
        "SELECT height || '|' || hash AS row FROM pins ORDER BY height",
        "SELECT height || '|' || abandoned AS row FROM rebases ORDER BY number",
        "SELECT checksum_sum || '|' || COALESCE(compared_sequence, '') AS row FROM head",
    ] {
        let found = sqlx::query(sql).fetch_all(&mut connection).await.expect("read");
        rows.extend(found.iter().map(|row| row.try_get::<String, _>("row").expect("a text")));
    }
    connection.close().await.expect("closed");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_that_is_killed_at_any_moment_is_repeated_and_ends_as_one_that_was_not() {
    let grounds = Grounds::new().await;
    let (served, client) = grounds.start().await;
    for number in 0..3 {
        write(&client, &format!("kept-{number}")).await;
    }
    let last = height_of(&write(&client, "last").await);
    for number in 0..5 {
        write(&client, &format!("gone-{number}")).await;
    }
    served.terminate();
    grounds.go_back(last).await;
    let journal = |name: &str| grounds.files.path(name);
    let copy = |name: &str| {
        for suffix in ["", "-wal"] {
            let from = journal("journal.db") + suffix;
            if std::path::Path::new(&from).exists() {
                std::fs::copy(from, journal(name) + suffix).expect("copied");
            }
        }
    };
    copy("whole.db");
    let started = std::time::Instant::now();
    let done = Grounds::run(grounds.rebase_of(&journal("whole.db"), last)).await;
    assert!(done.status.success(), "{done:?}");
    let whole_time = started.elapsed();
    let expected = content(&journal("whole.db")).await;
    assert_eq!(expected.iter().filter(|row| row.contains("|abandoned_included|")).count(), 5, "{expected:#?}");
    let mut interrupted = 0;
    for step in 0..20_u32 {
        let name = format!("killed-{step}.db");
        copy(&name);
        let mut running = grounds.rebase_of(&journal(&name), last).spawn().expect("runs");
        tokio::time::sleep(whole_time * step / 16).await;
        running.kill().expect("killed");
        interrupted += usize::from(!running.wait().expect("ended").success());
        let repeated = Grounds::run(grounds.rebase_of(&journal(&name), last)).await;
        assert!(repeated.status.success(), "step {step}: {repeated:?}");
        assert_eq!(content(&journal(&name)).await, expected, "step {step}");
    }
    assert!(interrupted > 0, "none was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_was_started_once_more_is_named_and_the_journal_is_rebased_to_its_beginning() {
    let files = new_files();
    let (pinned_height, pinned) = {
        let world = start_network(network_config(100)).await;
        let (served, client) = start_with(&world, &files, &[]).await;
        write(&client, "first").await;
        kill(served);
        let node = &world.network.devnet.node;
        let hashes: Vec<String> = node.read_core(|core| core.blocks().iter().map(|block| block.hash.clone()).collect());
        (world.height(), hashes)
    };
    let grounds = Grounds { world: start_network(network_config(100)).await, files };
    let world = &grounds.world;
    world.wait_until("the new chain is as high", async || world.height() > pinned_height + 20).await;
    let (served, client) = grounds.start().await;
    let refused = write(&client, "second").await.content;
    assert_eq!(refused["code"], "CHAIN_CHANGED", "{refused:#}");
    let details = &refused["details"];
    let height = usize::try_from(details["height"].as_u64().expect("a height")).expect("small");
    assert_eq!(details["pinned"], pinned[height - 1].as_str());
    assert_eq!(details["found"], grounds.hash_at(height as u64).as_str());
    assert!(details["rebase_to"].is_null() && details["command"] == "svc journal rebase --to HEIGHT", "{refused:#}");
    kill(served);
    assert_eq!(grounds.rebase(0).await["abandoned"], 1);
    let (served, client) = grounds.start().await;
    assert_eq!(write(&client, "first").await.content["code"], "WRITE_ABANDONED");
    world.assert_included_once("second", &write(&client, "second").await);
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_height_of_an_index_that_was_rolled_back_is_not_kept() {
    let settings = svc::network::LocalNetworkConfig {
        devnet: svc_devnet::DevnetConfig { block_time: Some(Duration::from_millis(100)), ..Default::default() },
        extra_nodes: 1,
        ..Default::default()
    };
    let world = start_network(settings).await;
    let slow = &world.network.extra_nodes[0];
    // An index at a lower height of the same chain, as one that was rolled back, or a new one.
    let low = IndexerReplica::launch(IndexerConfig::new(slow.origin(), "sqlite::memory:")).await;
    slow.update_faults(|faults| faults.lag_blocks = 100_000);
    let (proxy, origin) = IndexProxy::start(world.network.indexer_origin(), Disguise::default()).await;
    let mut config = operator_config(&world, &[&origin]);
    config.indexer_timeout = Duration::from_millis(500);
    let operator = Operator::boot(config, operator_key()).await.expect("boots");
    let indexed = async || operator.status().await["indexer_ws"]["last_height"].as_u64().expect("a height");
    let before = write_by(&operator, "before").await;
    assert!(before.indexer_synced && indexed().await >= before.block_height, "{before:?}");
    proxy.lead_to(low.origin.clone());
    poll_until("the height falls", async || indexed().await < before.block_height).await;
    let meanwhile = write_by(&operator, "meanwhile").await;
    assert!(!meanwhile.indexer_synced && meanwhile.indexer_height < before.block_height, "{meanwhile:?}");
    slow.update_faults(|faults| faults.lag_blocks = 0);
    poll_until("the index has caught up", async || indexed().await >= meanwhile.block_height).await;
    assert!(write_by(&operator, "after").await.indexer_synced);
    operator.shutdown(Duration::from_secs(5)).await;
}
