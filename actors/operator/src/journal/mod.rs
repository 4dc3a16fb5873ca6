//! The journal: every signed transaction on disk before it leaves, and what became of it.
//!
//! Notes go through an outbox that the tree retains, in order, and are written in groups, one database transaction each; a
//! journal that dies continues with what is left in the outbox. What the next process finds open it follows to its end.

mod actor;
mod store;

use std::{collections::VecDeque, time::Duration};

use serde::Serialize;
use svc_kit::{AskError, Handle, Retained, wall};
use svc_wire::comet::TxResult;
use tokio::time::Instant;

pub use actor::{Args, JournalActor, Msg};
pub use store::{JournalError, Row, Store};

use crate::{
    flow::{RESTART_PATIENCE, persistently},
    in_flight::{Entry, Outcome},
};

/// Something to be written down.
#[derive(Debug, Clone)]
pub enum Note {
    /// A transaction is about to leave.
    Signed(Box<SignedNote>),
    /// The node refused it: it never was in flight.
    Refused { hash: String },
    /// It was decided.
    Decided { hash: String, state: &'static str, result: Option<Box<ResultNote>>, at: String },
    /// Somebody was told that it is not decided yet.
    Late { hash: String },
    /// The answer of its call, to be told again under the same key.
    Answered { hash: String, answer: String },
}

/// A transaction that is about to leave.
#[derive(Debug, Clone)]
pub struct SignedNote {
    pub entry: Entry,
    pub at: String,
}

/// What a transaction did in its block.
#[derive(Debug, Clone)]
pub struct ResultNote {
    pub height: u64,
    pub code: u32,
    pub codespace: String,
    pub raw_log: String,
    pub gas_used: u64,
    pub gas_wanted: u64,
    pub uses_sequence: bool,
}

impl ResultNote {
    fn new(height: u64, result: &TxResult, uses_sequence: bool) -> Self {
        Self {
            uses_sequence,
            height,
            code: result.code,
            codespace: result.codespace.clone(),
            raw_log: result.log.clone(),
            gas_used: result.gas_used,
            gas_wanted: result.gas_wanted,
        }
    }
}

/// How long a read waits for what was noted before it.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
/// Notes that may wait before nothing more is signed.
const OUTBOX_LIMIT: usize = 10_000;

/// Notes that are not on disk yet. A transaction leaves a handful, and with too many of them nothing more is signed.
#[derive(Debug, Default)]
pub struct Outbox {
    notes: VecDeque<Note>,
    /// Number of the first of them.
    first: u64,
}

impl Outbox {
    /// Adds a note; yields its number.
    fn push(&mut self, note: Note) -> u64 {
        self.notes.push_back(note);
        self.first + self.notes.len() as u64 - 1
    }

    /// Makes nothing of a note that is not written yet.
    fn give_up(&mut self, number: u64, hash: &str) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(note) = place.and_then(|place| self.notes.get_mut(place)) {
            *note = Note::Refused { hash: hash.to_owned() };
        }
    }

    /// The next notes to write.
    fn group(&self, most: usize) -> Vec<Note> {
        self.notes.iter().take(most).cloned().collect()
    }

    /// So many of them are written.
    fn written(&mut self, count: usize) {
        self.notes.drain(..count.min(self.notes.len()));
        self.first += count as u64;
    }

    /// Every note below this number is written.
    fn written_below(&self) -> u64 {
        self.first
    }

    fn len(&self) -> usize {
        self.notes.len()
    }
}

/// What the server found in its journal when it booted, and what has become of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Recovered {
    /// Transactions that were open.
    pub found: usize,
    /// Of those: in a block, without error.
    pub included: usize,
    /// In a block, with an error.
    pub failed: usize,
    /// Never to execute: the timeout height has passed.
    pub expired: usize,
    /// Never to execute: the sequence was used by another.
    pub displaced: usize,
}

impl Recovered {
    /// One of them was decided.
    pub fn decided(&mut self, word: &str) {
        match word {
            "included" => self.included += 1,
            "failed" => self.failed += 1,
            "expired" => self.expired += 1,
            _ => self.displaced += 1,
        }
    }
}

/// The way to the journal. Clones share it.
#[derive(Clone)]
pub struct Journal {
    store: Store,
    outbox: Retained<Outbox>,
    actor: Handle<Msg>,
}

impl Journal {
    /// A journal over an open store, and what its actor is made from.
    pub fn new(store: Store, mailbox: usize) -> (Self, Handle<Msg>, Args) {
        let (outbox, actor) = (Retained::new(Outbox::default()), Handle::new("journal", "journal", mailbox));
        let args = Args { store: store.clone(), outbox: outbox.clone() };
        (Self { store, outbox, actor: actor.clone() }, actor, args)
    }

    /// Writes a transaction down; ends when it is on disk. To be called before the transaction leaves, as often as it does.
    pub async fn signed(&self, entry: Entry) -> Result<(), JournalError> {
        let hash = entry.hash.clone();
        let note = Note::Signed(Box::new(SignedNote { entry, at: wall::now_text() }));
        let number = self.outbox.with(|outbox| (outbox.len() < OUTBOX_LIMIT).then(|| outbox.push(note)));
        let number = number.ok_or_else(|| JournalError::Silent(format!("{OUTBOX_LIMIT} notes wait for it")))?;
        let deadline = Instant::now() + RESTART_PATIENCE;
        let until_up = || self.actor.until_up(RESTART_PATIENCE);
        let asked = persistently(deadline, until_up, |left| self.written(number, left)).await;
        let written = asked.map_err(|error| JournalError::Silent(error.to_string())).and_then(|written| written);
        if written.is_err() {
            // What does not leave must not be found open by the next process.
            self.outbox.with(|outbox| outbox.give_up(number, &hash));
        }
        written
    }

    async fn written(&self, number: u64, patience: Duration) -> Result<Result<(), JournalError>, AskError> {
        self.actor.ask_within(patience, |reply| Msg::Write { number, reply }).await
    }

    /// The node refused a transaction.
    pub fn refused(&self, hash: &str) {
        if self.outbox.with(|outbox| outbox.len() >= OUTBOX_LIMIT) {
            // The disk is gone, and what was signed was not noted either.
            return;
        }
        self.note(Note::Refused { hash: hash.to_owned() });
    }

    /// A transaction was decided.
    pub fn decided(&self, entry: &Entry, outcome: &Outcome) {
        let (hash, uses_sequence) = (&entry.hash, outcome.uses(entry.sequence));
        let result = match outcome {
            Outcome::Included { height, result } => Some(Box::new(ResultNote::new(*height, result, uses_sequence))),
            Outcome::Expired { .. } | Outcome::Displaced { .. } => None,
        };
        self.note(Note::Decided { hash: hash.clone(), state: outcome.word(), result, at: wall::now_text() });
    }

    /// A caller was told that a transaction is not decided yet.
    pub fn late(&self, hash: &str) {
        self.note(Note::Late { hash: hash.to_owned() });
    }

    /// The answer of a call that has a key.
    pub fn answered(&self, hash: &str, answer: String) {
        self.note(Note::Answered { hash: hash.to_owned(), answer });
    }

    fn note(&self, note: Note) {
        self.outbox.with(|outbox| outbox.push(note));
        // A journal that is restarting writes everything in the outbox when it is back.
        let _ = self.actor.tell(Msg::Flush);
    }

    /// Notes taken since boot.
    pub fn taken(&self) -> u64 {
        self.outbox.with(|outbox| outbox.first + outbox.len() as u64)
    }

    /// Where it is kept.
    pub fn place(&self) -> &str {
        self.store.place()
    }

    /// The last transaction under a key.
    pub async fn of_key(&self, key: &str) -> Result<Option<Row>, JournalError> {
        self.flush(FLUSH_PATIENCE).await;
        self.store.of_key(key).await
    }

    /// A transaction.
    pub async fn of_hash(&self, hash: &str) -> Result<Option<Row>, JournalError> {
        self.flush(FLUSH_PATIENCE).await;
        self.store.of_hash(hash).await
    }

    /// The newest transactions, newest first.
    pub async fn newest(&self, count: u32) -> Result<Vec<Row>, JournalError> {
        self.flush(FLUSH_PATIENCE).await;
        self.store.newest(count).await
    }

    /// Waits until everything noted so far is on disk.
    pub async fn flush(&self, patience: Duration) {
        let last = self.outbox.with(|outbox| (outbox.first + outbox.len() as u64).checked_sub(1));
        if let Some(number) = last {
            let _ = self.written(number, patience).await;
        }
    }
}

#[cfg(test)]
mod tests;
