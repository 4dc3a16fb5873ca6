//! The actor that writes the journal.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_otel::metrics;

use super::{Args, Msg, core::JournalEntry, error::JournalError, health::JournalHealth};

/// State of a journal.
pub struct State {
    args: Arc<Args>,
    waiters: BTreeMap<u64, Vec<ReplyPort<Result<(), JournalError>>>>,
    is_retry_scheduled: bool,
}

/// The actor that owns the database connection.
pub struct JournalWriter;

/// Entries of one database transaction.
const BATCH_SIZE: usize = 256;
/// Pause after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl ActorBehaviour for JournalWriter {
    const KIND: &'static str = "journal";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        // Writes the entries that an earlier incarnation left in the outbox.
        context.mailbox().send(Msg::Flush);
        Ok(State { args: Arc::clone(args), waiters: BTreeMap::new(), is_retry_scheduled: false })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::AwaitWritten { number, reply } => state.waiters.entry(number).or_default().push(reply),
            Msg::Retry => state.is_retry_scheduled = false,
            Msg::Flush => {}
        }
        state.write_outbox(context).await;
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"place": state.args.store.location(), "waiting": state.args.outbox.with(|outbox| outbox.len())})
    }
}

impl State {
    /// Writes the outbox, group by group. A handler may wait for the disk: entries that arrive meanwhile share the next group.
    async fn write_outbox(&mut self, context: &ActorContext<Msg>) {
        loop {
            let batch = self.args.outbox.with(|outbox| outbox.next_batch(BATCH_SIZE));
            // After a failure an empty group shows when the journal can be written again.
            if batch.is_empty() && self.args.health.with(|health| health.failure().is_none()) {
                break;
            }
            match self.write(&batch).await {
                Ok(()) => self.args.outbox.with(|outbox| outbox.mark_written(batch.len())),
                Err(error) => {
                    self.fail_waiters(&batch, &error);
                    if !std::mem::replace(&mut self.is_retry_scheduled, true) {
                        context.send_after(RETRY_DELAY, Msg::Retry);
                    }
                    break;
                }
            }
            self.answer_waiters();
        }
        self.answer_waiters();
    }

    async fn write(&self, batch: &[JournalEntry]) -> Result<(), JournalError> {
        self.args.health.with(JournalHealth::begin_write);
        let written = self.args.store.write(batch).await;
        match &written {
            Ok(()) => {
                if self.args.health.with(JournalHealth::record_success) {
                    tracing::info!("the journal can be written again");
                }
            }
            Err(error) => {
                if self.args.health.with(|health| health.record_failure(error.to_string())) {
                    tracing::error!(%error, "the journal cannot be written: nothing is signed");
                }
            }
        }
        metrics::record_journal_write(written.is_ok());
        written
    }

    /// Answers the waiters of signed transactions with the error: these transactions are not sent.
    fn fail_waiters(&mut self, batch: &[JournalEntry], error: &JournalError) {
        let first_number = self.args.outbox.with(|outbox| outbox.written_below());
        for (number, entry) in (first_number..).zip(batch) {
            if let Some(waiters) = self.waiters.remove(&number)
                && let JournalEntry::Signed(_) = entry
            {
                waiters.into_iter().for_each(|reply| reply.send(Err(error.clone())));
            }
        }
    }

    fn answer_waiters(&mut self) {
        let written_below = self.args.outbox.with(|outbox| outbox.written_below());
        let later = self.waiters.split_off(&written_below);
        for reply in std::mem::replace(&mut self.waiters, later).into_values().flatten() {
            reply.send(Ok(()));
        }
    }
}
