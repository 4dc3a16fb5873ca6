//! The outbox: events that are still to be delivered, and the heights of those that were dropped.

mod dead_letters;

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::{
    Any, AnyConnection, AssertSqlSafe, Row,
    any::{AnyArguments, AnyRow},
    query::Query,
};
use svc_agent_core::{notification::Notification, peers::PeerEvent, time_text::millis_text};
use uuid::Uuid;

pub use self::dead_letters::DeadLetter;
use self::dead_letters::insert_dead_letter;
use super::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// An event in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Place in the order of deliveries.
    pub number: i64,
    /// Id.
    pub id: String,
    /// Type.
    pub kind: String,
    /// Height of the block.
    pub height: i64,
    /// Time at which the event was stored, seconds since the epoch.
    pub stored_at: i64,
    /// Body.
    pub body: String,
}

impl OutboxEvent {
    fn new(number: i64, notification: &Notification, stored_at: i64) -> Self {
        Self {
            number,
            id: notification.id.clone(),
            kind: notification.kind.to_owned(),
            height: to_column(notification.height),
            stored_at,
            body: notification.body.clone(),
        }
    }
}

/// Heights whose events were dropped, because too many were stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGap {
    /// First height.
    pub from_height: u64,
    /// Last height.
    pub to_height: u64,
    /// Dropped events.
    pub count: u64,
}

/// The numbers of the outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxSizes {
    /// Events and dead letters.
    pub stored: u64,
    /// Dead letters among them.
    pub dead_letters: u64,
    /// Time at which the oldest event was stored, seconds since the epoch.
    pub oldest_at: Option<i64>,
}

/// The events of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockEvents {
    /// Height.
    pub height: u64,
    /// Ids of all its events, for those that come again.
    pub ids: Vec<String>,
    /// Webhooks; none while no URL is configured.
    pub notifications: Vec<Notification>,
}

/// Reads an event from its row.
fn parse_event(row: &AnyRow) -> Result<OutboxEvent, sqlx::Error> {
    Ok(OutboxEvent {
        number: row.try_get("number")?,
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        height: row.try_get("height")?,
        stored_at: row.try_get("stored_at")?,
        body: row.try_get("body")?,
    })
}

impl AgentStore {
    /// Returns the height up to which all events are stored; `None` before the first block.
    pub async fn event_cursor(&self) -> Result<Option<u64>, AgentStoreError> {
        let sql = "SELECT height FROM event_cursor WHERE one = 1";
        let height: i64 = sqlx::query_scalar(sql).fetch_one(self.reader()).await?;
        Ok(u64::try_from(height).ok())
    }

    /// Returns the ids of the events at the cursor's height: an indexer may send further ones of the same block.
    pub async fn ids_at_cursor(&self) -> Result<Vec<String>, AgentStoreError> {
        Ok(sqlx::query_scalar("SELECT id FROM event_at_cursor").fetch_all(self.reader()).await?)
    }

    /// Stores blocks with their events, in one transaction with the cursor. Above `max_stored` events the oldest are dropped, and a gap
    /// names their heights.
    pub async fn store_blocks(&self, blocks: &[BlockEvents], now: i64, max_stored: u64) -> Result<(), AgentStoreError> {
        let Some(last) = blocks.last() else { return Ok(()) };
        let mut transaction = self.begin().await?;
        let row =
            sqlx::query("SELECT height, stored, next_number FROM event_cursor").fetch_one(&mut *transaction).await?;
        let (height, mut stored, mut number): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        // The commit of an attempt before may have happened although it failed.
        let ids = sqlx::query_scalar("SELECT id FROM event_at_cursor").fetch_all(&mut *transaction).await?;
        let ids: BTreeSet<String> = ids.into_iter().collect();
        let is_stored = |event: &Notification| {
            let event_height = to_column(event.height);
            event_height < height || (event_height == height && ids.contains(&event.id))
        };
        let added: Vec<OutboxEvent> = blocks
            .iter()
            .flat_map(|block| &block.notifications)
            .filter(|event| !is_stored(event))
            .zip(number..)
            .map(|(notification, number)| OutboxEvent::new(number, notification, now))
            .collect();
        insert_events(&mut transaction, &added).await?;
        (number, stored) = (number + to_column(added.len() as u64), stored + to_column(added.len() as u64));
        let excess = stored - to_column(max_stored);
        if excess > 0 {
            stored -= drop_oldest(&mut transaction, excess).await?;
        }
        let height_now = to_column(last.height).max(height);
        if height_now != height {
            sqlx::query("DELETE FROM event_at_cursor").execute(&mut *transaction).await?;
        }
        for ids in last.ids.chunks(ROWS).filter(|_| to_column(last.height) == height_now) {
            let sql = format!(
                "INSERT INTO event_at_cursor (id) VALUES {} ON CONFLICT (id) DO NOTHING",
                placeholders(ids.len(), 1)
            );
            let insert = sqlx::query(AssertSqlSafe(sql));
            ids.iter().fold(insert, |insert, id| insert.bind(id)).execute(&mut *transaction).await?;
        }
        set_cursor(&mut transaction, height_now, stored, number).await?;
        Ok(transaction.commit().await?)
    }

    /// Returns the next events of the outbox.
    pub async fn next_events(&self, after: i64, limit: usize) -> Result<Vec<OutboxEvent>, AgentStoreError> {
        let limit = to_column(limit as u64);
        let sql = "SELECT * FROM outbox WHERE number > $1 ORDER BY number LIMIT $2";
        let rows = sqlx::query(sql).bind(after).bind(limit).fetch_all(self.reader()).await?;
        Ok(rows.iter().map(parse_event).collect::<Result<_, _>>()?)
    }

    /// Removes delivered events, and moves others to the dead letters.
    pub async fn settle_events(&self, delivered: &[i64], dead: &[DeadLetter]) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let mut removed = 0;
        for numbers in delivered.chunks(ROWS) {
            removed += remove_events(&mut transaction, numbers).await?;
        }
        for letter in dead {
            // An event that was dropped meanwhile is in a gap already.
            if remove_events(&mut transaction, &[letter.event.number]).await? == 1 {
                removed += 1 - insert_dead_letter(&mut transaction, letter).await?;
            }
        }
        sqlx::query("UPDATE event_cursor SET stored = stored - $1").bind(removed).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }

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

    /// Returns the numbers of the outbox.
    pub async fn outbox_sizes(&self) -> Result<OutboxSizes, AgentStoreError> {
        let sql = "SELECT stored, (SELECT COUNT(*) FROM dead_letter), \
                   (SELECT stored_at FROM outbox ORDER BY number LIMIT 1) FROM event_cursor";
        let row = sqlx::query(sql).fetch_one(self.reader()).await?;
        let (stored, dead_letters): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let oldest_at = row.try_get(2)?;
        Ok(OutboxSizes { stored: from_column(stored), dead_letters: from_column(dead_letters), oldest_at })
    }
}

/// Height of events that belong to no block.
const NO_BLOCK: i64 = -1;

/// Puts events of peers behind the newest one; `None` without a receiver. They belong to no block, so that one which is dropped for want
/// of room leaves no gap that could be filled again.
pub(super) async fn queue_peer_events(
    connection: &mut AnyConnection,
    events: &[PeerEvent],
    now: i64,
    max_stored: Option<u64>,
) -> Result<(), AgentStoreError> {
    let (Some(max_stored), false) = (max_stored, events.is_empty()) else { return Ok(()) };
    let sql = "SELECT height, stored, next_number FROM event_cursor";
    let row = sqlx::query(sql).fetch_one(&mut *connection).await?;
    let (height, mut stored, number): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let timestamp = millis_text(now.saturating_mul(1000));
    let event = |(event, number): (&PeerEvent, i64)| {
        let id = Uuid::now_v7().to_string();
        let body = json!({"id": id, "type": event.kind, "timestamp": timestamp, "data": event.data}).to_string();
        OutboxEvent { number, id, kind: event.kind.to_owned(), height: NO_BLOCK, stored_at: now, body }
    };
    let added: Vec<OutboxEvent> = events.iter().zip(number..).map(event).collect();
    insert_events(connection, &added).await?;
    let count = to_column(added.len() as u64);
    stored += count;
    let excess = stored - to_column(max_stored);
    if excess > 0 {
        stored -= drop_oldest(connection, excess).await?;
    }
    set_cursor(connection, height, stored, number + count).await
}

/// Rows of one statement.
pub(super) const ROWS: usize = 100;

/// The places of rows in a statement: `($1, $2), ($3, $4)`.
pub(super) fn placeholders(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (1..=columns).map(|column| format!("${}", row * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Adds events to the outbox.
async fn insert_events(connection: &mut AnyConnection, events: &[OutboxEvent]) -> Result<(), AgentStoreError> {
    for events in events.chunks(ROWS) {
        let places = placeholders(events.len(), 6);
        let sql = format!("INSERT INTO outbox (number, id, kind, height, stored_at, body) VALUES {places}");
        let bind = |insert: Query<'static, Any, AnyArguments>, event: &OutboxEvent| {
            let OutboxEvent { number, id, kind, height, stored_at, body } = event.clone();
            insert.bind(number).bind(id).bind(kind).bind(height).bind(stored_at).bind(body)
        };
        events.iter().fold(sqlx::query(AssertSqlSafe(sql)), bind).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Returns the number of removed rows.
async fn remove_events(connection: &mut AnyConnection, numbers: &[i64]) -> Result<i64, AgentStoreError> {
    let sql = format!("DELETE FROM outbox WHERE number IN ({})", placeholders(numbers.len(), 1));
    let remove = numbers.iter().fold(sqlx::query(AssertSqlSafe(sql)), |remove, number| remove.bind(*number));
    Ok(to_column(remove.execute(connection).await?.rows_affected()))
}

async fn set_cursor(
    connection: &mut AnyConnection,
    height: i64,
    stored: i64,
    next_number: i64,
) -> Result<(), AgentStoreError> {
    sqlx::query("UPDATE event_cursor SET height = $1, stored = $2, next_number = $3")
        .bind(height)
        .bind(stored)
        .bind(next_number)
        .execute(connection)
        .await?;
    Ok(())
}

/// Statements that select the oldest rows of a table and delete one. Dead letters go first: otherwise they could fill the outbox for good.
const OLDEST_ROWS: [(&str, &str); 2] = [
    (
        "SELECT number, height FROM dead_letter ORDER BY moved_at, number LIMIT $1",
        "DELETE FROM dead_letter WHERE number",
    ),
    ("SELECT number, height FROM outbox ORDER BY number LIMIT $1", "DELETE FROM outbox WHERE number"),
];

/// Drops the oldest dead letters, then the oldest events; returns their number. Heights in a row become a gap, or widen one.
async fn drop_oldest(connection: &mut AnyConnection, count: i64) -> Result<i64, AgentStoreError> {
    let mut dropped = 0;
    for (select, delete) in OLDEST_ROWS {
        let rows = sqlx::query(select).bind(count - dropped).fetch_all(&mut *connection).await?;
        let mut heights = Vec::new();
        for rows in rows.chunks(ROWS) {
            let sql = format!("{delete} IN ({})", placeholders(rows.len(), 1));
            let mut remove = sqlx::query(AssertSqlSafe(sql));
            for row in rows {
                remove = remove.bind(row.try_get::<i64, _>(0)?);
                heights.push(row.try_get::<i64, _>(1)?);
            }
            remove.execute(&mut *connection).await?;
        }
        dropped += to_column(rows.len() as u64);
        let of_no_block = heights.iter().filter(|height| **height == NO_BLOCK).count();
        if of_no_block > 0 {
            tracing::error!(count = of_no_block, "events of peers were dropped: the receiver does not take them");
        }
        heights.retain(|height| *height != NO_BLOCK);
        heights.sort_unstable();
        for run in heights.chunk_by(|one, next| next - one <= 1) {
            if let (Some(from), Some(to)) = (run.first(), run.last()) {
                note_gap(connection, *from, *to, to_column(run.len() as u64)).await?;
            }
        }
    }
    Ok(dropped)
}

/// Notes dropped events. Gaps that touch become one, so that few rows remain.
async fn note_gap(
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
