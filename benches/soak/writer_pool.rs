//! The clients: each write is called under its key, again and again, until its answer is final.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use svc::mcp_client::{McpClient, result_content};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    SoakPlan, TOKEN,
    another_history::LostTransactions,
    index_reader::IndexReader,
    outcomes::{self, SoakOutcome},
};

const CREATE: &str = "svc.ledger.es.createEcosystem";
const CLIENTS: usize = 8;
const CALLS_OF_CLIENT: usize = 16;
/// No call takes longer than a signature and a block; after this time the writer takes the connection for dead.
const CALL_TIMEOUT: Duration = Duration::from_secs(45);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two calls for the same write.
const RETRY_PAUSE_MS: std::ops::Range<u64> = 50..400;
/// Between two writes of a caller: now and then nothing is under way, and a foreign use of the key gets its turn.
const THINK_MS: std::ops::Range<u64> = 0..3_000;
/// One call in so many is given up by its caller, or made twice at once.
const ODD_CALL_RATE: u32 = 25;

/// A write and everything that was answered.
#[derive(Debug, Clone)]
pub struct SoakWrite {
    pub name: String,
    pub begun: f64,
    pub outcome: Option<SoakOutcome>,
    /// Each answer with its second.
    pub answers: Vec<(f64, String)>,
    /// Two calls at once were answered differently.
    pub has_conflicting_answers: bool,
    /// The journal lost its records while the write was under way, so that its key was forgotten.
    pub is_record_lost: bool,
}

impl SoakWrite {
    pub fn did(&self) -> String {
        format!("did:web:{}.example", self.name)
    }

    fn was_under_way(&self, at: f64) -> bool {
        let ended = self.outcome.as_ref().and(self.answers.last()).map(|(ended, _)| *ended);
        self.begun < at && ended.is_none_or(|ended| ended > at)
    }
}

fn arguments(name: &str) -> Map<String, Value> {
    let value = json!({
        "did": format!("did:web:{name}.example"), "language": "en", "doc_url": format!("https://{name}.example/framework.pdf"),
        "doc_digest_sri": "sha384-Ly4tLCsqKSgnJiUkIyIhIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA",
        "idempotency_key": format!("key-of-{name}"),
    });
    value.as_object().cloned().unwrap_or_default()
}

/// A connection that several writers share; after a failure one of them opens it again for all.
struct SharedConnection {
    url: String,
    current: tokio::sync::Mutex<(u64, Option<Arc<McpClient>>)>,
}

impl SharedConnection {
    async fn client(&self) -> (u64, Arc<McpClient>) {
        let mut current = self.current.lock().await;
        loop {
            if let (number, Some(client)) = &*current {
                return (*number, Arc::clone(client));
            }
            match timeout(CONNECT_TIMEOUT, McpClient::connect(&self.url, TOKEN)).await {
                Ok(Ok(client)) => *current = (current.0 + 1, Some(Arc::new(client))),
                _ => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn mark_broken(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.0 == number {
            current.1 = None;
        }
    }
}

#[derive(Default)]
struct CallCounts {
    reconnects: AtomicU64,
    unanswered: AtomicU64,
    abandoned: AtomicU64,
    duplicated: AtomicU64,
}

struct WriterState {
    connections: Vec<SharedConnection>,
    next: AtomicUsize,
    total: usize,
    is_stopped: AtomicBool,
    writes: Mutex<BTreeMap<usize, SoakWrite>>,
    counts: CallCounts,
    index: Arc<IndexReader>,
    started: Instant,
    /// Seconds at which the journal's files vanished.
    losses: Mutex<Vec<f64>>,
    is_losing: AtomicBool,
}

/// All callers.
pub struct WriterPool {
    shared: Arc<WriterState>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl WriterState {
    fn writes(&self) -> MutexGuard<'_, BTreeMap<usize, SoakWrite>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn record_answer(&self, index: usize, told: &str) {
        let now = self.now();
        if let Some(write) = self.writes().get_mut(&index) {
            write.answers.push((now, told.to_owned()));
        }
    }

    async fn run_caller(self: Arc<Self>, line: usize, mut rng: fastrand::Rng) {
        loop {
            sleep(Duration::from_millis(rng.u64(THINK_MS))).await;
            if self.is_stopped.load(Ordering::Acquire) {
                return;
            }
            let index = self.next.fetch_add(1, Ordering::AcqRel);
            if index >= self.total {
                return;
            }
            let write = SoakWrite {
                name: format!("soak-{index}"),
                begun: self.now(),
                outcome: None,
                answers: Vec::new(),
                has_conflicting_answers: false,
                is_record_lost: false,
            };
            let given = arguments(&write.name);
            self.writes().insert(index, write);
            loop {
                if let Some(end) = self.call_once(line, index, &given, &mut rng).await {
                    if let Some(write) = self.writes().get_mut(&index) {
                        write.outcome = Some(end);
                    }
                    break;
                }
                sleep(Duration::from_millis(rng.u64(RETRY_PAUSE_MS))).await;
            }
        }
    }

    /// One call, or two at once, or one whose caller goes away.
    async fn call_once(
        &self,
        line: usize,
        index: usize,
        given: &Map<String, Value>,
        rng: &mut fastrand::Rng,
    ) -> Option<SoakOutcome> {
        match rng.u32(..ODD_CALL_RATE) {
            0 => {
                self.counts.abandoned.fetch_add(1, Ordering::Relaxed);
                let patience = Duration::from_millis(rng.u64(..1_500));
                let asked = timeout(patience, self.request_write(line, index, given)).await;
                asked.unwrap_or_else(|_| {
                    self.record_answer(index, "given up by the caller");
                    None
                })
            }
            1 => {
                self.counts.duplicated.fetch_add(1, Ordering::Relaxed);
                let other = (line + 1) % CLIENTS;
                let (first, second) =
                    tokio::join!(self.request_write(line, index, given), self.request_write(other, index, given));
                if let (Some(first), Some(second)) = (&first, &second)
                    && first != second
                    && let Some(write) = self.writes().get_mut(&index)
                {
                    write.has_conflicting_answers = true;
                }
                first.or(second)
            }
            _ => self.request_write(line, index, given).await,
        }
    }

    async fn request_write(&self, line: usize, index: usize, given: &Map<String, Value>) -> Option<SoakOutcome> {
        let line = &self.connections[line];
        let (number, client) = line.client().await;
        let history = self.index.history();
        let mut indexed = None;
        let (told, end) = match timeout(CALL_TIMEOUT, client.call_tool(CREATE, given.clone())).await {
            Ok(Ok(result)) => {
                indexed = Some(result_content(&result)).filter(|content| content["indexer_synced"] == true);
                match outcomes::parse_answer(result) {
                    Ok(end) => (format!("{end:?}"), Some(end)),
                    Err(code) => (code, None),
                }
            }
            Ok(Err(error)) => {
                self.counts.reconnects.fetch_add(1, Ordering::Relaxed);
                line.mark_broken(number).await;
                (format!("connection: {error:#}"), None)
            }
            Err(_) => {
                self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
                line.mark_broken(number).await;
                (format!("no answer within {CALL_TIMEOUT:?}"), None)
            }
        };
        self.record_answer(index, &told);
        if let Some(content) = indexed {
            self.index.confirm(&content, given["did"].as_str().unwrap_or_default(), history).await;
        }
        end
    }
}

impl WriterPool {
    pub fn start(plan: &SoakPlan, url: String, index: Arc<IndexReader>, mut rng: fastrand::Rng) -> Self {
        let line = |_| SharedConnection { url: url.clone(), current: tokio::sync::Mutex::default() };
        let shared = Arc::new(WriterState {
            connections: (0..CLIENTS).map(line).collect(),
            next: AtomicUsize::new(0),
            total: plan.writes,
            is_stopped: AtomicBool::new(false),
            writes: Mutex::default(),
            counts: CallCounts::default(),
            index,
            started: Instant::now(),
            losses: Mutex::default(),
            is_losing: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        for caller in 0..CLIENTS * CALLS_OF_CLIENT {
            tasks.spawn(Arc::clone(&shared).run_caller(caller % CLIENTS, rng.fork()));
        }
        Self { shared, tasks: tokio::sync::Mutex::new(tasks) }
    }

    /// Waits until so many writes have begun, or the time is over.
    pub async fn await_begun(&self, count: usize, deadline: Instant) {
        let mut told = Instant::now();
        while Instant::now() < deadline && self.shared.next.load(Ordering::Acquire) < count {
            sleep(Duration::from_millis(100)).await;
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                let begun = self.shared.writes().len();
                eprintln!("{:.0} s: {begun} writes begun, {} open", self.shared.now(), self.open());
            }
        }
    }

    /// Waits until so many writes have ended, or the time is over.
    pub async fn await_ended(&self, count: usize, deadline: Instant) {
        let ended = || self.shared.writes().values().filter(|write| write.outcome.is_some()).count();
        while Instant::now() < deadline && ended() < count {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// From now on no write begins.
    pub fn begin_no_more(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
    }

    /// How many answers had that code.
    pub fn count_answers(&self, code: &str) -> usize {
        let writes = self.shared.writes();
        writes.values().flat_map(|write| &write.answers).filter(|(_, told)| told == code).count()
    }

    /// Waits until every write has its end; those that have none by then stay undecided.
    pub async fn await_all_ended(&self, bound: Duration) {
        let mut tasks = self.tasks.lock().await;
        let deadline = Instant::now() + bound;
        while let Ok(Some(ended)) = timeout_at(deadline, tasks.join_next()).await {
            ended.expect("a caller ends well");
        }
        tasks.shutdown().await;
    }

    pub fn open(&self) -> usize {
        self.shared.writes().values().filter(|write| write.outcome.is_none()).count()
    }

    pub fn all(&self) -> Vec<SoakWrite> {
        let losses = self.losses();
        let mut writes: Vec<SoakWrite> = self.shared.writes().values().cloned().collect();
        for write in &mut writes {
            write.is_record_lost = losses.iter().any(|at| write.was_under_way(*at));
        }
        writes
    }

    /// Whether the journal's files may vanish now: one loss at a time, and none in the second half, whose records are all compared at
    /// the end.
    pub fn begin_loss(&self) -> bool {
        let is_early = self.shared.next.load(Ordering::Acquire) < self.shared.total / 2;
        is_early && !self.shared.is_losing.swap(true, Ordering::AcqRel)
    }

    /// The files have vanished.
    pub fn note_loss(&self) {
        self.shared.losses.lock().unwrap_or_else(PoisonError::into_inner).push(self.shared.now());
    }

    /// A server was started after the loss.
    pub fn end_loss(&self) {
        self.shared.is_losing.store(false, Ordering::Release);
    }

    /// Seconds at which the journal's files vanished.
    pub fn losses(&self) -> Vec<f64> {
        self.shared.losses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.shared.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        vec![
            ("calls whose connection broke", load(&counts.reconnects)),
            ("calls without any answer", load(&counts.unanswered)),
            ("calls whose caller went away", load(&counts.abandoned)),
            ("calls made twice at once", load(&counts.duplicated)),
        ]
    }

    /// A resource of the server.
    pub async fn read(&self, uri: &str) -> Option<Value> {
        let line = &self.shared.connections[0];
        let (number, client) = timeout(CONNECT_TIMEOUT, line.client()).await.ok()?;
        match timeout(CALL_TIMEOUT, client.read_resource(uri)).await {
            Ok(Ok(content)) => Some(content),
            _ => {
                line.mark_broken(number).await;
                None
            }
        }
    }

    /// Repeats every call that the journal must still know, and returns the answers that differ from the first.
    ///
    /// A write of a block that the chain has lost may be answered as abandoned now.
    pub async fn repeat_recorded(&self, bound: Duration, lost: &LostTransactions) -> Vec<String> {
        let deadline = Instant::now() + bound;
        let last_loss = self.losses().into_iter().fold(0.0, f64::max);
        let recorded = self.all().into_iter().enumerate().filter_map(|(index, write)| {
            let end = write.outcome.clone().filter(SoakOutcome::is_recorded)?;
            (write.begun >= last_loss).then_some((index, write, end))
        });
        let again = stream::iter(recorded).map(|(index, write, end)| async move {
            let given = arguments(&write.name);
            let mut answer = None;
            while answer.is_none() && Instant::now() < deadline {
                let asked = timeout_at(deadline, self.shared.request_write(index % CLIENTS, usize::MAX, &given)).await;
                answer = asked.unwrap_or(None);
            }
            let is_abandoned = matches!(&answer, Some(SoakOutcome::Abandoned { hash, .. }) if end.hash() == Some(hash) && lost.has(hash));
            (answer.as_ref() != Some(&end) && !is_abandoned).then(|| format!("{}: was {end:?}, now {answer:?}", write.name))
        });
        again.buffer_unordered(32).filter_map(|changed| async { changed }).collect().await
    }
}
