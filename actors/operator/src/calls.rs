//! Writes from outside: who is let in, who joins a write that is under way, and how long anybody waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;
use svc_kit::TaskGroup;
use svc_otel::metrics;
use svc_wire::envelope::{Code, ErrorEnvelope};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::Span;

use crate::{
    error::{displaced, expired, node_error, timed_out, tx_failed, unwritten},
    flow::{Answer, LedgerReceipt, Progress, Run, Stand, check_gate, receipt},
    in_flight::Entry,
    journal::Row,
    operator::{Operator, Parts},
    order::{Asker, Order},
    prepare::Prepared,
    signer::Submitted,
};

/// How far a write has come, for whoever watches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Handed to the node and accepted there.
    Submitted {
        /// Upper-case hex.
        hash: String,
        /// Past this height it can never execute.
        timeout_height: u64,
    },
    /// In a block; what it did there is not told yet.
    Included {
        /// Height.
        height: u64,
    },
}

/// Steps a watcher has not taken yet. A write has fewer, so none is lost, and a watcher that does not read holds nothing up.
pub const STEPS: usize = 8;
/// Longest idempotency key.
pub const MAX_KEY_CHARACTERS: usize = 128;
/// Writes under way at once, and of one session.
pub(crate) const CALLS: usize = 4_096;
const CALLS_OF_SESSION: usize = 1_024;

/// The writes that are under way.
pub(crate) struct Calls {
    tasks: TaskGroup,
    running: Arc<Mutex<Running>>,
}

#[derive(Default)]
struct Running {
    /// How many of each session.
    sessions: HashMap<Arc<str>, usize>,
    /// Those with a key: digest of the message, and how far they are.
    keys: HashMap<String, (String, Progress)>,
}

/// A write's place; given back when it has ended.
struct Place {
    running: Arc<Mutex<Running>>,
    session: Arc<str>,
    key: Option<String>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.sessions.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                running.sessions.remove(&self.session);
            }
        }
        if let Some(key) = &self.key {
            running.keys.remove(key);
        }
    }
}

/// What becomes of a write that asks to be let in.
enum Admission {
    /// It runs.
    Runs(Place, Run, Progress),
    /// The same write is under way.
    Joins(Progress),
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { tasks: TaskGroup::new(CALLS), running: Arc::default() }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Running) -> R) -> R {
        work(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets a write in, under its key if it has one.
    fn admit(&self, order: &Arc<Order>, span: Span) -> Result<Admission, ErrorEnvelope> {
        let digest = order.prepared.digest();
        self.with(|running| {
            if let Some(key) = &order.key
                && let Some((known, progress)) = running.keys.get(key)
            {
                return if *known == digest { Ok(Admission::Joins(progress.clone())) } else { Err(other_use(key)) };
            }
            let count = running.sessions.entry(Arc::clone(&order.asker.session)).or_default();
            if *count >= CALLS_OF_SESSION {
                return Err(overloaded(&format!("{CALLS_OF_SESSION} writes of this session")));
            }
            *count += 1;
            let (run, progress) = Run::new(Arc::clone(order), span);
            if let Some(key) = &order.key {
                running.keys.insert(key.clone(), (digest, progress.clone()));
            }
            let (session, key) = (Arc::clone(&order.asker.session), order.key.clone());
            Ok(Admission::Runs(Place { running: Arc::clone(&self.running), session, key }, run, progress))
        })
    }

    fn start(&self, work: impl Future<Output = ()> + Send + 'static, place: Place) -> Result<(), ErrorEnvelope> {
        // Outside of the caller's span, which ends when the caller is answered; the run may take longer.
        let spawned = Span::none().in_scope(|| {
            self.tasks.spawn(async move {
                let _place = place;
                work.await;
            })
        });
        spawned.map(drop).map_err(|full| overloaded(&format!("{} writes", full.limit)))
    }

    /// Goes on with a transaction of an earlier process.
    pub(crate) fn resume(&self, parts: &Parts, entry: &Entry) {
        let submitted = Submitted::from(entry);
        if let Ok(Admission::Runs(place, run, _)) = self.admit(&entry.order, Span::none()) {
            // Fails only when the server is full before it serves, and then the next boot finds it again.
            let _ = self.start(run.resume(parts.clone(), submitted), place);
        }
    }

    /// Refuses new writes, lets running ones end; what is still undecided then, the next boot finds in the journal.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.tasks.drain(patience).await;
    }
}

fn overloaded(what: &str) -> ErrorEnvelope {
    let message = format!("{what} are already under way");
    ErrorEnvelope::new(Code::Overloaded, message, "nothing was sent; try again in a moment")
}

fn other_use(key: &str) -> ErrorEnvelope {
    let reason = "this key was given to a write with other arguments";
    let hint = "give each write a key of its own, and the same key only to the same write";
    ErrorEnvelope::new(Code::InputInvalid, format!("idempotency_key: {reason}"), hint).with_details(
        json!({"idempotency_key": key, "violations": [{"pointer": "/idempotency_key", "reason": reason}]}),
    )
}

impl Operator {
    /// Runs a write to its end and waits for it, at most as long as a caller waits. The write goes on when the caller goes
    /// away, and when the wait is over. `steps` hears how far it has come.
    ///
    /// Under a `key` a write happens once: the same write under the same key joins the first, or gets its outcome.
    pub async fn execute(
        &self,
        prepared: Prepared,
        asker: Asker,
        key: Option<String>,
        steps: Option<mpsc::Sender<Step>>,
    ) -> Result<LedgerReceipt, ErrorEnvelope> {
        let span = Span::current();
        let order = Arc::new(Order {
            id: uuid::Uuid::now_v7().to_string(),
            prepared,
            asker,
            key,
            traceparent: svc_otel::trace::traceparent(&span),
        });
        let (parts, calls) = (self.parts(), self.calls());
        let progress = match calls.admit(&order, span)? {
            Admission::Joins(progress) => progress,
            Admission::Runs(place, run, progress) => {
                // In a task from the first step: a caller that goes away takes nothing from those who have joined.
                calls.start(self.clone().run(run, order), place)?;
                progress
            }
        };
        wait(parts, progress, steps).await
    }

    /// The outcome on record, or a run.
    async fn run(self, run: Run, order: Arc<Order>) {
        let prepared = &order.prepared;
        let known = match self.recorded(&order).await {
            Ok(Some(row)) => Some(self.answer_of(row).await),
            Ok(None) => check_gate(self.parts(), prepared.msg_type(), prepared.needs_grant).err().map(Err),
            Err(error) => Some(Err(error)),
        };
        match known {
            Some(outcome) => run.done(outcome),
            None => run.write(self.parts().clone()).await,
        }
    }

    /// Whether this write is known under this key, before anybody is asked to confirm it again; an error when another is.
    pub async fn is_known(&self, key: &str, prepared: &Prepared) -> Result<bool, ErrorEnvelope> {
        let running = self.calls().with(|running| running.keys.get(key).map(|(digest, _)| digest.clone()));
        let digest = match running {
            Some(digest) => Some(digest),
            None => self.parts().journal.of_key(key).await.ok().flatten().map(|row| row.message_digest),
        };
        match digest {
            Some(digest) if digest != prepared.digest() => Err(other_use(key)),
            digest => Ok(digest.is_some()),
        }
    }

    /// An earlier write under the same key.
    async fn recorded(&self, order: &Order) -> Result<Option<Row>, ErrorEnvelope> {
        let Some(key) = &order.key else { return Ok(None) };
        let found = self.parts().journal.of_key(key).await;
        let row = found.map_err(|error| unwritten("journal", &error.to_string()))?;
        match row {
            Some(row) if row.message_digest != order.prepared.digest() => Err(other_use(key)),
            row => Ok(row),
        }
    }

    /// The answer of a write that has ended: as it was given, or as the chain has it.
    async fn answer_of(&self, row: Row) -> Result<LedgerReceipt, ErrorEnvelope> {
        let parts = self.parts();
        match row.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()) {
            Some(Answer::Receipt(receipt)) => return Ok(*receipt),
            Some(Answer::Error(error)) => return Err(*error),
            None => {}
        }
        match row.state.as_str() {
            "expired" => return Err(expired(&row.tx_hash, row.timeout_height)),
            "displaced" => return Err(displaced(&row.tx_hash, row.sequence, row.timeout_height)),
            _ => {}
        }
        match parts.node.tx(&row.tx_hash).await.map_err(|error| node_error(&error))? {
            None => Err(timed_out(&row.tx_hash, row.timeout_height, parts.tx_timeout)),
            Some(tx) if tx.tx_result.code != 0 => {
                let (codespace, code, raw_log) = (tx.tx_result.codespace, tx.tx_result.code, tx.tx_result.log);
                Err(tx_failed(&row.tx_hash, tx.height, &svc_wire::chain_error::ChainError { codespace, code, raw_log }))
            }
            Some(tx) => {
                let payer = if row.is_fee_granted { "corporation" } else { "operator" };
                Ok(receipt(parts, &row.tx_hash, tx.height, tx.tx_result, payer))
            }
        }
    }
}

/// Waits for the outcome. Until the write is handed over its run keeps the time; from then on the caller's patience counts.
async fn wait(
    parts: &Parts,
    mut progress: Progress,
    steps: Option<mpsc::Sender<Step>>,
) -> Result<LedgerReceipt, ErrorEnvelope> {
    let mut told = Told { steps, is_submitted: false, is_included: false };
    let mut deadline: Option<Instant> = None;
    loop {
        let stand = progress.stand.borrow_and_update().clone();
        told.tell(&stand);
        let (hash, timeout_height) = match stand {
            Stand::Done(outcome) => return *outcome,
            Stand::Waiting | Stand::Included { .. } => {
                // Included: the indexer's patience bounds what is left.
                deadline = None;
                if progress.stand.changed().await.is_err() {
                    return Err(stopped());
                }
                continue;
            }
            Stand::InFlight { hash, timeout_height } => (hash, timeout_height),
        };
        let until = *deadline.get_or_insert_with(|| Instant::now() + parts.tx_timeout);
        tokio::select! {
            changed = progress.stand.changed() => if changed.is_err() { return Err(stopped()) },
            () = sleep_until(until) => {
                progress.told_late();
                parts.journal.late(&hash);
                metrics::tx_told_late();
                return Err(timed_out(&hash, timeout_height, parts.tx_timeout));
            }
        }
    }
}

/// The steps a watcher has been told; each once, and in order, also when one passes unseen.
struct Told {
    steps: Option<mpsc::Sender<Step>>,
    is_submitted: bool,
    is_included: bool,
}

impl Told {
    fn tell(&mut self, stand: &Stand) {
        if let Stand::InFlight { hash, timeout_height } | Stand::Included { hash, timeout_height, .. } = stand
            && !std::mem::replace(&mut self.is_submitted, true)
        {
            self.send(Step::Submitted { hash: hash.clone(), timeout_height: *timeout_height });
        }
        if let Stand::Included { height, .. } = stand
            && !std::mem::replace(&mut self.is_included, true)
        {
            self.send(Step::Included { height: *height });
        }
    }

    fn send(&self, step: Step) {
        if let Some(steps) = &self.steps {
            // Nobody may be watching any more.
            let _ = steps.try_send(step);
        }
    }
}

fn stopped() -> ErrorEnvelope {
    let hint = "look the write up in svc://own/transactions when the server is back, before repeating it";
    ErrorEnvelope::new(Code::NotReady, "the server stopped before the write ended", hint).unrepeatable()
}
