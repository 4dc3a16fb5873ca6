//! The outbox: events that are still to be delivered, and the heights of those that were dropped.

mod dead_letters;
mod gaps;

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::{
    Any, AnyConnection, AssertSqlSafe, Row,
    any::{AnyArguments, AnyRow},
    query::Query,
};
use svc_agent_core::{notification::Notification, peers::PeerEvent, time_text::millis_text};
use uuid::Uuid;

pub(super) use self::gaps::lose_events;
pub use self::{dead_letters::DeadLetter, gaps::EventGap};
use self::{dead_letters::insert_dead_letter, gaps::note_gap};
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

/// Stands for the ids of all events at the cursor: none of them is stored once more.
pub const EVERY_EVENT: &str = "*";

/// Precedes the hash of the block at the cursor, which is stored among the ids of its events.
pub(super) const BLOCK_MARK: &str = "block/";

/// The events of one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockEvents {
    /// Height.
    pub height: u64,
    /// Hash of the block at the node, upper-case hex; `None` where it is not known.
    pub hash: Option<String>,
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

    /// Returns height and hash of the block at the cursor, by which another history shows; `None` where its hash is not known.
    pub async fn cursor_block(&self) -> Result<Option<(u64, String)>, AgentStoreError> {
        let sql = "SELECT height, id FROM event_cursor, event_at_cursor WHERE id LIKE 'block/%'";
        let Some(row) = sqlx::query(sql).fetch_optional(self.reader()).await? else { return Ok(None) };
        let (height, mark): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        Ok(mark.strip_prefix(BLOCK_MARK).map(|hash| (from_column(height), hash.to_owned())))
    }

    /// Returns the ids of the events at the cursor's height, or [`EVERY_EVENT`]: an indexer may send further ones of the same block.
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
            let is_known = ids.contains(&event.id) || ids.contains(EVERY_EVENT);
            event_height < height || (event_height == height && is_known)
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
        let has_mark = height_now == height && ids.iter().any(|id| id.starts_with(BLOCK_MARK));
        let mark = last.hash.iter().filter(|_| !has_mark).map(|hash| format!("{BLOCK_MARK}{hash}"));
        let ids: Vec<String> = mark.chain(last.ids.iter().cloned()).collect();
        for ids in ids.chunks(ROWS).filter(|_| to_column(last.height) == height_now) {
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
