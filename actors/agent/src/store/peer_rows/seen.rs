//! Messages that were handled: each is handled once, and a repetition gets the answer of the first time.

use sqlx::{AnyConnection, Row};

use crate::store::{
    agent_store::{AgentStore, to_column},
    chain_rows::from_column,
    error::AgentStoreError,
};

/// A message against the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenBefore {
    /// It is new, and the memory has it now.
    No,
    /// It was handled before; its answer is sent once more.
    Yes {
        /// The answer as JSON.
        answer: Option<String>,
    },
    /// The memory is full, and this sender has filled most of it.
    Full,
}

/// Notes a message. `sender` is in its comparable form; `now` in seconds since the epoch. A transaction that ends in
/// [`SeenBefore::Full`] must not be committed.
pub(super) async fn note_seen(
    connection: &mut AnyConnection,
    (sender, id): (&str, &str),
    now: i64,
    max: u64,
) -> Result<SeenBefore, AgentStoreError> {
    let sql = "INSERT INTO seen_message (sender, id, seen_at) VALUES ($1, $2, $3) ON CONFLICT (sender, id) DO NOTHING";
    let noted =
        sqlx::query(sql).bind(sender.to_owned()).bind(id.to_owned()).bind(now).execute(&mut *connection).await?;
    if noted.rows_affected() == 0 {
        let sql = "SELECT answer FROM seen_message WHERE sender = $1 AND id = $2";
        let row = sqlx::query(sql).bind(sender.to_owned()).bind(id.to_owned()).fetch_one(&mut *connection).await?;
        return Ok(SeenBefore::Yes { answer: row.try_get("answer")? });
    }
    let sql = "UPDATE peer_total SET seen = seen + 1 RETURNING seen";
    let seen: i64 = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
    if from_column(seen) > max {
        let sql = "SELECT sender FROM seen_sender ORDER BY count DESC, sender LIMIT 1";
        let most: Option<String> = sqlx::query_scalar(sql).fetch_optional(&mut *connection).await?;
        if most.is_some_and(|most| most == sender) {
            return Ok(SeenBefore::Full);
        }
    }
    let sql = "INSERT INTO seen_sender (sender, count) VALUES ($1, 1) \
               ON CONFLICT (sender) DO UPDATE SET count = seen_sender.count + 1";
    sqlx::query(sql).bind(sender.to_owned()).execute(connection).await?;
    Ok(SeenBefore::No)
}

/// Notes the answer to a message.
pub(super) async fn note_answer(
    connection: &mut AnyConnection,
    (sender, id): (&str, &str),
    answer: &str,
) -> Result<(), AgentStoreError> {
    let sql = "UPDATE seen_message SET answer = $3 WHERE sender = $1 AND id = $2";
    let query = sqlx::query(sql).bind(sender.to_owned()).bind(id.to_owned()).bind(answer.to_owned());
    query.execute(connection).await?;
    Ok(())
}

/// Rows that one clean-up removes: a write that takes long would hold up every other.
const CLEANED_ROWS: i64 = 1_000;

impl AgentStore {
    /// Forgets messages that were handled before a time; returns whether there are more.
    pub(crate) async fn forget_seen(&self, before: i64) -> Result<bool, AgentStoreError> {
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
