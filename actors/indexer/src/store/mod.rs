//! The index store: all versions of all entities, their activity, events with their routes, statistics, blocks,
//! verdicts, and the two checkpoints.
//!
//! Blocks are whole in a database transaction, one or several, and so is a round of verdicts. The SQL is the common subset of SQLite and
//! PostgreSQL.

mod chain;
mod columns;
mod error;
mod index_store;
mod rollback;
mod row_insert;
#[cfg(test)]
mod tests;
mod trust;

pub use chain::{
    activity::{EntityActivity, StoredActivity},
    block::{BlockWrite, Checkpoint, ScheduledChange, StoredBlock},
    bootstrap::StoredStart,
    entity::{DueEntity, EntityChange, EntityFilter, IdRange, StoredEntity},
    entity_kind::EntityKind,
    event::{EventCursor, EventQuery, EventRoute, StoredEvent},
    stats::{Granularity, StatsBucket},
};
pub use columns::iso_millis;
pub use error::IndexStoreError;
pub use index_store::IndexStore;
pub use trust::{
    changes::{TrustChangeQuery, TrustSource},
    open::OpenRow,
    triggers::TouchedEntity,
    write::{KeptVerdict, TrustWrite, VerdictWrite},
};
