//! Messages that were handled: each is handled once, and a repetition gets the answer of the first time.

use sqlx::{Row, any::AnyRow};
use svc_store::StatementBatch;

use crate::{agent_store::AgentStore, columns::to_column, error::AgentStoreError};

/// A message against the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeenBefore {
    /// It is new.
    No,
    /// It was handled before; its answer is sent once more.
    Yes {
        /// The answer as JSON.
        answer: Option<String>,
    },
    /// The memory is full, and this sender has filled most of it.
    Full,
}

/// Asks the memory for a message. `sender` is in its comparable form.
pub(crate) fn ask_seen(batch: &mut StatementBatch, (sender, id): (&str, &str), max: u64) {
    let sql = "SELECT (SELECT COUNT(*) FROM seen_message WHERE sender = $1 AND id = $2) AS known, \
               (SELECT answer FROM seen_message WHERE sender = $1 AND id = $2) AS answer, \
               CASE WHEN seen >= $3 THEN (SELECT sender FROM seen_sender ORDER BY count DESC, sender LIMIT 1) END AS most \
               FROM peer_total";
    batch.add(sql, [sender.into(), id.into(), to_column(max).into()]);
}

/// Reads the row of [`ask_seen`].
pub(crate) fn read_seen(rows: &[AnyRow], sender: &str) -> Result<SeenBefore, AgentStoreError> {
    let row = rows.first().ok_or_else(|| AgentStoreError::CorruptRow("the totals of peers".to_owned()))?;
    if row.try_get::<i64, _>("known")? > 0 {
        return Ok(SeenBefore::Yes { answer: row.try_get("answer")? });
    }
    let most: Option<String> = row.try_get("most")?;
    Ok(if most.is_some_and(|most| most == sender) { SeenBefore::Full } else { SeenBefore::No })
}

/// Notes a message that is new; `now` in seconds since the epoch.
pub(crate) fn note_seen(batch: &mut StatementBatch, (sender, id): (&str, &str), now: i64) {
    let sql = "INSERT INTO seen_message (sender, id, seen_at) VALUES ($1, $2, $3)";
    batch.add(sql, [sender.into(), id.into(), now.into()]);
    batch.add("UPDATE peer_total SET seen = seen + 1", []);
    let sql = "INSERT INTO seen_sender (sender, count) VALUES ($1, 1) \
               ON CONFLICT (sender) DO UPDATE SET count = seen_sender.count + 1";
    batch.add(sql, [sender.into()]);
}

/// Notes the answer to a message.
pub(crate) fn note_answer(batch: &mut StatementBatch, (sender, id): (&str, &str), answer: String) {
    let sql = "UPDATE seen_message SET answer = $3 WHERE sender = $1 AND id = $2";
    batch.add(sql, [sender.into(), id.into(), answer.into()]);
}

/// Rows that one clean-up removes: a write that takes long would hold up every other.
const CLEANED_ROWS: i64 = 1_000;

impl AgentStore {
    /// Forgets messages that were handled before a time; returns whether there are more.
    pub async fn forget_seen(&self, before: i64) -> Result<bool, AgentStoreError> {
        let sql = "SELECT sender, id FROM seen_message WHERE seen_at < $1 ORDER BY seen_at LIMIT $2";
        let rows = sqlx::query(sql).bind(before).bind(CLEANED_ROWS).fetch_all(self.reader()).await?;
        if rows.is_empty() {
            return Ok(false);
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let (sender, id): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let sql = "DELETE FROM seen_message WHERE sender = $1 AND id = $2";
            sqlx::query(sql).bind(sender.clone()).bind(id).execute(&mut *transaction).await?;
            let sql = "UPDATE seen_sender SET count = count - 1 WHERE sender = $1";
            sqlx::query(sql).bind(sender).execute(&mut *transaction).await?;
        }
        sqlx::query("DELETE FROM seen_sender WHERE count <= 0").execute(&mut *transaction).await?;
        let sql = "UPDATE peer_total SET seen = seen - $1";
        sqlx::query(sql).bind(to_column(rows.len() as u64)).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(rows.len() as i64 == CLEANED_ROWS)
    }
}
