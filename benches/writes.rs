//! The write pipeline: ecosystems of one corporation, written with one key by MCP clients of this process over sockets. Chain,
//! indexer, tool server and clients share the machine. Beside them CosmJS, straight at the node of a chain of the same kind.
#![allow(clippy::print_stderr)]

mod span_recorder;
mod sync_counter;

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc::{
    mcp_client::{McpClient, result_content},
    network::{LocalNetwork, LocalNetworkConfig},
};
use svc_devnet::{Devnet, DevnetConfig};
use svc_operator::WindowBound;
use tempfile::TempDir;

use crate::{BenchRow, median};
use span_recorder::{SpanRecorder, WriteTimes, write_times};
use sync_counter::SyncCounter;

const CREATE: &str = "svc.ledger.es.createEcosystem";
const SECOND: Duration = Duration::from_secs(1);
/// Writes at once where the window is not the bound; `SVC_BENCH_WRITES` names fewer, for a build without optimisation.
const BURST_WRITES: usize = 1_000;
/// Fixed windows, and the writes that fill each of them eight times.
const WINDOWS: [(usize, usize); 3] = [(1, 8), (8, 64), (64, 512)];
/// A client has 256 requests under way at most.
const PER_CLIENT: usize = 250;
/// Repetitions of a measurement that takes a few blocks: it depends on the moment of its start.
const ROUNDS: usize = 3;
const LONE_WRITES: usize = 21;
const SEQUENTIAL_WRITES: usize = 6;
/// Lone writes whose spans are recorded, and blocks quick enough for so many.
const TRACED_WRITES: usize = 400;
const QUICK_BLOCK_TIME: Duration = Duration::from_millis(25);

/// A network with clients of its own.
struct WriteBench {
    network: LocalNetwork,
    clients: Vec<McpClient>,
    block_time: Duration,
    /// Journal and audit, where they are on disk.
    _files: Option<TempDir>,
}

struct MeasuredWrite {
    height: u64,
    /// Milliseconds until the indexer had the block.
    index: f64,
}

impl WriteBench {
    async fn start(block_time: Duration, window: WindowBound, clients: usize, is_on_disk: bool) -> Self {
        let devnet = DevnetConfig { block_time: Some(block_time), ..DevnetConfig::default() };
        let folder = is_on_disk.then(|| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"));
        let file = |name| folder.as_ref().map(|folder| folder.path().join(name).display().to_string());
        let (journal, audit) = (file("journal"), file("audit"));
        let config = LocalNetworkConfig { devnet, window, journal, audit, ..LocalNetworkConfig::default() };
        let network = LocalNetwork::launch(config).await.expect("starts");
        let url = network.mcp_url();
        let connected = (0..clients).map(|_| McpClient::connect(&url, &network.bearer_token));
        let clients = futures::future::try_join_all(connected).await.expect("connects");
        Self { network, clients, block_time, _files: folder }
    }

    async fn stop(self) {
        for client in self.clients {
            client.close().await;
        }
        self.network.shutdown(SECOND).await;
    }

    /// Any moment between two blocks is as likely as any other.
    async fn sleep_random_phase(&self) {
        tokio::time::sleep(self.block_time.mul_f64(fastrand::f64())).await;
    }

    async fn await_block(&self) {
        self.network.devnet.node.watch_heights().changed().await.expect("a block");
    }

    async fn write(&self, name: &str, number: usize) -> MeasuredWrite {
        let host = format!("{name}-{number}.example");
        let doc = format!("https://{host}/f.pdf");
        let arguments = json!({
            "did": format!("did:web:{host}"), "language": "en", "doc_url": doc, "doc_digest_sri": "sha256-AAEC",
        });
        let client = &self.clients[number % self.clients.len()];
        let called = client.call_tool(CREATE, arguments.as_object().cloned().unwrap_or_default()).await;
        let result = called.unwrap_or_else(|error| panic!("{host}: {error:#}"));
        let content = result_content(&result);
        let is_done = result.is_error == Some(false) && content["code"] == 0 && content["indexer_synced"] == true;
        assert!(is_done, "{host}: {content:#}");
        let height = content["block_height"].as_u64().expect("a height");
        MeasuredWrite { height, index: content["timings_ms"]["index"].as_f64().expect("milliseconds") }
    }
}

/// Many writes at once.
#[derive(Clone, Copy)]
struct BurstFigures {
    /// Writes a second, from the first call to the last answer.
    rate: f64,
    /// Blocks from the first call to the last inclusion.
    blocks: f64,
}

async fn measure_burst(block_time: Duration, window: WindowBound, count: usize, is_on_disk: bool) -> BurstFigures {
    let rig = WriteBench::start(block_time, window, count.div_ceil(PER_CLIENT), is_on_disk).await;
    rig.await_block().await;
    if window == WindowBound::Adaptive {
        rig.sleep_random_phase().await;
    }
    // A fixed one begins right behind a block, so that no part of a block is given to it.
    let height = *rig.network.devnet.node.watch_heights().borrow();
    let begun = Instant::now();
    let receipts = futures::future::join_all((0..count).map(|number| rig.write("many", number))).await;
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    let last = receipts.iter().map(|receipt| receipt.height).max().expect("some");
    rig.stop().await;
    let burst = BurstFigures { rate, blocks: (last - height) as f64 };
    let place = if is_on_disk { ", journal on disk" } else { "" };
    eprintln!("{count} writes, {block_time:?} blocks, {window:?}{place}: {rate:.2}/s, {} blocks", burst.blocks);
    burst
}

fn burst_size() -> usize {
    std::env::var("SVC_BENCH_WRITES").ok().and_then(|count| count.parse().ok()).unwrap_or(BURST_WRITES)
}

/// The median of each figure.
fn median_figures(bursts: &[BurstFigures]) -> BurstFigures {
    let of = |figure: fn(&BurstFigures) -> f64| median(bursts.iter().map(figure).collect());
    BurstFigures { rate: of(|burst| burst.rate), blocks: of(|burst| burst.blocks) }
}

/// Two rows for each window.
async fn measure_windows(block_time: Duration, adaptive: Option<BurstFigures>) -> Vec<BenchRow> {
    let mut measured = Vec::new();
    for (size, full) in WINDOWS {
        let count = full.min(burst_size());
        let what = format!("window {size}, measured with {count}");
        measured.push((what, count, size, measure_burst(block_time, WindowBound::Fixed(size), count, false).await));
    }
    let adaptive = match adaptive {
        Some(known) => known,
        None => {
            let mut bursts = Vec::new();
            for _ in 0..ROUNDS {
                bursts.push(measure_burst(block_time, WindowBound::Adaptive, burst_size(), false).await);
            }
            median_figures(&bursts)
        }
    };
    measured.push((format!("adaptive window, measured with {}", burst_size()), burst_size(), BURST_WRITES, adaptive));
    let (one, seconds) = (measured[0].3.rate, block_time.as_secs());
    let pair = |(what, count, size, burst): &(String, usize, usize, BurstFigures)| {
        let (blocks, full) = (burst.blocks * BURST_WRITES as f64 / *count as f64, BURST_WRITES.div_ceil(*size));
        let rate = BenchRow {
            measure: format!("writes a second from one key, {seconds} s blocks, {what}"),
            value: format!("{:.2}/s", burst.rate),
            baseline: format!("{one:.2}/s, window 1"),
            ratio: burst.rate / one,
        };
        let blocks_row = BenchRow {
            measure: format!("blocks for 1,000 writes from one key, {seconds} s blocks, {what}"),
            value: format!("{blocks:.0} blocks"),
            baseline: if full == 1 {
                "one block".to_owned()
            } else {
                format!("{full} blocks, the window full in each")
            },
            ratio: blocks / full as f64,
        };
        [rate, blocks_row]
    };
    measured.iter().flat_map(pair).collect()
}

/// Where CosmJS is run from: packages are found beside the file.
fn cosmjs_script() -> Option<String> {
    let root = env!("CARGO_MANIFEST_DIR");
    let packages = format!("{root}/target/interop/node_modules/@cosmjs/stargate");
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_node || !Path::new(&packages).exists() {
        eprintln!(
            "no node, or no {packages}: rows beside CosmJS are left out; tests/interop/install.py npm makes them"
        );
        return None;
    }
    let script = format!("{root}/target/interop/cosmjs_writes.mjs");
    std::fs::copy(format!("{root}/benches/peers/cosmjs_writes.mjs"), &script).expect("copied");
    Some(script)
}

/// Writes a second of CosmJS.
async fn measure_cosmjs(script: &str, mode: &str, count: usize) -> f64 {
    let config = DevnetConfig { block_time: Some(SECOND), ..DevnetConfig::default() };
    let devnet = Devnet::launch(config).await.expect("starts");
    let seat = devnet.operator_slot.as_ref().expect("a seat");
    let (phrase, policy) = (&devnet.accounts[&seat.operator_name].mnemonic, &seat.policy_address);
    let mut command = tokio::process::Command::new("node");
    command.args([script, mode, &devnet.node.origin(), phrase, policy, &count.to_string(), mode]);
    let output = command.stderr(Stdio::inherit()).kill_on_drop(true).output().await.expect("runs");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    eprintln!("CosmJS: {told}");
    assert!(output.status.success() && told["failed"] == 0, "CosmJS failed: {told}");
    devnet.node.close();
    count as f64 / told["seconds"].as_f64().expect("seconds")
}

/// Latency of a write that is alone, in block times, beside the block time.
async fn measure_lone_write() -> BenchRow {
    let rig = WriteBench::start(SECOND, WindowBound::Adaptive, 1, false).await;
    rig.write("first", 0).await;
    let (mut latency, mut index) = (Vec::new(), Vec::new());
    for number in 0..LONE_WRITES {
        rig.sleep_random_phase().await;
        let begun = Instant::now();
        index.push(rig.write("lone", number).await.index);
        latency.push(begun.elapsed().as_secs_f64() / SECOND.as_secs_f64());
    }
    rig.stop().await;
    let longest = latency.iter().copied().fold(0.0, f64::max);
    let (latency, index) = (median(latency), median(index));
    BenchRow {
        measure: format!(
            "a lone write begun at any moment, 1 s blocks, median of {LONE_WRITES}, the indexer's part included"
        ),
        value: format!("{latency:.2} block times, of which the indexer {index:.0} ms; the longest {longest:.2}"),
        baseline: "one block time".to_owned(),
        ratio: latency,
    }
}

/// The time that the server itself adds to a write, by its spans.
async fn measure_server_overhead() -> Vec<BenchRow> {
    let recorder = Arc::new(SpanRecorder::default());
    tracing::subscriber::set_global_default(Arc::clone(&recorder)).expect("the only one");
    let rig = WriteBench::start(QUICK_BLOCK_TIME, WindowBound::Adaptive, 1, true).await;
    for number in 0..TRACED_WRITES / 10 {
        rig.write("warm", number).await;
    }
    // A span may be closed a little after the answer.
    let settle = 8 * QUICK_BLOCK_TIME;
    tokio::time::sleep(settle).await;
    drop(recorder.take());
    for number in 0..TRACED_WRITES {
        rig.write("traced", number).await;
    }
    tokio::time::sleep(settle).await;
    let all = recorder.take();
    rig.stop().await;
    let written = write_times(&all);
    assert_eq!(written.len(), TRACED_WRITES, "every write has its spans");
    let at = |figure: fn(&WriteTimes) -> f64, part: usize| {
        let mut values: Vec<f64> = written.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() * part / 100]
    };
    let row = |what: &str, figure: fn(&WriteTimes) -> f64, word: &str, part: usize| {
        let (own, whole) = (at(figure, part), at(|of| of.total_ms, part));
        BenchRow {
            measure: format!("what the tool server adds to a lone write, {word} of {TRACED_WRITES}: {what}"),
            value: format!("{own:.2} ms"),
            baseline: format!("{whole:.1} ms, the whole span, {} ms blocks", QUICK_BLOCK_TIME.as_millis()),
            ratio: own / whole,
        }
    };
    let less = "its server span less simulate, broadcast with the journal's write, await_inclusion, await_index";
    let more = "the same, and the journal's write on disk and all else in simulate and broadcast but the node's answer";
    vec![
        row(less, |of| of.overhead_ms, "median", 50),
        row(less, |of| of.overhead_ms, "99th percentile", 99),
        row(more, |of| of.overhead_with_disk_ms, "median", 50),
        row(more, |of| of.overhead_with_disk_ms, "99th percentile", 99),
    ]
}

/// Waits for the disk, for each write; none where they cannot be counted.
async fn measure_syncs() -> Vec<BenchRow> {
    let mut rows = Vec::new();
    for (what, groups, size) in [("lone writes", LONE_WRITES, 1), ("writes at once", 1, burst_size())] {
        let rig =
            WriteBench::start(Duration::from_millis(200), WindowBound::Adaptive, size.div_ceil(PER_CLIENT), true).await;
        rig.write("first", 0).await;
        let Some(counter) = SyncCounter::start() else { return Vec::new() };
        for group in 0..groups {
            let name = format!("synced-{group}");
            futures::future::join_all((0..size).map(|number| rig.write(&name, number))).await;
        }
        let (syncs, writes) = (counter.stop(), groups * size);
        rig.stop().await;
        rows.push(BenchRow {
            measure: format!("waits for the disk (fsync) of {writes} {what}, journal and audit on disk"),
            value: format!("{syncs}"),
            baseline: format!("{writes}, one for each write"),
            ratio: syncs as f64 / writes as f64,
        });
    }
    rows
}

/// Blocks until the last answer, of writes one after the other and of sixty-four at once; each begins right behind a block.
async fn measure_few_writes() -> [BenchRow; 2] {
    const TIME: Duration = Duration::from_millis(200);
    let rig = WriteBench::start(TIME, WindowBound::Adaptive, 1, false).await;
    let blocks = |begun: Instant| begun.elapsed().as_secs_f64() / TIME.as_secs_f64();
    rig.write("first", 0).await;
    let mut single = Vec::new();
    for number in 0..9 {
        let begun = Instant::now();
        rig.write("single", number).await;
        single.push(blocks(begun));
    }
    let begun = Instant::now();
    futures::future::join_all((0..64).map(|number| rig.write("few", number))).await;
    let figures =
        [("one write after the other", median(single)), ("64 writes at once, to the last answer", blocks(begun))];
    rig.stop().await;
    figures.map(|(what, blocks)| BenchRow {
        measure: format!("{what}, {} ms blocks", TIME.as_millis()),
        value: format!("{blocks:.2} blocks"),
        baseline: "one block".to_owned(),
        ratio: blocks,
    })
}

pub async fn rows() -> Vec<BenchRow> {
    let script = cosmjs_script();
    let (mut memory, mut disk, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    // In alternation, so that a busy moment of the machine meets all of them.
    for _ in 0..ROUNDS {
        memory.push(measure_burst(SECOND, WindowBound::Adaptive, burst_size(), false).await);
        disk.push(measure_burst(SECOND, WindowBound::Adaptive, burst_size(), true).await);
        if let Some(script) = &script {
            theirs.push(measure_cosmjs(script, "handkept", burst_size()).await);
        }
    }
    let (memory, disk) = (median_figures(&memory), median_figures(&disk));
    let mut rows = measure_windows(SECOND, Some(memory)).await;
    rows.extend(measure_windows(5 * SECOND, None).await);
    rows.push(BenchRow {
        measure: format!("{} writes at once, 1 s blocks, from the first call to the last inclusion", burst_size()),
        value: format!("{:.0} blocks; {:.0} with the journal on disk", memory.blocks, disk.blocks),
        baseline: "one block".to_owned(),
        ratio: memory.blocks,
    });
    if let Some(script) = &script {
        let sequential = measure_cosmjs(script, "sequential", SEQUENTIAL_WRITES).await;
        let beside = |ours: BurstFigures, how: &str, theirs: f64, what: &str| BenchRow {
            measure: format!("writes a second from one key, 1 s blocks, adaptive window{how}, beside CosmJS, {what}"),
            value: format!("{:.0}/s", ours.rate),
            baseline: format!("{theirs:.2}/s"),
            ratio: ours.rate / theirs,
        };
        let (one, many) = (
            format!("{SEQUENTIAL_WRITES} one after the other"),
            format!("{} with the sequence kept by hand", burst_size()),
        );
        rows.push(beside(memory, "", sequential, &one));
        let by_hand = median(theirs);
        rows.push(beside(memory, "", by_hand, &many));
        rows.push(beside(disk, ", journal on disk", by_hand, &many));
    }
    rows.push(measure_lone_write().await);
    rows.extend(measure_few_writes().await);
    rows.extend(measure_syncs().await);
    // The last: from here on spans are recorded.
    rows.extend(measure_server_overhead().await);
    rows
}
