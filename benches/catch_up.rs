//! The indexer's catch-up beside a client that makes the same requests and discards the answers, and the size of its store.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::StreamExt;
use serde_json::json;
use svc_devnet::{Devnet, DevnetConfig};
use svc_indexer::{Indexer, IndexerConfig};
use svc_net::upstream::NodeClient;

use crate::{
    BenchRow, median,
    subscription::{MARKETPLACE_SCENARIO, record_requests},
};

const QUIET_BLOCKS: u64 = 10_000;
/// Blocks with a transaction, beside those of the marketplace.
const BUSY_BLOCKS: u64 = 4_000;
/// Time of a network to a node elsewhere and back.
const LATENCY: Duration = Duration::from_millis(20);
/// Requests that the indexer has under way at most.
const CONCURRENCY: usize = 64;
/// Rounds of the indexer and of the client, one after the other, since the machine is not the same from one second to the next.
const ROUNDS: usize = 3;

/// Blocks a second, and bytes on disk.
pub async fn rows() -> Vec<BenchRow> {
    let mut rows = quiet_rows().await;
    rows.extend(busy_rows().await);
    rows
}

async fn launch_marketplace() -> Devnet {
    let config = DevnetConfig { block_time: None, scenario: MARKETPLACE_SCENARIO.into(), ..DevnetConfig::default() };
    Devnet::launch(config).await.expect("a devnet")
}

/// The catch-up of an empty store: seconds to each of the heights, and the size of the store in bytes.
async fn catch_up<const N: usize>(store: &Path, node: &str, heights: [u64; N]) -> ([f64; N], u64) {
    let config = IndexerConfig::new(node.to_owned(), format!("sqlite://{}?mode=rwc", store.display()));
    let begun = Instant::now();
    let indexer = Indexer::launch(config).await.expect("an indexer");
    let mut seconds = [0.0; N];
    for (height, seconds) in heights.into_iter().zip(&mut seconds) {
        while indexer.reader.checkpoint().await.expect("a checkpoint").height < height {
            // Rarely, since the question costs the indexer time.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        *seconds = begun.elapsed().as_secs_f64();
    }
    indexer.shutdown(Duration::from_secs(1)).await;
    let size = ["", "-wal"]
        .iter()
        .filter_map(|suffix| std::fs::metadata(format!("{}{suffix}", store.display())).ok())
        .map(|file| file.len())
        .sum();
    (seconds, size)
}

fn row(measure: &str, ours: f64, floor: f64, requests: &str) -> BenchRow {
    let floor_text = format!("{floor:.0} blocks/s, the same {requests} with the same concurrency, discarded");
    BenchRow::new(measure, format!("{ours:.0} blocks/s"), floor_text, ours / floor)
}

fn size_row(measure: &str, bytes: u64, count: u64, published: f64) -> BenchRow {
    let each = bytes as f64 / count as f64 / 1024.0;
    BenchRow::new(
        measure,
        format!("{each:.2} KiB"),
        format!("{published} KiB, published by the reference"),
        each / published,
    )
}

async fn quiet_rows() -> Vec<BenchRow> {
    let devnet = launch_marketplace().await;
    let first = *devnet.node.watch_heights().borrow();
    let home = tempfile::tempdir().expect("a directory");
    let (_, size_before) = catch_up(&home.path().join("before.db"), &devnet.node.origin(), [first]).await;
    for _ in 0..QUIET_BLOCKS {
        devnet.node.produce_block().expect("a block");
    }
    let node = NodeClient::new(devnet.node.origin()).expect("a client");
    let fetch_only = async || {
        let begun = Instant::now();
        let fetches = (first + 1..=first + QUIET_BLOCKS).map(|height| {
            let node = node.clone();
            async move {
                let _ = node.block(height).await.expect("a block");
                let _ = node.block_results(height).await.expect("its results");
            }
        });
        futures::stream::iter(fetches).buffer_unordered(CONCURRENCY).collect::<()>().await;
        QUIET_BLOCKS as f64 / begun.elapsed().as_secs_f64()
    };
    let (mut floors, mut ours, mut size) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        floors.push(fetch_only().await);
        let store = home.path().join(format!("{round}.db"));
        let ([begun, ended], bytes) = catch_up(&store, &devnet.node.origin(), [first, first + QUIET_BLOCKS]).await;
        ours.push(QUIET_BLOCKS as f64 / (ended - begun));
        size = bytes;
    }
    vec![
        row("catch-up, blocks of the yield alone", median(ours), median(floors), "requests"),
        size_row("size on disk of a quiet block", size - size_before, QUIET_BLOCKS, 3.1),
    ]
}

async fn busy_rows() -> Vec<BenchRow> {
    let devnet = launch_marketplace().await;
    let funds = json!({
        "from_address": "$member", "to_address": "$verifier_operator", "amount": [{"denom": "usvc", "amount": "500000000"}],
    });
    devnet.send_messages("member", &[("/cosmos.bank.v1beta1.MsgSend", funds)]).await.expect("sent");
    for number in 0..BUSY_BLOCKS {
        let did = format!("did:web:checks-{number}.devnet.example");
        let update = json!({"corporation": "$verifier", "operator": "$verifier_operator", "did": did});
        devnet.send_messages("verifier_operator", &[("co.MsgUpdateCorporation", update)]).await.expect("sent");
    }
    let last = *devnet.node.watch_heights().borrow();
    let txs: usize = devnet.node.read_core(|core| core.blocks().iter().map(|block| block.txs.len()).sum());
    let home = tempfile::tempdir().expect("a directory");
    // The same requests as the indexer's, whose order it decides.
    let recorder = record_requests(devnet.node.origin(), Duration::ZERO).await;
    let (_, size) = catch_up(&home.path().join("recorded.db"), &recorder.origin, [last]).await;
    let requests = recorder.take();
    let client = reqwest::Client::new();
    let replay = async |node: &str| {
        let begun = Instant::now();
        let sent = requests.iter().map(|body| {
            let request = client.post(node).body(body.clone());
            async move { request.send().await.expect("an answer").bytes().await.expect("a body").len() }
        });
        futures::stream::iter(sent).buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await;
        last as f64 / begun.elapsed().as_secs_f64()
    };
    let near = devnet.node.origin();
    let far = record_requests(near.clone(), LATENCY).await.origin;
    let mut rows = Vec::new();
    for (name, node) in [("a node on the same two cores", &near), ("a node 20 ms away", &far)] {
        let (mut floors, mut ours) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            floors.push(replay(node).await);
            let ([seconds], _) = catch_up(&home.path().join(format!("{name} {round}.db")), node, [last]).await;
            ours.push(last as f64 / seconds);
        }
        let measure = format!("catch-up, the marketplace and 4,000 blocks with a transaction, {name}");
        rows.push(row(&measure, median(ours), median(floors), &format!("{} requests", requests.len())));
    }
    rows.push(size_row("size on disk of a transaction, marketplace", size, txs as u64, 20.0));
    rows
}
