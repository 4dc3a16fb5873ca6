//! Group commit: callers that write at the same time share one transaction of SQLite, and so one wait for the disk.
//!
//! SQLite has one writing transaction at a time. The part of each caller is a savepoint, so that a part which fails, or is left without
//! its commit, takes nothing else with it. The first part that is kept queues for the commit behind the callers that wait by then: those
//! get into the same transaction, those that come later do not, and so a transaction is never longer than its queue. No caller has its
//! answer before the commit is durable. PostgreSQL gets a transaction for each caller.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::{Any, AnyConnection, any::AnyRow};
use tokio::{
    sync::{Mutex as Turn, OwnedMappedMutexGuard, OwnedMutexGuard, oneshot},
    time::timeout,
};

use crate::{
    batch::StatementBatch,
    engine::StoreEngine,
    error::StoreError,
    writer::{BEGIN_SQLITE_SQL, BEGIN_STATEMENTS, StoreTransaction, StoreWriter, number_of},
};

const BEGIN_PART_SQL: &str = "SAVEPOINT part";
const KEEP_PART_SQL: &str = "RELEASE part";
const DROP_PART_SQL: &str = "ROLLBACK TO part; RELEASE part";
/// Longest wait for a turn: as long as the pool lets a caller wait for a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

type Answer = oneshot::Receiver<Result<(), StoreError>>;

/// The writing side of a database whose callers share commits. Clones share it.
#[derive(Clone)]
pub struct GroupWriter(Arc<GroupParts>);

struct GroupParts {
    writer: StoreWriter<Any>,
    /// The callers have it in the order in which they came.
    turn: Arc<Turn<Slot>>,
    /// Callers that wait for their turn.
    waiting: AtomicUsize,
    members: Mutex<Members>,
}

/// The transaction that parts are written in.
#[derive(Default)]
struct Slot(Option<StoreTransaction<Any>>);

#[derive(Default)]
struct Members {
    /// Those whose parts are in the transaction, and wait for its commit.
    kept: Vec<oneshot::Sender<Result<(), StoreError>>>,
    /// Whether the last caller has begun a part, and has not kept it.
    has_open_part: bool,
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl GroupWriter {
    /// A writer whose callers share the commits of another.
    pub fn new(writer: StoreWriter<Any>) -> Self {
        let (turn, waiting, members) = (Arc::default(), AtomicUsize::new(0), Mutex::default());
        Self(Arc::new(GroupParts { writer, turn, waiting, members }))
    }

    /// Begins a part with its first statements; returns their rows too. Without [`GroupTransaction::commit`] nothing of it happens.
    ///
    /// # Errors
    /// When the database does not answer, refuses a statement, or has lost commits.
    pub async fn begin_with(
        &self,
        batch: &mut StatementBatch,
    ) -> Result<(GroupTransaction, Vec<Vec<AnyRow>>), StoreError> {
        if !self.0.writer.is_sqlite() {
            let (transaction, rows) = self.0.writer.begin_with(batch).await?;
            return Ok((GroupTransaction(Part::Whole(transaction)), rows));
        }
        let leave = Leave(self.clone());
        let (slot, rows) = self.enter(batch).await?;
        let turn = OwnedMutexGuard::try_map(slot, |slot| slot.0.as_mut());
        let turn = turn.map_err(|_| sqlx::Error::WorkerCrashed)?;
        Ok((GroupTransaction(Part::Shared { turn, leave }), rows))
    }

    /// Writes statements as a part of their own; returns their rows.
    ///
    /// # Errors
    /// Those of a part and of its commit.
    pub async fn write(&self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, StoreError> {
        if !self.0.writer.is_sqlite() {
            return self.0.writer.write(batch).await;
        }
        if self.0.waiting.load(Ordering::Acquire) == 0
            && let Ok(slot) = Arc::clone(&self.0.turn).try_lock_owned()
            && slot.0.is_none()
        {
            // A lone write begins and commits in one text.
            return self.0.writer.write(batch).await;
        }
        let leave = Leave(self.clone());
        batch.add(KEEP_PART_SQL, []);
        let (slot, mut rows) = self.enter(batch).await?;
        rows.pop();
        let answer = self.keep();
        drop((slot, leave));
        answered(answer).await?;
        Ok(rows)
    }

    /// Waits for the turn, and runs the first statements of a part.
    async fn enter(&self, batch: &mut StatementBatch) -> Result<(OwnedMutexGuard<Slot>, Vec<Vec<AnyRow>>), StoreError> {
        let mut slot = self.turn().await?;
        self.tidy(&mut slot).await;
        self.0.writer.check_loss()?;
        batch.add_first(BEGIN_PART_SQL, Vec::new());
        if let Some(open) = &mut slot.0 {
            self.members().has_open_part = true;
            let mut rows = batch.run(open).await?;
            return Ok((slot, rows.split_off(1.min(rows.len()))));
        }
        batch.add_first(BEGIN_SQLITE_SQL, Vec::new());
        let mut open = self.0.writer.open_transaction().await?;
        let mut rows = batch.run(&mut open).await?;
        let rest = rows.split_off((BEGIN_STATEMENTS + 1).min(rows.len()));
        rows.truncate(BEGIN_STATEMENTS);
        let number = number_of(&rows)?;
        slot.0 = Some(self.0.writer.accept_number(open, number).await?);
        self.members().has_open_part = true;
        Ok((slot, rest))
    }

    async fn turn(&self) -> Result<OwnedMutexGuard<Slot>, StoreError> {
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&self.0.waiting);
        let turn = timeout(LONGEST_WAIT, Arc::clone(&self.0.turn).lock_owned()).await;
        Ok(turn.map_err(|_| sqlx::Error::PoolTimedOut)?)
    }

    /// Undoes the part that the last caller has left.
    async fn tidy(&self, slot: &mut Slot) {
        let (has_open_part, is_empty) = {
            let members = self.members();
            (members.has_open_part, members.kept.is_empty())
        };
        if is_empty {
            slot.0 = None;
        } else if slot.0.is_none() {
            // A caller that was ending the transaction here went away meanwhile.
            self.answer_all(&Err(sqlx::Error::WorkerCrashed.into()));
        } else if let (true, Some(open)) = (has_open_part, &mut slot.0)
            && let Err(error) = Any::run(open, DROP_PART_SQL).await
        {
            // Without the savepoint either the part was kept, and its caller went away before it knew, or SQLite has undone the whole
            // transaction by itself, as it does when the disk is full: the commit shows which. After other errors nothing is committed.
            let is_gone = error.to_string().contains("no such savepoint");
            let committed = match slot.0.take() {
                Some(open) if is_gone => open.commit().await,
                _ => Err(error.into()),
            };
            self.answer_all(&committed);
        }
        self.members().has_open_part = false;
    }

    /// Keeps the part of the caller, which still has the turn.
    fn keep(&self) -> Answer {
        let (sender, answer) = oneshot::channel();
        let mut members = self.members();
        members.has_open_part = false;
        members.kept.push(sender);
        if members.kept.len() == 1 {
            // A task of its own: the commit does not depend on a caller, which may go away.
            let group = self.clone();
            tokio::spawn(async move { group.commit().await });
        }
        answer
    }

    /// Commits the parts that are kept.
    async fn commit(&self) {
        let mut slot = Arc::clone(&self.0.turn).lock_owned().await;
        self.tidy(&mut slot).await;
        if let Some(open) = slot.0.take() {
            let committed = open.commit().await;
            self.answer_all(&committed);
        }
    }

    fn answer_all(&self, committed: &Result<(), StoreError>) {
        for member in std::mem::take(&mut self.members().kept) {
            // One that does not wait any more has gone away.
            let _ = member.send(committed.as_ref().copied().map_err(StoreError::to_shared));
        }
    }

    fn is_alone(&self) -> bool {
        self.0.waiting.load(Ordering::Acquire) == 0 && self.members().kept.is_empty()
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answered(answer: Answer) -> Result<(), StoreError> {
    answer.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
}

/// Ends a transaction without any part, once its last caller has given the turn back.
struct Leave(GroupWriter);

impl Drop for Leave {
    fn drop(&mut self) {
        // Otherwise the caller that has the turn does it.
        if let Ok(mut slot) = Arc::clone(&self.0.0.turn).try_lock_owned()
            && self.0.members().kept.is_empty()
        {
            slot.0 = None;
        }
    }
}

/// A part of a transaction. Nothing of it happens unless it is committed.
pub struct GroupTransaction(Part);

enum Part {
    Whole(StoreTransaction<Any>),
    /// The turn is given back first.
    Shared {
        turn: OwnedMappedMutexGuard<Slot, StoreTransaction<Any>>,
        leave: Leave,
    },
}

impl GroupTransaction {
    /// Commits. After an error the part may have happened or not.
    ///
    /// # Errors
    /// Those of [`StoreTransaction::commit`].
    pub async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(&mut StatementBatch::default()).await.map(drop)
    }

    /// Runs the last statements and commits. Returns the rows of the statements.
    ///
    /// # Errors
    /// Those of the statements, after which nothing is committed, and those of a commit.
    pub async fn commit_with(self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, StoreError> {
        // The turn is dropped before the leave, also by an error.
        let (leave, mut turn) = match self.0 {
            Part::Whole(transaction) => return transaction.commit_with(batch).await,
            Part::Shared { turn, leave } => (leave, turn),
        };
        if leave.0.is_alone() {
            let rows = turn.run_and_commit(batch).await?;
            turn.accept_commit()?;
            return Ok(rows);
        }
        batch.add(KEEP_PART_SQL, []);
        let mut rows = batch.run(&mut turn).await?;
        rows.pop();
        let answer = leave.0.keep();
        drop((turn, leave));
        answered(answer).await?;
        Ok(rows)
    }
}

impl Deref for GroupTransaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        match &self.0 {
            Part::Whole(transaction) => transaction,
            Part::Shared { turn, .. } => turn,
        }
    }
}

impl DerefMut for GroupTransaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        match &mut self.0 {
            Part::Whole(transaction) => transaction,
            Part::Shared { turn, .. } => turn,
        }
    }
}
