//! The actor that writes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent, Reply, Retained};

use super::{JournalError, Note, Outbox, Store};

/// What the journal is told.
pub enum Msg {
    /// There are notes.
    Flush,
    /// The last write failed a moment ago.
    Retry,
    /// Answer when the note with this number is on disk.
    Write {
        /// Its number.
        number: u64,
        /// The answer.
        reply: Reply<Result<(), JournalError>>,
    },
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Retry => "retry",
            Self::Write { .. } => "write",
        }
    }
}

/// What a journal is made from.
pub struct Args {
    pub store: Store,
    pub outbox: Retained<Outbox>,
}

pub struct State {
    args: Arc<Args>,
    waiters: BTreeMap<u64, Vec<Reply<Result<(), JournalError>>>>,
    is_retrying: bool,
}

pub struct JournalActor;

/// Notes of one database transaction.
const GROUP: usize = 256;
/// After a failed write, the next attempt.
const RETRY: Duration = Duration::from_secs(1);

impl Behaviour for JournalActor {
    const KIND: &'static str = "journal";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        // What an earlier incarnation did not get to.
        context.mailbox().send(Msg::Flush);
        Ok(State { args: Arc::clone(args), waiters: BTreeMap::new(), is_retrying: false })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::Write { number, reply } => state.waiters.entry(number).or_default().push(reply),
            Msg::Retry => state.is_retrying = false,
            Msg::Flush => {}
        }
        state.write_all(context).await;
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"place": state.args.store.place(), "waiting": state.args.outbox.with(|outbox| outbox.len())})
    }
}

impl State {
    /// Writes what there is. The disk is no network: the next note waits for it, and is written with everything that came
    /// meanwhile.
    async fn write_all(&mut self, context: &Context<Msg>) {
        loop {
            let group = self.args.outbox.with(|outbox| outbox.group(GROUP));
            if group.is_empty() {
                break;
            }
            match self.args.store.write(&group).await {
                Ok(()) => self.args.outbox.with(|outbox| outbox.written(group.len())),
                Err(error) => {
                    tracing::error!(%error, "the journal cannot be written");
                    self.give_up(&group, &error);
                    if !std::mem::replace(&mut self.is_retrying, true) {
                        context.after(RETRY, Msg::Retry);
                    }
                    break;
                }
            }
            self.answer();
        }
        self.answer();
    }

    /// Whoever waits for the disk is told; their transactions do not leave, and are noted as refused if they can ever be.
    fn give_up(&mut self, group: &[Note], error: &JournalError) {
        let first = self.args.outbox.with(|outbox| outbox.written_below());
        for (number, note) in (first..).zip(group) {
            if let Some(waiters) = self.waiters.remove(&number)
                && let Note::Signed(_) = note
            {
                waiters.into_iter().for_each(|reply| reply.send(Err(error.clone())));
            }
        }
    }

    fn answer(&mut self) {
        let written_below = self.args.outbox.with(|outbox| outbox.written_below());
        let later = self.waiters.split_off(&written_below);
        for reply in std::mem::replace(&mut self.waiters, later).into_values().flatten() {
            reply.send(Ok(()));
        }
    }
}
