//! `make soak`: writes go on while everything around the tool server breaks. Every one of them must end with an answer that
//! is final and true: none lost, none made twice, none undecided.
//!
//! The chain runs in this process, the tool server and its indexer as processes of their own that are killed and started
//! again. `SOAK_WRITES`, `SOAK_SECONDS`, `SOAK_SEED` and `SOAK_CALM` set the size, repeat the order of the faults, and make them rarer;
//! `SOAK_FAULTS` names the kinds that strike, separated by commas; `SOAK_RETURNS` says how often the chain goes back.
#![allow(missing_docs, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod another_history;
mod fault_injector;
mod index_reader;
mod outcomes;
mod report;
mod server_processes;
mod verdict;
mod writer_pool;

use std::{path::Path, process::ExitCode, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, node::Node, scenario::Scenario};
use svc_test_support::small_disk::SmallDisk;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use another_history::{LostTransactions, lose_blocks};
use fault_injector::{FaultCounts, FaultInjector, FaultKind, FaultTargets, fault_kinds};
use index_reader::IndexReader;
use report::SoakReport;
use server_processes::{ServerProcess, copy_program, free_port, remove_program};
use verdict::{Sayings, SoakVerdict};
use writer_pool::WriterPool;

/// Time between blocks: quick, and slow enough for faults to fall between them.
const BLOCK_TIME: Duration = Duration::from_millis(300);
/// How long the tool server lets a caller wait for inclusion; a transaction lives twice as long.
const TX_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the tool server waits for the indexer, which may be down.
const INDEXER_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that writes have after the last fault; a write that is still open then counts as undecided.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(180);
/// How long a server gets to come up, or the journal to close its last row.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(90);
/// Sizes of the disks of journal and audit, and of the index.
const RECORDS_DISK: &str = "size=256m";
const INDEX_DISK: &str = "size=1g";
const TOKEN: &str = "token-of-the-soak-0123456789abcdef";

/// The writes and the duration that the command line asks for.
pub struct SoakPlan {
    pub writes: usize,
    /// Bound of the phase in which writes begin.
    pub seconds: u64,
    pub seed: u64,
    /// How much rarer strikes are than usual.
    pub pause_factor: u64,
    /// How often the chain goes back.
    pub returns: usize,
    pub kinds: Vec<&'static FaultKind>,
}

impl SoakPlan {
    fn read() -> Self {
        let number = |name: &str, default: u64| match std::env::var(name) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is not a number")),
            Err(_) => default,
        };
        let writes = usize::try_from(number("SOAK_WRITES", 2_000)).expect("a size");
        let seed = number("SOAK_SEED", fastrand::u64(..1_000_000));
        let faults = std::env::var("SOAK_FAULTS").ok();
        Self {
            writes,
            seconds: number("SOAK_SECONDS", 180),
            seed,
            pause_factor: number("SOAK_CALM", 1),
            returns: usize::try_from(number("SOAK_RETURNS", 2)).expect("a size"),
            kinds: fault_kinds(faults.as_deref()),
        }
    }
}

/// Starts the chain, and gives the operator coins of its own: foreign uses of its key pay for themselves.
async fn launch_chain(rng: &mut fastrand::Rng) -> Devnet {
    let listen = ([127, 0, 0, 1], free_port(rng)).into();
    let config = DevnetConfig { block_time: Some(BLOCK_TIME), listen, ..DevnetConfig::default() };
    let devnet = Devnet::launch(config).await.expect("the chain starts");
    let coins = json!([{"denom": "$FEE", "amount": "1000000000"}]);
    let send = json!({"from_address": "$member", "to_address": "$operator", "amount": coins});
    let funding: Scenario = serde_json::from_value(json!({
        "description": "The operator has coins of its own.",
        "step": [{"name": "fund", "signer": "member", "messages": [{"type": "/cosmos.bank.v1beta1.MsgSend", "value": send}]}],
    }))
    .expect("a scenario");
    devnet.run_steps(&funding).await.expect("funded");
    devnet
}

/// The processes: the tool server, its indexer, and an indexer of another chain.
struct SoakServers {
    tools: Arc<ServerProcess>,
    indexer: Arc<ServerProcess>,
    foreign: Arc<ServerProcess>,
}

impl SoakServers {
    fn new(devnet: &Devnet, replica: &Node, other_chain: &Devnet, home: &Path, rng: &mut fastrand::Rng) -> Self {
        let seat = devnet.operator_slot.as_ref().expect("a seat");
        let phrase = devnet.accounts[&seat.operator_name].mnemonic.clone();
        let [records, index] = [RECORDS_DISK, INDEX_DISK].map(|size| SmallDisk::mount(size).map(Arc::new));
        let file = |disk: &Option<Arc<SmallDisk>>, name: &str| match disk {
            Some(disk) => disk.path(name),
            None => home.join(name).display().to_string(),
        };
        let [tools, indexer, foreign] = std::array::from_fn(|_| free_port(rng));
        let indexer_environment = |chain: &Devnet, port: u16, file: String| {
            vec![
                ("SVC_RPC", chain.node.origin()),
                ("SVC_INDEXER_DB", format!("sqlite://{file}?mode=rwc")),
                ("SVC_INDEXER_PORT", port.to_string()),
                ("SVC_INDEXER_BLOCK_MS", BLOCK_TIME.as_millis().to_string()),
                ("SVC_LOG_LEVEL", "warn".to_owned()),
            ]
        };
        let foreign_environment = indexer_environment(other_chain, foreign, file(&None, "foreign.db"));
        let indexer_environment = indexer_environment(devnet, indexer, file(&index, "indexer.db"));
        let tools_environment = [
            ("MCP_SVC_MNEMONIC", phrase),
            ("MCP_BEARER_TOKEN", TOKEN.to_owned()),
            ("MCP_HTTP_PORT", tools.to_string()),
            ("MCP_HTTP_BIND", "127.0.0.1".to_owned()),
            ("SVC_CORPORATION", seat.corporation_id.to_string()),
            ("SVC_RPC", format!("{},{}", devnet.node.origin(), replica.origin())),
            // The foreign one comes first: it answers at once, and its blocks are those of another chain.
            ("SVC_INDEXER", format!("http://127.0.0.1:{foreign},http://127.0.0.1:{indexer}")),
            ("SVC_TX_TIMEOUT_MS", TX_TIMEOUT.as_millis().to_string()),
            ("SVC_INDEXER_TIMEOUT_MS", INDEXER_TIMEOUT.as_millis().to_string()),
            ("SVC_JOURNAL", file(&records, "journal.db")),
            ("SVC_AUDIT", file(&records, "audit.jsonl")),
            ("SVC_MIN_FREE_DISK", "0".to_owned()),
        ];
        Self {
            indexer: ServerProcess::new("indexer", indexer, indexer_environment, home, index),
            foreign: ServerProcess::new("indexer", foreign, foreign_environment, home, None),
            tools: ServerProcess::new("serve", tools, tools_environment.into(), home, records),
        }
    }

    /// Checks journal and audit as a person would; the words of each failure.
    fn verify_records(&self, home: &Path) -> Vec<String> {
        let file = |name: &str| match self.tools.disk() {
            Some(disk) => disk.path(name),
            None => home.join(name).display().to_string(),
        };
        let (journal, audit) = (file("journal.db"), file("audit.jsonl"));
        let check = |arguments: [&str; 3]| {
            let output = self.tools.program_command().args(arguments).output().expect("svc runs");
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            (!output.status.success()).then(|| format!("{arguments:?}: {words}"))
        };
        [check(["journal", "verify", &journal]), check(["audit", "verify", &audit])].into_iter().flatten().collect()
    }

    async fn start(&self, devnet: &Devnet) {
        self.foreign.start().await;
        self.indexer.start().await;
        let height = *devnet.node.watch_heights().borrow();
        let is_indexed =
            async || self.indexer.get_json("/v4/indexer/block-height").await["height"].as_u64() >= Some(height);
        assert!(wait_until(is_indexed).await, "the indexer comes up");
        self.tools.start().await;
        assert!(self.is_up().await, "the tool server comes up");
        for server in [&self.tools, &self.indexer, &self.foreign] {
            tokio::spawn(Arc::clone(server).restart_when_ended());
        }
    }

    async fn is_up(&self) -> bool {
        wait_until(async || self.tools.get_json("/healthz").await["status"] == "ok").await
    }
}

async fn wait_until(holds: impl AsyncFn() -> bool) -> bool {
    let waited = timeout(STARTUP_TIMEOUT, async {
        while !holds().await {
            sleep(Duration::from_millis(100)).await;
        }
    });
    waited.await.is_ok()
}

/// Everything breaks while the writes begin, in as many parts as the chain has histories; between two of them it goes back.
async fn strike_and_go_back(
    plan: &SoakPlan,
    devnet: &Devnet,
    replica: &Node,
    servers: &SoakServers,
    (writers, index): (&Arc<WriterPool>, &IndexReader),
    records: &Path,
    rng: &mut fastrand::Rng,
) -> (FaultCounts, LostTransactions, Vec<String>) {
    let deadline = Instant::now() + Duration::from_secs(plan.seconds);
    let first = *devnet.node.watch_heights().borrow();
    let (mut struck, mut lost, mut notes) = (FaultCounts::new(), LostTransactions::default(), Vec::new());
    for part in 1..=plan.returns + 1 {
        let targets = FaultTargets {
            nodes: [devnet.node.clone(), replica.clone()],
            tools: Arc::clone(&servers.tools),
            indexer: Arc::clone(&servers.indexer),
            writers: Arc::clone(writers),
            records: records.to_owned(),
        };
        let calm = CancellationToken::new();
        let chaos = FaultInjector::new(devnet, targets, rng.fork(), plan);
        let chaos = tokio::spawn(chaos.run(calm.clone()));
        match part <= plan.returns {
            true => writers.await_ended(plan.writes * part / (plan.returns + 1), deadline).await,
            false => writers.await_begun(plan.writes, deadline).await,
        }
        calm.cancel();
        for (name, count) in chaos.await.expect("the faults end") {
            *struck.entry(name).or_default() += count;
        }
        if part <= plan.returns {
            notes.extend(lose_blocks(&devnet.node, servers, writers, index, (first, &mut lost)).await);
            *struck.entry("the chain goes back").or_default() += 1;
        }
    }
    writers.begin_no_more();
    (struck, lost, notes)
}

async fn run_soak(plan: &SoakPlan, home: &Path) -> SoakReport {
    copy_program(home);
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    let devnet = launch_chain(&mut rng).await;
    let other_chain = Devnet::launch(DevnetConfig {
        chain_id: "another-devnet-1".to_owned(),
        block_time: Some(BLOCK_TIME),
        ..DevnetConfig::default()
    });
    let other_chain = other_chain.await.expect("another chain");
    let replica = devnet.node.start_replica(([127, 0, 0, 1], free_port(&mut rng)).into()).expect("a replica");
    let servers = SoakServers::new(&devnet, &replica, &other_chain, home, &mut rng);
    servers.start(&devnet).await;

    let begun = Instant::now();
    let index = Arc::new(IndexReader::new(servers.indexer.origin()));
    let url = format!("{}/mcp", servers.tools.origin());
    let writers = Arc::new(WriterPool::start(plan, url, Arc::clone(&index), rng.fork()));
    let records = servers.tools.disk().map_or_else(|| home.to_owned(), |disk| disk.outside());
    let (struck, lost, problems) =
        strike_and_go_back(plan, &devnet, &replica, &servers, (&writers, &index), &records, &mut rng).await;
    eprintln!("nothing breaks any more; {} writes are open", writers.open());
    writers.await_all_ended(SETTLE_TIMEOUT).await;
    let seconds = begun.elapsed().as_secs_f64();

    // After an orderly end the records must be complete, and the server must repeat each recorded answer.
    servers.tools.restart(rustix::process::Signal::TERM, Duration::ZERO).await;
    let is_up = servers.is_up().await;
    let open_rows = await_closed_rows(&writers).await;
    let repeated = writers.repeat_recorded(STARTUP_TIMEOUT, &lost).await;
    let finally = servers.tools.stop().await;
    servers.indexer.stop().await;
    servers.foreign.stop().await;
    let audit = records.join("audit.jsonl");
    let unindexed = index.untrue();
    let said = Sayings { lost: &lost, repeated: &repeated, unindexed: &unindexed, audit: &audit, open_rows };
    let mut verdict = SoakVerdict::of(&devnet.node, &writers.all(), &said);
    verdict.faults.extend(problems);
    verdict.compare_losses(writers.losses().len(), servers.tools.count_in_log("the journal has lost records"));
    if !verdict.is_clean() && servers.tools.disk().is_some() {
        for file in std::fs::read_dir(&records).into_iter().flatten().flatten() {
            // The disk ends with this process.
            let _ = std::fs::copy(file.path(), home.join(file.file_name()));
        }
    }
    let mut notes = servers.tools.notes();
    notes.extend(servers.verify_records(home));
    notes.extend(servers.indexer.notes());
    if !is_up {
        notes.push("the tool server did not come up after the last restart".to_owned());
    }
    notes.extend(finally);
    SoakReport {
        verdict,
        fault_counts: struck,
        writes: writers.all(),
        call_counts: writers.counts().into_iter().chain(index.counts()).collect(),
        seconds,
        seed: plan.seed,
        notes,
    }
}

/// Rows of the journal, and transactions in flight, that stay open although every call has ended; `None` when the server
/// does not answer.
async fn await_closed_rows(writers: &WriterPool) -> Option<u64> {
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    let mut open = None;
    while open != Some(0) && Instant::now() < deadline {
        sleep(Duration::from_millis(300)).await;
        let Some(told) = writers.read("svc://own/transactions").await else { continue };
        let Some(status) = writers.read("svc://own/status").await else { continue };
        let Some(rows) = told["transactions"].as_array().filter(|_| told["unreadable"].is_null()) else { continue };
        let is_open = |row: &&Value| row["state"].as_str().is_some_and(|state| state.starts_with("open"));
        let in_flight = status["writes"]["in_flight"].as_u64().unwrap_or(u64::MAX);
        open = Some(in_flight.max(rows.iter().filter(is_open).count() as u64));
    }
    open
}

fn main() -> ExitCode {
    let plan = SoakPlan::read();
    eprintln!("seed {}: {} writes, begun within {} s", plan.seed, plan.writes, plan.seconds);
    let home = tempfile::Builder::new().prefix("svc-soak-").tempdir().expect("a directory");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let report = runtime.block_on(run_soak(&plan, home.path()));
    report.print();
    runtime.shutdown_background();
    if report.verdict.is_clean() {
        return ExitCode::SUCCESS;
    }
    remove_program(home.path());
    println!("\nLogs, journal and audit are in {}", home.keep().display());
    ExitCode::FAILURE
}
