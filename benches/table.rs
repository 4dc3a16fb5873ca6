//! `make bench`: figures as ratios against a floor measured in the same run, since machines are noisy.
#![allow(missing_docs, clippy::expect_used, clippy::print_stdout)]

mod ledger;
mod mcp;
mod subscription;

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use svc::{
    client::Client,
    network::{Network, NetworkConfig},
};
use svc_devnet::DevnetConfig;
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Reply,
    supervise::{ChildSpec, Supervisor, SupervisorSpec},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

struct Echo;

struct Ask(u64, Reply<u64>);

impl Intent for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }
}

impl Behaviour for Echo {
    const KIND: &'static str = "echo";
    type Msg = Ask;
    type Args = ();
    type State = ();
    async fn start(_: &Context<Ask>, _: &Arc<()>) -> Result<(), Failure> {
        Ok(())
    }
    async fn handle(_: &Context<Ask>, Ask(value, reply): Ask, (): &mut ()) -> Result<(), Failure> {
        reply.send(value);
        Ok(())
    }
    fn observe((): &()) -> Value {
        json!({})
    }
}

/// A line of the table.
pub struct Row {
    pub measure: String,
    pub value: String,
    pub floor: String,
    pub ratio: f64,
}

/// Resident memory of a process, in bytes; what the kernel holds for its sockets is not in it.
pub fn resident(process: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).expect("a running process");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

const ROUNDS: u64 = 20_000;

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds per request, one caller: a kit actor against a bare task with two channels, in alternation.
async fn round_trips() -> (f64, f64) {
    let echo = Handle::new("echo", "echo", 1024);
    let root = Supervisor::new("bench");
    root.start(SupervisorSpec::one_for_one(vec![ChildSpec::worker::<Echo>(&echo, ())])).await.expect("starts");
    let (sender, mut receiver) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(1024);
    tokio::spawn(async move {
        while let Some((value, reply)) = receiver.recv().await {
            let _ = reply.send(value);
        }
    });
    let (mut actor, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let begun = Instant::now();
        for value in 0..ROUNDS {
            assert_eq!(echo.ask(|reply| Ask(value, reply)).await, Ok(value));
        }
        actor.push(begun.elapsed().as_nanos() as f64 / ROUNDS as f64);
        let begun = Instant::now();
        for value in 0..ROUNDS {
            let (reply, answer) = oneshot::channel();
            sender.send((value, reply)).await.expect("sent");
            assert_eq!(answer.await, Ok(value));
        }
        bare.push(begun.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    (median(actor), median(bare))
}

/// Blocks from call to answer of single writes, and of sixty-four at once, on a chain with this block time.
async fn writes(block_time: Duration) -> (f64, f64) {
    let devnet = DevnetConfig { block_time: Some(block_time), ..DevnetConfig::default() };
    let network = Network::launch(NetworkConfig { devnet, ..NetworkConfig::default() }).await.expect("starts");
    let client = Client::connect(&network.mcp_url(), &network.bearer).await.expect("connects");
    let arguments = |name: String| -> Map<String, Value> {
        let url = format!("https://{name}.example/f.pdf");
        let value = json!({"did": format!("did:web:{name}.example"), "language": "en", "doc_url": url, "doc_digest_sri": "sha256-AAEC"});
        value.as_object().cloned().unwrap_or_default()
    };
    let tool = "svc.ledger.es.createEcosystem";
    let mut single = Vec::new();
    for index in 0..9 {
        let begun = Instant::now();
        let result = client.call(tool, arguments(format!("single-{index}"))).await.expect("answered");
        assert_eq!(result.is_error, Some(false));
        single.push(begun.elapsed().as_secs_f64() / block_time.as_secs_f64());
    }
    let begun = Instant::now();
    let many = (0..64).map(|index| client.call(tool, arguments(format!("many-{index}"))));
    for result in futures::future::join_all(many).await {
        assert_eq!(result.expect("answered").is_error, Some(false));
    }
    let many = begun.elapsed().as_secs_f64() / block_time.as_secs_f64();
    client.close().await;
    network.shutdown(Duration::from_secs(1)).await;
    (median(single), many)
}

fn print(row: &Row) {
    println!("| {} | {} | {} | {:.2} |", row.measure, row.value, row.floor, row.ratio);
}

/// Without a word everything is measured; with one, that part alone.
fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let word = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let is_wanted = |part: &str| word.is_empty() || word == part;
    runtime.block_on(async {
        if word.starts_with("serve-") {
            return subscription::serve(&word).await;
        }
        println!("| measure | value | floor in the same run | ratio |");
        println!("|---|---|---|---|");
        if is_wanted("actors") {
            let (actor, bare) = round_trips().await;
            let ratio = actor / bare;
            println!("| round trip of an actor request | {actor:.0} ns | {bare:.0} ns, bare tokio channels | {ratio:.2} |");
        }
        if is_wanted("ledger") {
            ledger::rows().await.iter().for_each(print);
        }
        if is_wanted("subscription") {
            subscription::rows().await.iter().for_each(print);
        }
        if is_wanted("mcp") {
            mcp::rows().await.iter().for_each(print);
        }
        for millis in [1000, 200].into_iter().filter(|_| is_wanted("writes")) {
            let (single, many) = writes(Duration::from_millis(millis)).await;
            // Each call begins right behind a block, so it cannot be answered before the next one.
            println!("| one write after the other, {millis} ms blocks | {single:.2} blocks | one block | {single:.2} |");
            println!("| 64 writes at once, to the last answer, {millis} ms blocks | {many:.2} blocks | one block | {many:.2} |");
        }
    });
}
