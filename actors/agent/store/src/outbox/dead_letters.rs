//! The events that could not be delivered.

use sqlx::{AnyConnection, Row, any::AnyRow};

use super::{OutboxEvent, insert_events, parse_event};
use crate::{agent_store::AgentStore, columns::to_column, error::AgentStoreError};

/// An event that could not be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The event.
    pub event: OutboxEvent,
    /// Attempts.
    pub attempts: u32,
    /// HTTP status of the last attempt.
    pub last_status: Option<u16>,
    /// Error of the last attempt without a status.
    pub last_error: Option<String>,
    /// Time at which it was moved, seconds since the epoch.
    pub moved_at: i64,
}

fn parse_dead_letter(row: &AnyRow) -> Result<DeadLetter, sqlx::Error> {
    let status: Option<i64> = row.try_get("last_status")?;
    Ok(DeadLetter {
        event: parse_event(row)?,
        attempts: u32::try_from(row.try_get::<i64, _>("attempts")?).unwrap_or(u32::MAX),
        last_status: status.and_then(|status| u16::try_from(status).ok()),
        last_error: row.try_get("last_error")?,
        moved_at: row.try_get("moved_at")?,
    })
}

impl AgentStore {
    /// Returns dead letters in the order of their ids, behind one of them.
    pub async fn dead_letters(&self, after: Option<&str>, limit: usize) -> Result<Vec<DeadLetter>, AgentStoreError> {
        let sql = "SELECT * FROM dead_letter WHERE id > $1 ORDER BY id LIMIT $2";
        let limit = to_column(limit as u64);
        let rows = sqlx::query(sql).bind(after.unwrap_or_default()).bind(limit).fetch_all(self.reader()).await?;
        Ok(rows.iter().map(parse_dead_letter).collect::<Result<_, _>>()?)
    }

    /// Puts a dead letter behind the newest event; returns it as it was. `None` when there is none with this id.
    pub async fn retry_dead_letter(&self, id: &str, now: i64) -> Result<Option<DeadLetter>, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let Some(letter) = take_dead_letter(&mut transaction, id).await? else { return Ok(None) };
        let number: i64 =
            sqlx::query_scalar("SELECT next_number FROM event_cursor").fetch_one(&mut *transaction).await?;
        insert_events(&mut transaction, &[OutboxEvent { number, stored_at: now, ..letter.event.clone() }]).await?;
        sqlx::query("UPDATE event_cursor SET next_number = next_number + 1").execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Some(letter))
    }

    /// Removes a dead letter. False when there is none with this id.
    pub async fn remove_dead_letter(&self, id: &str) -> Result<bool, AgentStoreError> {
        let mut transaction = self.begin().await?;
        if take_dead_letter(&mut transaction, id).await?.is_none() {
            return Ok(false);
        }
        sqlx::query("UPDATE event_cursor SET stored = stored - 1").execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// Returns the number of added rows: an event that died before, was read again from a gap, and dies again is one letter.
pub(super) async fn insert_dead_letter(
    connection: &mut AnyConnection,
    letter: &DeadLetter,
) -> Result<i64, AgentStoreError> {
    let event = &letter.event;
    let sql = "INSERT INTO dead_letter (number, id, kind, height, stored_at, body, attempts, last_status, last_error, moved_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING";
    let inserted = sqlx::query(sql)
        .bind(event.number)
        .bind(&event.id)
        .bind(&event.kind)
        .bind(event.height)
        .bind(event.stored_at)
        .bind(&event.body)
        .bind(i64::from(letter.attempts))
        .bind(letter.last_status.map(i64::from))
        .bind(&letter.last_error)
        .bind(letter.moved_at)
        .execute(connection)
        .await?;
    Ok(to_column(inserted.rows_affected()))
}

async fn take_dead_letter(connection: &mut AnyConnection, id: &str) -> Result<Option<DeadLetter>, AgentStoreError> {
    let row = sqlx::query("SELECT * FROM dead_letter WHERE id = $1").bind(id).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(None) };
    let letter = parse_dead_letter(&row)?;
    sqlx::query("DELETE FROM dead_letter WHERE id = $1").bind(id).execute(connection).await?;
    Ok(Some(letter))
}
