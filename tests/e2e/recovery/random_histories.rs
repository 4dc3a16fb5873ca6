//! Random histories: chains that go back, restarts, prunings and outages. At each moment the index and the tool server are right at the height that they
//! state, or name their lack.

use std::{
    collections::BTreeSet,
    process::{Child, Command, Stdio},
    time::Duration,
};

use prost::Message;
use serde_json::Value;
use svc::mcp_client::McpClient;
use svc_devnet::{Devnet, DevnetConfig, node::Node};
use svc_test_support::ports::{free_address, free_port};
use svc_wire::{proto::svc::ec::v1::MsgCreateEcosystem, tx};

use super::process_kill::{ServerFiles, keyed_arguments, kill, new_files};
use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild, spawn_server_by},
    harness::{CREATE_ECOSYSTEM, OPERATOR_MNEMONIC, call_tool, poll_until},
    indexer::{read_at, read_ok_at},
};

const STEPS: usize = 14;
/// Codes that say that the write has no end yet, or that nothing can be said.
const LACKS: [&str; 7] = [
    "BCAST_TIMEOUT",
    "CHAIN_CHANGED",
    "NOT_READY",
    "RESTARTING",
    "UPSTREAM_UNREACHABLE",
    "UPSTREAM_HTTP_ERROR",
    "UPSTREAM_PROTOCOL_ERROR",
];

/// A write that was answered with a block.
#[derive(Debug, Clone)]
struct Included {
    name: String,
    hash: String,
    height: u64,
}

struct World {
    devnet: Devnet,
    files: ServerFiles,
    indexer_port: u16,
    indexer: Child,
    server: Option<(ServerChild, McpClient)>,
    included: Vec<Included>,
    /// Keys whose last answer said that the write has no end yet.
    undecided: Vec<String>,
    /// Answered with a block that the chain has lost since.
    lost: Vec<Included>,
    /// The newest block that is common to the chain, and to journal and index.
    common: Option<u64>,
    written: usize,
}

impl World {
    async fn start() -> Self {
        let devnet = Devnet::launch(DevnetConfig {
            block_time: Some(Duration::from_millis(100)),
            listen: free_address(),
            control_port: None,
            ..DevnetConfig::default()
        });
        let (devnet, files, indexer_port) = (devnet.await.expect("a chain"), new_files(), free_port());
        let indexer = spawn_indexer(&devnet, &files, indexer_port);
        let (included, undecided, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = Self {
            devnet,
            files,
            indexer_port,
            indexer,
            server: None,
            included,
            undecided,
            lost,
            common: None,
            written: 0,
        };
        world.await_indexed().await;
        world.start_server().await;
        world
    }

    fn node(&self) -> &Node {
        &self.devnet.node
    }

    fn height(&self) -> u64 {
        *self.node().watch_heights().borrow()
    }

    fn indexer_origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.indexer_port)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SVC_JOURNAL", self.files.path("journal.db")),
            ("SVC_AUDIT", self.files.path("audit.jsonl")),
            ("SVC_TX_TIMEOUT_MS", "3000".to_owned()),
            ("SVC_INDEXER_TIMEOUT_MS", "2000".to_owned()),
        ]
    }

    async fn start_server(&mut self) {
        let (rpc, indexer, settings) = (self.node().origin(), self.indexer_origin(), self.settings());
        let served = tokio::task::spawn_blocking(move || {
            let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
            spawn_server_by(Command::new(SERVER_PROGRAM), &rpc, &indexer, &settings)
        });
        let served = served.await.expect("joins");
        let client = McpClient::connect(&served.url, served.token()).await.expect("connects");
        self.server = Some((served, client));
    }

    fn kill_server(&mut self) {
        if let Some((served, _)) = self.server.take() {
            kill(served);
        }
    }

    fn client(&self) -> &McpClient {
        &self.server.as_ref().expect("a server").1
    }

    fn kill_indexer(&mut self) {
        self.indexer.kill().expect("killed");
        self.indexer.wait().expect("gone");
    }

    /// Waits until the index has the block that is newest now.
    async fn await_indexed(&self) {
        let (origin, newest) = (self.indexer_origin(), self.height());
        poll_until("the index follows", async || indexed_height(&origin).await >= Some(newest)).await;
    }

    /// The chain loses blocks and makes as many others.
    async fn go_back(&mut self, back: u64) {
        let node = self.node().clone();
        node.stop();
        let newest = self.height();
        let to = newest.saturating_sub(back).max(1);
        node.go_back(to).expect("goes back");
        node.start().expect("starts");
        let lost: Vec<Included> = self.included.extract_if(.., |write| write.height > to).collect();
        self.lost.extend(lost);
        self.common = Some(self.common.map_or(to, |common| common.min(to)));
        // The other history becomes longer than the one that was known.
        poll_until("the chain goes on", async || *node.watch_heights().borrow() > newest + 1).await;
    }

    /// As a person repairs it.
    async fn repair(&mut self) {
        let Some(to) = self.common.take() else { return };
        self.kill_server();
        self.kill_indexer();
        let (rpc, height) = (self.node().origin(), to.to_string());
        let run = |words: [&str; 4], settings: Vec<(&'static str, String)>| {
            let mut command = Command::new(SERVER_PROGRAM);
            command.args(words).env_clear().env("SVC_RPC", &rpc).env("MCP_SVC_MNEMONIC", OPERATOR_MNEMONIC);
            let ended = command.envs(settings).output().expect("runs");
            assert!(ended.status.success(), "{words:?}: {ended:?}");
        };
        run(["journal", "rebase", "--to", &height], self.settings());
        let database = format!("sqlite://{}?mode=rwc", self.files.path("index.db"));
        run(["indexer", "rollback", "--to", &height], vec![("SVC_INDEXER_DB", database)]);
        self.indexer = spawn_indexer(&self.devnet, &self.files, self.indexer_port);
        self.await_indexed().await;
        self.start_server().await;
    }

    /// A write under a key of its own, or under one without an end, and whether the answer is right.
    async fn write(&mut self, random: &mut fastrand::Rng, words: &str) {
        let repeated = Some(&mut self.undecided).filter(|list| !list.is_empty() && random.bool());
        let repeated = repeated.and_then(Vec::pop);
        let is_repeated = repeated.is_some();
        self.written += usize::from(!is_repeated);
        let name = repeated.unwrap_or_else(|| format!("random-{}", self.written));
        let answer = call_tool(self.client(), CREATE_ECOSYSTEM, keyed_arguments(&name)).await;
        if answer.is_error {
            let code = answer.content["code"].as_str().unwrap_or_default();
            let is_open = LACKS.contains(&code);
            let is_ended = is_repeated && ["TX_EXPIRED", ABANDONED].contains(&code);
            assert!(is_open || is_ended, "{words}: {:#}", answer.content);
            assert!(self.common.is_some() || code != "CHAIN_CHANGED", "{words}: {:#}", answer.content);
            if is_open {
                self.undecided.push(name);
            }
            return;
        }
        assert_eq!(self.common, None, "{words}: nothing is signed on another history: {:#}", answer.content);
        let hash = answer.content["tx_hash"].as_str().expect("a hash").to_owned();
        let height = answer.content["block_height"].as_u64().expect("a height");
        assert_eq!(self.block_of(&hash), Some(height), "{words}: {:#}", answer.content);
        if answer.content["indexer_synced"] == true {
            let found = self.indexed_dids(height).await;
            assert!(found.contains(&did(&name)), "{words}: said to be indexed at {height}: {found:?}");
        }
        self.included.push(Included { name, hash, height });
    }

    fn block_of(&self, hash: &str) -> Option<u64> {
        self.node().read_core(|core| core.find_tx(hash).map(|(block, _)| block.height))
    }

    async fn indexed_dids(&self, height: u64) -> BTreeSet<String> {
        let body = read_ok_at(&self.indexer_origin(), "/v4/ecosystem/list?limit=1024", Some(height)).await;
        let rows = body["ecosystems"].as_array().expect("a list");
        rows.iter()
            .filter_map(|row| row["did"].as_str())
            .filter(|did| did.contains("random-"))
            .map(str::to_owned)
            .collect()
    }

    /// The ecosystems of the test that the chain has at a height.
    fn dids_on_chain(&self, height: u64) -> BTreeSet<String> {
        self.node().read_core(|core| {
            let mut found = BTreeSet::new();
            for block in core.blocks().iter().filter(|block| block.height <= height) {
                let succeeded = block.txs.iter().zip(&block.tx_outcomes).filter(|(_, outcome)| outcome.code == 0);
                for (bytes, _) in succeeded {
                    let messages = tx::decode_tx_body(bytes).map(|body| body.messages).unwrap_or_default();
                    let made = messages.iter().filter(|message| message.type_url.ends_with("MsgCreateEcosystem"));
                    for message in made {
                        let did = MsgCreateEcosystem::decode(message.value.as_slice()).expect("decodes").did;
                        assert!(!did.contains("random-") || found.insert(did.clone()), "{did} was made twice");
                    }
                }
            }
            found
        })
    }

    /// The index is right at a height that it shares with the chain, or names its lack.
    async fn check_index(&self, random: &mut fastrand::Rng, words: &str) {
        let origin = self.indexer_origin();
        let Some(height) = indexed_height(&origin).await else { return };
        let shared = self.common.unwrap_or(height).min(height);
        let at = random.u64(1..=shared);
        assert_eq!(self.indexed_dids(at).await, self.dids_on_chain(at), "{words}: at {at} of {height}");
        if self.common.is_some() {
            poll_until("the indexer says that it has stopped", async || {
                let status = read_at(&origin, "/v4/indexer/status", None).await;
                status.headers.get("x-crawling-status").is_some_and(|status| status == "stopped")
            })
            .await;
        }
    }

    /// An earlier key is answered as before; one of a lost block is never said to be in a block of this chain.
    async fn check_keys(&self, random: &mut fastrand::Rng, words: &str) {
        let (known, lost) = (self.included.len(), self.lost.len());
        if known + lost == 0 {
            return;
        }
        let index = random.usize(..known + lost);
        let write = self.included.get(index).unwrap_or_else(|| &self.lost[index - known]);
        let answer = call_tool(self.client(), CREATE_ECOSYSTEM, keyed_arguments(&write.name)).await;
        let (content, is_lost) = (&answer.content, index >= known);
        let words = format!("{words}: {write:?}, lost: {is_lost}: {content:#}");
        if answer.is_error {
            let code = content["code"].as_str().unwrap_or_default();
            let is_abandoned = code == ABANDONED && content["details"]["tx_hash"] == write.hash.as_str();
            assert!(LACKS.contains(&code) || (is_lost && is_abandoned), "{words}");
            return;
        }
        assert!(!is_lost, "{words}");
        assert_eq!(
            (&content["tx_hash"], &content["block_height"]),
            (&write.hash.as_str().into(), &write.height.into()),
            "{words}"
        );
    }
}

/// The code of a key whose write stood in a block that the chain has lost.
const ABANDONED: &str = "WRITE_ABANDONED";

fn did(name: &str) -> String {
    format!("did:web:{name}.example")
}

async fn indexed_height(origin: &str) -> Option<u64> {
    let answer = reqwest::get(format!("{origin}/v4/indexer/block-height")).await.ok()?;
    answer.json::<Value>().await.ok()?["height"].as_u64()
}

fn spawn_indexer(devnet: &Devnet, files: &ServerFiles, port: u16) -> Child {
    let mut command = Command::new(SERVER_PROGRAM);
    command.arg("indexer").env_clear().env("SVC_RPC", devnet.node.origin());
    command.env("SVC_INDEXER_DB", format!("sqlite://{}?mode=rwc", files.path("index.db")));
    command.env("SVC_INDEXER_PORT", port.to_string()).env("SVC_INDEXER_BLOCK_MS", "100");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("svc starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn over_random_histories_every_answer_is_right_or_says_what_it_lacks() {
    let seed = fastrand::u64(..1_000_000);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::start().await;
    for step in 0..STEPS {
        let action = random.u8(..12);
        let words = format!("seed {seed}, step {step}, action {action}, common {:?}", world.common);
        match action {
            0 | 1 => {
                let back = random.u64(1..15);
                world.go_back(back).await;
            }
            2 | 3 => world.repair().await,
            // A server does not start beside an index of another history alone.
            4 if world.common.is_none() => {
                world.kill_server();
                world.start_server().await;
            }
            5 => {
                world.kill_indexer();
                world.indexer = spawn_indexer(&world.devnet, &world.files, world.indexer_port);
                if world.common.is_none() {
                    world.await_indexed().await;
                }
            }
            6 => {
                world.node().stop();
                world.write(&mut random, &words).await;
                world.node().start().expect("starts");
            }
            7 => {
                let kept = random.u64(1..20);
                world.node().update_faults(|faults| faults.kept_states = kept);
                world.write(&mut random, &words).await;
                // An index that is behind the horizon could never go on.
                world.node().update_faults(|faults| faults.kept_states = 0);
            }
            _ => world.write(&mut random, &words).await,
        }
        let words = format!("seed {seed}, after step {step}, action {action}, common {:?}", world.common);
        world.check_index(&mut random, &words).await;
        world.check_keys(&mut random, &words).await;
    }
    world.repair().await;
    world.await_indexed().await;
    let newest = world.height();
    assert_eq!(world.indexed_dids(newest).await, world.dids_on_chain(newest), "seed {seed}");
    world.kill_server();
    world.kill_indexer();
}
