//! `make bench`: figures as ratios against a floor measured in the same run, since machines are noisy.
#![allow(missing_docs, clippy::expect_used, clippy::print_stdout)]

mod agent;
mod catch_up;
mod didcomm;
mod front_door;
mod ledger;
mod mcp;
mod subscription;
mod trust;
mod writes;

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{
    ActorBehaviour, ActorContext, ActorFailure, ActorMessage, Handle, ReplyPort,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

struct EchoActor;

struct EchoRequest(u64, ReplyPort<u64>);

impl ActorMessage for EchoRequest {
    fn name(&self) -> &'static str {
        "ask"
    }
}

impl ActorBehaviour for EchoActor {
    const KIND: &'static str = "echo";
    type Msg = EchoRequest;
    type Args = ();
    type State = ();
    async fn start(_: &ActorContext<EchoRequest>, _: &Arc<()>) -> Result<(), ActorFailure> {
        Ok(())
    }
    async fn handle(
        _: &ActorContext<EchoRequest>,
        EchoRequest(value, reply): EchoRequest,
        (): &mut (),
    ) -> Result<(), ActorFailure> {
        reply.send(value);
        Ok(())
    }
    fn observe((): &()) -> Value {
        json!({})
    }
}

/// A line of the table.
pub struct BenchRow {
    pub measure: String,
    pub value: String,
    pub baseline: String,
    pub ratio: f64,
}

impl BenchRow {
    pub fn new(measure: impl Into<String>, value: String, baseline: String, ratio: f64) -> Self {
        Self { measure: measure.into(), value, baseline, ratio }
    }
}

/// Resident memory of a process, in bytes, without the kernel's memory for its sockets.
pub fn resident_bytes(process: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).expect("a running process");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

const ROUNDS: u64 = 20_000;

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds per request, one caller: a kit actor against a bare task with two channels, in alternation.
async fn measure_round_trips() -> (f64, f64) {
    let echo = Handle::new("echo", "echo", 1024);
    let root = Supervisor::new("bench");
    root.start(SupervisorSpec::one_for_one(vec![ChildSpec::worker::<EchoActor>(&echo, ())])).await.expect("starts");
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
            assert_eq!(echo.ask(|reply| EchoRequest(value, reply)).await, Ok(value));
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

fn print_row(row: &BenchRow) {
    println!("| {} | {} | {} | {:.2} |", row.measure, row.value, row.baseline, row.ratio);
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
            let (actor, bare) = measure_round_trips().await;
            let ratio = actor / bare;
            println!(
                "| round trip of an actor request | {actor:.0} ns | {bare:.0} ns, bare tokio channels | {ratio:.2} |"
            );
        }
        if is_wanted("ledger") {
            ledger::rows().await.iter().for_each(print_row);
        }
        if is_wanted("subscription") {
            subscription::rows().await.iter().for_each(print_row);
        }
        if is_wanted("catch-up") {
            catch_up::rows().await.iter().for_each(print_row);
        }
        if is_wanted("trust") {
            trust::rows().await.iter().for_each(print_row);
        }
        if is_wanted("mcp") {
            mcp::rows().await.iter().for_each(print_row);
        }
        if is_wanted("front-door") {
            front_door::rows().await.iter().for_each(print_row);
        }
        if is_wanted("didcomm") {
            didcomm::rows().await.iter().for_each(print_row);
        }
        if is_wanted("agent") {
            agent::rows().await.iter().for_each(print_row);
        }
        if is_wanted("flows") {
            agent::flows::rows().await.iter().for_each(print_row);
        }
        if is_wanted("access") {
            agent::access::rows().await.iter().for_each(print_row);
        }
        if is_wanted("writes") {
            writes::rows().await.iter().for_each(print_row);
        }
    });
}
