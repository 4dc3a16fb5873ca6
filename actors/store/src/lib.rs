//! The only way to write a database: a write that is not on disk has not happened.
//!
//! A library's transaction may go on in memory after its commit has failed: sqlx counts nested transactions, and after two failed
//! commits every later *commit* only releases a savepoint of a transaction that never ends. [`StoreWriter`] therefore begins and
//! ends transactions by statements of its own, closes the connection after any error, and acknowledges a commit only when a new
//! transaction shows it and the file is still the one that was opened. A file that was removed, replaced or shortened while it was
//! open has lost commits: the writer then refuses everything that follows.

mod batch;
mod claim;
mod database;
mod engine;
mod error;
mod file_watch;
mod free_space;
mod group_commit;
mod lock;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::{BatchValue, StatementBatch};
pub use claim::{ClaimError, StoreClaim};
pub use database::{AnyDatabase, DatabaseSettings, Durability, OpenError, TableMigration, migrate, sqlite_file};
pub use engine::StoreEngine;
pub use error::StoreError;
pub use free_space::{MinFreeSpace, free_space};
pub use group_commit::{GroupTransaction, GroupWriter};
pub use lock::{LockError, LockHolder, StoreHead, StoreLock};
pub use writer::{ConnectionCounter, StoreTransaction, StoreWriter};
