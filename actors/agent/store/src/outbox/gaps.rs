//! The gaps of the outbox: heights whose events were dropped, or belong to blocks that the chain has lost.

use sqlx::{AnyConnection, Row, any::AnyRow};
use svc_agent_core::{
    lost_blocks::{LostBlocks, LostHeights},
    notification::Notification,
};

use super::{BLOCK_MARK, EVERY_EVENT, OutboxEvent, insert_events, set_cursor};
use crate::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// Heights whose events were dropped, because too many were stored or the chain has lost the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGap {
    /// First height.
    pub from_height: u64,
    /// Last height.
    pub to_height: u64,
    /// Dropped events.
    pub count: u64,
}

impl AgentStore {
    /// Returns gaps in the order of their heights, behind one that begins at `after`.
    pub async fn event_gaps(&self, after: Option<u64>, limit: usize) -> Result<Vec<EventGap>, AgentStoreError> {
        let sql =
            "SELECT from_height, to_height, count FROM event_gap WHERE from_height > $1 ORDER BY from_height LIMIT $2";
        let limit = to_column(limit as u64);
        let rows = sqlx::query(sql).bind(after.map_or(-1, to_column)).bind(limit).fetch_all(self.reader()).await?;
        let parse = |row: &AnyRow| -> Result<EventGap, sqlx::Error> {
            let [from_height, to_height, count] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?].map(from_column);
            Ok(EventGap { from_height, to_height, count })
        };
        Ok(rows.iter().map(parse).collect::<Result<_, _>>()?)
    }

    /// Puts events of a gap behind the newest event, and shrinks the gap to the heights from `next_height` on.
    pub async fn refill_gap(
        &self,
        gap: &EventGap,
        notifications: &[Notification],
        next_height: u64,
        now: i64,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        // Further events may have been dropped meanwhile: only these heights are cut out of the gap that is there now.
        let sql = "SELECT from_height, to_height, count FROM event_gap WHERE from_height <= $1 AND to_height >= $1";
        let (from, next) = (to_column(gap.from_height), to_column(next_height));
        if let Some(row) = sqlx::query(sql).bind(from).fetch_optional(&mut *transaction).await? {
            let (known_from, known_to, count): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let sql = "DELETE FROM event_gap WHERE from_height = $1";
            sqlx::query(sql).bind(known_from).execute(&mut *transaction).await?;
            let left = (count - to_column(notifications.len() as u64)).max(0);
            if known_from < from {
                insert_gap(&mut transaction, known_from, from - 1, if next > known_to { left } else { 0 }).await?;
            }
            if next <= known_to {
                insert_gap(&mut transaction, next, known_to, left).await?;
            }
        }
        let sql = "SELECT next_number FROM event_cursor";
        let number: i64 = sqlx::query_scalar(sql).fetch_one(&mut *transaction).await?;
        let added = notifications.iter().zip(number..);
        let added: Vec<OutboxEvent> =
            added.map(|(notification, number)| OutboxEvent::new(number, notification, now)).collect();
        insert_events(&mut transaction, &added).await?;
        let number = number + to_column(added.len() as u64);
        sqlx::query("UPDATE event_cursor SET next_number = $1, stored = stored + $2")
            .bind(number)
            .bind(to_column(notifications.len() as u64))
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }
}

/// Puts the cursor back to the height below lost blocks. Stored events of these blocks are dropped, and one gap names the heights.
/// Returns that gap with the number of dropped events.
pub(crate) async fn lose_events(
    connection: &mut AnyConnection,
    lost: &LostBlocks,
) -> Result<Option<EventGap>, AgentStoreError> {
    let sql = "SELECT height, stored, next_number FROM event_cursor";
    let row = sqlx::query(sql).fetch_one(&mut *connection).await?;
    let (height, stored, number): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let Some(LostHeights { first, last }) = lost.heights_below(u64::try_from(height).ok()) else { return Ok(None) };
    let mut dropped = 0;
    for sql in ["DELETE FROM outbox WHERE height >= $1", "DELETE FROM dead_letter WHERE height >= $1"] {
        let removed = sqlx::query(sql).bind(to_column(first)).execute(&mut *connection).await?;
        dropped += to_column(removed.rows_affected());
    }
    sqlx::query("DELETE FROM event_at_cursor").execute(&mut *connection).await?;
    // The block at the new cursor was stored whole, since later ones were.
    let mark = lost.kept_hash.iter().map(|hash| format!("{BLOCK_MARK}{hash}"));
    for id in mark.chain([EVERY_EVENT.to_owned()]) {
        sqlx::query("INSERT INTO event_at_cursor (id) VALUES ($1)").bind(id).execute(&mut *connection).await?;
    }
    set_cursor(connection, to_column(lost.newest_kept), stored - dropped, number).await?;
    note_gap(connection, to_column(first), to_column(last), dropped).await?;
    Ok(Some(EventGap { from_height: first, to_height: last, count: from_column(dropped) }))
}

/// Notes dropped events. Gaps that touch become one, so that few rows remain.
pub(super) async fn note_gap(
    connection: &mut AnyConnection,
    mut from: i64,
    mut to: i64,
    mut count: i64,
) -> Result<(), AgentStoreError> {
    let sql = "SELECT from_height, to_height, count FROM event_gap WHERE to_height >= $1 AND from_height <= $2";
    let touching = sqlx::query(sql).bind(from - 1).bind(to + 1).fetch_all(&mut *connection).await?;
    for row in &touching {
        let (known_from, known_to, known_count): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        (from, to, count) = (from.min(known_from), to.max(known_to), count + known_count);
        let sql = "DELETE FROM event_gap WHERE from_height = $1";
        sqlx::query(sql).bind(known_from).execute(&mut *connection).await?;
    }
    insert_gap(connection, from, to, count).await
}

async fn insert_gap(connection: &mut AnyConnection, from: i64, to: i64, count: i64) -> Result<(), AgentStoreError> {
    sqlx::query("INSERT INTO event_gap (from_height, to_height, count) VALUES ($1, $2, $3)")
        .bind(from)
        .bind(to)
        .bind(count)
        .execute(connection)
        .await?;
    Ok(())
}
