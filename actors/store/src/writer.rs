//! Transactions that are acknowledged once they are durable.

use std::{
    ops::{Deref, DerefMut},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use sqlx::{Any, Pool, Row, any::AnyRow, pool::PoolConnection};

use crate::{
    batch::StatementBatch,
    engine::StoreEngine,
    error::StoreError,
    file_watch::{FileChange, FileWatch},
};

const CREATE_TABLE_SQL: &str = "CREATE TABLE IF NOT EXISTS store_commit (one INTEGER PRIMARY KEY, number BIGINT NOT NULL); \
                                INSERT INTO store_commit (one, number) VALUES (1, 0) ON CONFLICT (one) DO NOTHING";
const READ_SQL: &str = "SELECT number FROM store_commit WHERE one = 1";
/// SQLite locks at once instead of with the first write, where it could no longer wait for another connection.
pub(crate) const BEGIN_SQLITE_SQL: &str =
    "BEGIN IMMEDIATE; UPDATE store_commit SET number = number + 1 WHERE one = 1 RETURNING number";
/// The same, which fails when the number is below `$1`: the statements behind it in one text must not run in a database
/// that has lost commits.
const BEGIN_CHECKED_SQLITE_SQL: &str = "BEGIN IMMEDIATE; UPDATE store_commit SET number = \
     CASE WHEN number >= $1 THEN number + 1 ELSE json('commits are lost') END WHERE one = 1 RETURNING number";
/// Statements of these two.
pub(crate) const BEGIN_STATEMENTS: usize = 2;
const BEGIN_POSTGRES_SQL: &str = "BEGIN; UPDATE store_commit SET number = number + 1 WHERE one = 1 RETURNING number";
/// Within an unfinished transaction the second BEGIN fails, and so the number is that of the database.
const COMMIT_SQL: &str = "COMMIT; BEGIN; SELECT number FROM store_commit WHERE one = 1; ROLLBACK";
/// Statements of it.
const COMMIT_STATEMENTS: usize = 4;
/// Identity of a PostgreSQL server and of those that replicate it.
const SERVER_SQL: &str = "SELECT system_identifier FROM pg_control_system()";

/// The writing side of a database. Clones share it.
///
/// Each commit has a number, one more than that of the commit before. A database whose number is not above the last one has lost
/// commits.
pub struct StoreWriter<DB: StoreEngine>(Arc<WriterState<DB>>);

struct WriterState<DB: StoreEngine> {
    pool: Pool<DB>,
    is_sqlite: bool,
    connections: ConnectionCounter,
    known: Mutex<KnownState>,
}

struct KnownState {
    last_commit: i64,
    /// Identity of the server; `None` for SQLite, and for a server that does not state it.
    server: Option<i64>,
    watch: Option<FileWatch>,
    loss: Option<String>,
}

/// Counts the connections of a pool; to be called by `PoolOptions::after_connect`. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCounter(Arc<AtomicU64>);

impl ConnectionCounter {
    /// Counts a new connection.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl<DB: StoreEngine> Clone for StoreWriter<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<DB: StoreEngine> StoreWriter<DB> {
    /// A writer that uses the connections of a pool, which `connections` counts. `file` is the file of an SQLite database on disk.
    ///
    /// # Errors
    /// When the table of commits cannot be created or read.
    pub async fn new(
        pool: Pool<DB>,
        connections: ConnectionCounter,
        is_sqlite: bool,
        file: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let mut connection = pool.acquire().await?;
        DB::run(&mut connection, CREATE_TABLE_SQL).await?;
        let last_commit = DB::read_number(&mut connection, READ_SQL, is_sqlite).await?;
        let server = if is_sqlite { None } else { read_server::<DB>(&mut connection).await };
        drop(connection);
        let known = Mutex::new(KnownState { last_commit, server, watch: file.map(FileWatch::new), loss: None });
        let writer = Self(Arc::new(WriterState { pool, is_sqlite, connections, known }));
        writer.check_file()?;
        Ok(writer)
    }

    /// Number of the last commit.
    pub fn last_commit(&self) -> i64 {
        self.known().last_commit
    }

    /// The pool of the connections.
    pub fn pool(&self) -> &Pool<DB> {
        &self.0.pool
    }

    /// Begins a transaction. Without [`StoreTransaction::commit`] nothing of it happens.
    ///
    /// # Errors
    /// When the database does not answer, or has lost commits.
    pub async fn begin(&self) -> Result<StoreTransaction<DB>, StoreError> {
        let mut transaction = self.open_transaction().await?;
        let number = DB::read_number(&mut transaction, self.begin_sql(), self.0.is_sqlite).await?;
        self.accept_number(transaction, number).await
    }

    /// Whether the database is SQLite.
    pub(crate) fn is_sqlite(&self) -> bool {
        self.0.is_sqlite
    }

    fn begin_sql(&self) -> &'static str {
        if self.0.is_sqlite { BEGIN_SQLITE_SQL } else { BEGIN_POSTGRES_SQL }
    }

    pub(crate) async fn open_transaction(&self) -> Result<StoreTransaction<DB>, StoreError> {
        self.check_loss()?;
        let connection = self.0.pool.acquire().await?;
        let transaction =
            StoreTransaction { writer: self.clone(), connection, number: 0, shown: 0, is_committed: false };
        self.check_file()?;
        Ok(transaction)
    }

    /// Compares the number of a transaction that has begun with the last one.
    pub(crate) async fn accept_number(
        &self,
        mut transaction: StoreTransaction<DB>,
        number: i64,
    ) -> Result<StoreTransaction<DB>, StoreError> {
        if let Some(server) = self.server() {
            let found = DB::read_number(&mut transaction, SERVER_SQL, self.0.is_sqlite).await?;
            if found != server {
                return Err(self.lose(format!("the database is on server {found} instead of {server}")));
            }
        }
        let last = self.last_commit();
        if number <= last {
            return Err(self.lose(format!("the database has lost commits: it shows {} of {last}", number - 1)));
        }
        transaction.number = number;
        Ok(transaction)
    }

    fn server(&self) -> Option<i64> {
        self.known().server
    }

    fn known(&self) -> MutexGuard<'_, KnownState> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn check_loss(&self) -> Result<(), StoreError> {
        self.known().loss.clone().map_or(Ok(()), |loss| Err(StoreError::Lost(loss)))
    }

    /// Compares the files with those that were seen before; to be called with a connection, which may be a new one.
    fn check_file(&self) -> Result<(), StoreError> {
        let connection_number = self.0.connections.0.load(Ordering::Acquire);
        let mut known = self.known();
        let checked = known.watch.as_mut().map_or(Ok(()), |watch| watch.check(connection_number));
        drop(known);
        checked.map_err(|change| match change {
            FileChange::Lost(loss) => self.lose(loss),
            FileChange::Unclear(change) => StoreError::Changed(change),
        })
    }

    fn lose(&self, loss: String) -> StoreError {
        tracing::error!(loss, "a database has lost what it had acknowledged");
        self.known().loss = Some(loss.clone());
        StoreError::Lost(loss)
    }
}

impl StoreWriter<Any> {
    /// Begins a transaction whose first statements are known: SQLite gets them with its beginning. Returns their rows too.
    ///
    /// # Errors
    /// When the database does not answer, refuses a statement, or has lost commits.
    pub async fn begin_with(
        &self,
        batch: &mut StatementBatch,
    ) -> Result<(StoreTransaction<Any>, Vec<Vec<AnyRow>>), StoreError> {
        if !self.0.is_sqlite {
            let mut transaction = self.begin().await?;
            let rows = batch.run(&mut transaction).await?;
            return Ok((transaction, rows));
        }
        let mut transaction = self.open_transaction().await?;
        batch.add_first(BEGIN_SQLITE_SQL, Vec::new());
        let mut rows = batch.run(&mut transaction).await?;
        let rest = rows.split_off(BEGIN_STATEMENTS.min(rows.len()));
        let number = number_of(&rows)?;
        Ok((self.accept_number(transaction, number).await?, rest))
    }

    /// Writes statements in a transaction of their own, which SQLite gets as one text; returns their rows.
    ///
    /// # Errors
    /// Those of a transaction and of its commit.
    pub async fn write(&self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, StoreError> {
        if !self.0.is_sqlite {
            let (transaction, rows) = self.begin_with(batch).await?;
            transaction.commit().await?;
            return Ok(rows);
        }
        let mut transaction = self.open_transaction().await?;
        batch.add_first(BEGIN_CHECKED_SQLITE_SQL, vec![self.last_commit().into()]);
        match transaction.run_and_commit(batch).await {
            Ok(mut rows) => {
                let rest = rows.split_off(BEGIN_STATEMENTS.min(rows.len()));
                transaction.number = number_of(&rows)?;
                transaction.accept_commit()?;
                Ok(rest)
            }
            Err(error) => {
                drop(transaction);
                // Lost commits are among the reasons, and the transaction that finds them says so.
                self.begin().await?;
                Err(error)
            }
        }
    }
}

pub(crate) fn number_of(rows: &[Vec<AnyRow>]) -> Result<i64, sqlx::Error> {
    rows.iter().flatten().next_back().ok_or(sqlx::Error::RowNotFound)?.try_get(0)
}

async fn read_server<DB: StoreEngine>(connection: &mut DB::Connection) -> Option<i64> {
    let read = DB::read_number(connection, SERVER_SQL, false).await;
    read.inspect_err(|error| tracing::warn!(%error, "the database server does not state its identity")).ok()
}

/// A transaction. Its connection is closed, and nothing of it happens, unless it is committed.
pub struct StoreTransaction<DB: StoreEngine> {
    writer: StoreWriter<DB>,
    connection: PoolConnection<DB>,
    number: i64,
    /// The number that a new transaction has shown after the commit.
    shown: i64,
    is_committed: bool,
}

impl<DB: StoreEngine> StoreTransaction<DB> {
    /// Commits, and proves it by a new transaction. After an error the transaction may have happened or not.
    ///
    /// # Errors
    /// When the commit fails, is not shown by a new transaction, or is in a file that is no longer at its path.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let is_sqlite = self.writer.0.is_sqlite;
        self.shown = DB::read_number(&mut self, COMMIT_SQL, is_sqlite).await?;
        self.accept_commit()
    }

    /// Accepts a commit that a new transaction has shown.
    pub(crate) fn accept_commit(&mut self) -> Result<(), StoreError> {
        if self.shown < self.number {
            return Err(StoreError::NotDurable { expected: self.number, found: self.shown });
        }
        self.writer.check_file()?;
        self.writer.known().last_commit = self.number;
        self.is_committed = true;
        Ok(())
    }
}

impl StoreTransaction<Any> {
    /// Runs the last statements and commits: SQLite gets both as one text. Returns the rows of the statements.
    ///
    /// # Errors
    /// Those of the statements, after which nothing is committed, and those of a commit.
    pub async fn commit_with(mut self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, StoreError> {
        if self.writer.0.is_sqlite {
            let rows = self.run_and_commit(batch).await?;
            self.accept_commit()?;
            return Ok(rows);
        }
        let rows = batch.run(&mut self).await?;
        self.commit().await?;
        Ok(rows)
    }

    /// A statement that fails ends the text: those behind it, and the commit, do not run.
    pub(crate) async fn run_and_commit(&mut self, batch: &mut StatementBatch) -> Result<Vec<Vec<AnyRow>>, StoreError> {
        batch.add(COMMIT_SQL, []);
        let mut rows = batch.run(self).await?;
        let commit = rows.split_off(rows.len().saturating_sub(COMMIT_STATEMENTS));
        self.shown = number_of(&commit)?;
        Ok(rows)
    }
}

impl<DB: StoreEngine> Deref for StoreTransaction<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: StoreEngine> DerefMut for StoreTransaction<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: StoreEngine> Drop for StoreTransaction<DB> {
    fn drop(&mut self) {
        // The state of a connection is unknown after an error; the next transaction has a new one.
        if !self.is_committed {
            self.connection.close_on_drop();
        }
    }
}
