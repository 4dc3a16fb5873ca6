//! `svc agent` as a process of its own, in a directory that it keeps.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    ops::{Deref, DerefMut},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_devnet::Devnet;
use svc_test_support::{ports::free_port, small_disk::SmallDisk};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::e2e::{
    agent::{AdminAnswer, answer, document::resolution::registry_id, request},
    callers::secrets::SERVER_PROGRAM,
    harness::{TEST_TIMEOUT, TestNetwork},
};

/// The phrase of the agent's account; other tests derive it from bytes.
const PHRASE: &str = "jelly better achieve collect unaware mountain thought cargo oxygen act hood bridge";
pub(in crate::e2e::agent) const STORE_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

pub(in crate::e2e::agent) fn own_account() -> String {
    let key = svc_wire::account_key::AccountKey::from_mnemonic(PHRASE).expect("a phrase");
    key.public_key().address("svc").expect("an address").to_string()
}

/// The settings of an agent in a directory, whose ports it keeps.
pub(in crate::e2e::agent) struct AgentHome {
    pub(in crate::e2e::agent) directory: tempfile::TempDir,
    rpc: String,
    pub(in crate::e2e::agent) indexer: String,
    corporation_id: u64,
    admin: u16,
    pub(in crate::e2e::agent) public: u16,
    pub(in crate::e2e::agent) webhook: Option<String>,
    /// Other settings than the usual ones.
    pub(in crate::e2e::agent) settings: BTreeMap<&'static str, String>,
    /// The small disk on which the process runs.
    pub(in crate::e2e::agent) disk: Option<SmallDisk>,
}

impl AgentHome {
    pub(in crate::e2e::agent) fn new(network: &ChainAndIndexer) -> Self {
        Self::at(&network.devnet, network.indexer_origin())
    }

    pub(in crate::e2e::agent) fn at(devnet: &Devnet, indexer: String) -> Self {
        Self::of(devnet, indexer, registry_id(devnet))
    }

    /// The directory of an agent of a corporation.
    pub(in crate::e2e::agent) fn of(devnet: &Devnet, indexer: String, corporation_id: u64) -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            rpc: devnet.node.origin(),
            indexer,
            corporation_id,
            admin: free_port(),
            public: free_port(),
            webhook: None,
            settings: BTreeMap::new(),
            disk: None,
        }
    }

    /// The settings with which an account logs in from outside, at a name of this machine. Callers at the address stay trusted. The login names no
    /// audience, as older callers sign it.
    pub(in crate::e2e::agent) fn login_settings(&self, account: String) -> [(&'static str, String); 5] {
        [
            ("ADMIN_API_AUTH_MODE", "corporation".to_owned()),
            ("ADMIN_API_BIND", "127.0.0.1".to_owned()),
            ("ADMIN_API_PUBLIC_URL", format!("http://localhost:{}", self.admin)),
            ("ADMIN_API_CORPORATION_ALLOWED_ACCOUNTS", account),
            ("ADMIN_API_LOGIN_AUDIENCE", "false".to_owned()),
        ]
    }

    pub(in crate::e2e::agent) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Copies a file of the directory, with the write-ahead log that a database may have beside it.
    pub(in crate::e2e::agent) fn keep(&self, name: &str, copy: &str) {
        std::fs::copy(self.path(name), self.path(copy)).expect("copied");
        let log = self.path(&format!("{name}-wal"));
        if log.exists() {
            std::fs::copy(log, self.path(&format!("{copy}-wal"))).expect("copied");
        }
    }

    /// Puts a copy in the place of the store.
    pub(in crate::e2e::agent) fn restore(&self, copy: &str) {
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(self.path(&format!("agent.db{suffix}")));
        }
        self.keep(copy, "agent.db");
        // The lock file has the newest commit of the store, which a backup of the whole directory would have too.
        for file in std::fs::read_dir(self.directory.path()).expect("readable").flatten() {
            if file.file_name().to_string_lossy().starts_with("agent.db.") {
                std::fs::remove_file(file.path()).expect("removed");
            }
        }
    }

    /// The log of the DID as the running agent serves it.
    pub(in crate::e2e::agent) async fn published_log(&self) -> Vec<u8> {
        let log = reqwest::get(format!("http://localhost:{}/.well-known/did.jsonl", self.public)).await;
        log.expect("served").bytes().await.expect("a log").to_vec()
    }

    /// Stops the agent, and keeps the log of its DID in a file, whose path it returns. The agent may write a version until it has stopped.
    pub(in crate::e2e::agent) async fn stop_with_log(&self, mut agent: AgentProcess) -> String {
        let path = self.path("published.jsonl");
        loop {
            let log = self.published_log().await;
            std::fs::write(&path, &log).expect("written");
            assert!(agent.terminate().0);
            let head: Value =
                serde_json::from_slice(&std::fs::read(self.path("agent.head")).expect("a head")).expect("JSON");
            if String::from_utf8_lossy(&log).contains(head["version_id"].as_str().expect("a version")) {
                return path.to_str().expect("a text").to_owned();
            }
            agent = self.start();
        }
    }

    /// `svc peer` as the owner of this agent runs it: it exits with a status, and prints.
    pub(in crate::e2e::agent) async fn peer(&self, words: &[&str]) -> PeerOutput {
        self.peer_with(words, "", &[]).await
    }

    /// The same with text on standard input, and other settings.
    pub(in crate::e2e::agent) async fn peer_with(
        &self,
        words: &[&str],
        input: &str,
        settings: &[(&str, &str)],
    ) -> PeerOutput {
        let mut command = tokio::process::Command::new(SERVER_PROGRAM);
        let socket = self.path("agent.sock");
        command.arg("peer").args(words).env_clear().env("SVC_AGENT_SOCKET", socket);
        command.env("SVC_ALLOW_PRIVATE_HOSTS", "true").envs(settings.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("svc starts");
        let mut standard_input = child.stdin.take().expect("piped");
        standard_input.write_all(input.as_bytes()).await.expect("written");
        drop(standard_input);
        let ended =
            tokio::time::timeout(TEST_TIMEOUT, child.wait_with_output()).await.expect("in time").expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        PeerOutput { status: ended.status.code(), output: text(&ended.stdout), errors: text(&ended.stderr) }
    }

    /// Starts `svc peer talk` with a standard input that stays open.
    pub(in crate::e2e::agent) fn talk(&self, did: &str) -> Talk {
        let mut command = tokio::process::Command::new(SERVER_PROGRAM);
        command.args(["peer", "talk", did]).env_clear().env("SVC_AGENT_SOCKET", self.path("agent.sock"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Talk(command.spawn().expect("svc starts"))
    }

    pub(in crate::e2e::agent) fn command(&self, words: &[&str]) -> Command {
        let text = |path: &Path| path.to_str().expect("a text").to_owned();
        let mut command =
            self.disk.as_ref().map_or_else(|| Command::new(SERVER_PROGRAM), |disk| disk.command(SERVER_PROGRAM));
        command
            .arg("agent")
            .args(words)
            .env_clear()
            .envs([
                ("SVC_ACCOUNT_MNEMONIC", PHRASE.to_owned()),
                ("SVC_AGENT_STORE_KEY", STORE_KEY.to_owned()),
                ("SVC_AGENT_DB", format!("sqlite://{}?mode=rwc", text(&self.path("agent.db")))),
                ("AGENT_MODE", "delegated".to_owned()),
                ("AGENT_DELEGATED_PARENT_VS_DID", "did:web:parent.example".to_owned()),
                ("SVC_CORPORATION_ID", self.corporation_id.to_string()),
                ("SVC_RPC_ENDPOINT_URL", self.rpc.clone()),
                ("SVC_INDEXER_BASE_URL", self.indexer.clone()),
                ("SVC_INDEXER_SUBSCRIPTION_SCOPE", "corporation".to_owned()),
                ("PUBLIC_API_BASE_URL", format!("http://localhost:{}", self.public)),
                ("PUBLIC_API_PORT", self.public.to_string()),
                ("PUBLIC_API_BIND", "127.0.0.1".to_owned()),
                ("ADMIN_API_PORT", self.admin.to_string()),
                ("SVC_ALLOW_PRIVATE_HOSTS", "true".to_owned()),
                ("AGENT_LOG_LEVEL", "info".to_owned()),
            ])
            .envs(self.webhook.iter().map(|url| ("EVENTS_WEBHOOK_URL", url.clone())))
            .envs(&self.settings)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the agent, and returns when it serves.
    pub(in crate::e2e::agent) fn start(&self) -> AgentProcess {
        let mut child = self.command(&[]).spawn().expect("svc starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut log = String::new();
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).expect("readable") > 0, "svc ended: {log}");
            log.push_str(&line);
            let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
            if parsed["msg"] == "serving the agent" {
                break;
            }
        }
        // A pipe without a reader would stop the process.
        let log = std::thread::spawn(move || {
            let _ = lines.read_to_string(&mut log);
            log
        });
        AgentProcess { child: OwnedChild(child), admin: format!("http://127.0.0.1:{}", self.admin), log: Some(log) }
    }

    /// Runs a command, or an agent that does not start: success and output.
    pub(in crate::e2e::agent) async fn run(&self, words: &[&str]) -> (bool, String) {
        let mut command = tokio::process::Command::from(self.command(words));
        command.kill_on_drop(true);
        shown(&tokio::time::timeout(TEST_TIMEOUT, command.output()).await.expect("in time").expect("it runs"))
    }

    /// Runs `svc agent init`, which sends the steps by the tool server of a network: success and output.
    pub(in crate::e2e::agent) async fn init(&self, world: &TestNetwork, more: &[&str]) -> (bool, String) {
        let url = world.network.mcp_url();
        let mut command = self.command(&[&["init", "--operator", &url, "--yes"], more].concat());
        command.env("MCP_BEARER_TOKEN", &world.network.bearer_token);
        shown(&tokio::task::spawn_blocking(move || command.output().expect("it runs")).await.expect("joins"))
    }
}

/// Success and output of a command.
fn shown(output: &Output) -> (bool, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// The end of a command.
#[derive(Debug)]
pub(in crate::e2e::agent) struct PeerOutput {
    pub(in crate::e2e::agent) status: Option<i32>,
    pub(in crate::e2e::agent) output: String,
    pub(in crate::e2e::agent) errors: String,
}

impl PeerOutput {
    /// The output of a command that has succeeded.
    #[track_caller]
    pub(in crate::e2e::agent) fn done(&self) -> &str {
        assert_eq!(self.status, Some(0), "{self:?}");
        &self.output
    }

    /// Asserts the status of a failure, and words of its error.
    #[track_caller]
    pub(in crate::e2e::agent) fn failed(&self, status: i32, words: &str) {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert!(self.errors.contains(words), "{words:?} in {self:?}");
    }
}

/// A running talk with a peer.
pub(in crate::e2e::agent) struct Talk(tokio::process::Child);

impl Talk {
    /// The first line that it prints, while others are said again and again: it shows none of before its start.
    pub(in crate::e2e::agent) async fn read_after(mut self, say: impl AsyncFn()) -> String {
        let mut lines = tokio::io::BufReader::new(self.0.stdout.take().expect("piped"));
        let mut line = String::new();
        let heard = async {
            loop {
                tokio::select! {
                    read = lines.read_line(&mut line) => return read.expect("readable"),
                    () = async { say().await; std::future::pending::<()>().await } => {}
                    () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
                }
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, heard).await.expect("a line in time");
        line
    }
}

/// A child that does not outlive its owner.
pub(in crate::e2e::agent) struct OwnedChild(Child);

impl Deref for OwnedChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnedChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // One that has ended already is not there any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(in crate::e2e::agent) struct AgentProcess {
    pub(in crate::e2e::agent) child: OwnedChild,
    admin: String,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // A test that fails shows the agent's side of it.
        if let Some(log) = self.log.take().filter(|_| std::thread::panicking()) {
            let _ = self.child.kill();
            eprintln!("the log of the agent at {}:\n{}", self.admin, log.join().unwrap_or_default());
        }
    }
}

impl AgentProcess {
    pub(in crate::e2e::agent) async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> AdminAnswer {
        answer(self.request(method, path, body)).await
    }

    pub(in crate::e2e::agent) fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::RequestBuilder {
        let request = request(method, &format!("{}{path}", self.admin));
        match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        }
    }

    pub(in crate::e2e::agent) async fn info(&self) -> Value {
        self.send("GET", "/v2/agent/info", None).await.body
    }

    pub(in crate::e2e::agent) async fn add(&self, id: &str) -> AdminAnswer {
        let body = json!({"id": id, "type": "MCP", "serviceEndpoint": "https://example.com/mcp"});
        self.send("POST", "/v2/vt/service-endpoints", Some(&body)).await
    }

    /// Waits until the newest document is resolved; that changes with blocks.
    pub(in crate::e2e::agent) async fn await_idle(&self, network: &ChainAndIndexer) -> Value {
        let mut heights = network.devnet.node.watch_heights();
        let waited = tokio::time::timeout(TEST_TIMEOUT, async {
            loop {
                let info = self.info().await;
                if info["resolution"]["state"] == "idle" {
                    return info;
                }
                heights.changed().await.expect("blocks");
            }
        });
        waited.await.expect("idle in time")
    }

    pub(in crate::e2e::agent) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Stops as a service manager does; returns whether the exit code was 0, and the log.
    pub(in crate::e2e::agent) fn terminate(mut self) -> (bool, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("sent");
        let is_ok = self.child.wait().expect("ends").success();
        (is_ok, self.log.take().expect("not taken before").join().expect("a log"))
    }
}
