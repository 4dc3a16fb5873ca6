//! The turn of a message in the outbox: it is taken, marked as being sent, and settled by the result of its attempt.

use sqlx::{AnyConnection, AssertSqlSafe, Row, any::AnyRow};
use svc_agent_core::flows::UnansweredMessage;
use svc_didcomm::{
    Message,
    delivery::{Attempt, DeliveryState, Next, Repetition, Waiting, after_attempt},
};
use svc_store::StatementBatch;

use crate::{
    agent_store::AgentStore,
    columns::{from_column, to_column},
    error::AgentStoreError,
};

/// A message in the outbox.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    /// Place in the order.
    pub number: i64,
    /// The connection that it goes over.
    pub connection_id: String,
    /// The message without its sender and recipient, which are those of the connection when it is sent.
    pub message: Message,
    /// Its state.
    pub waiting: Waiting,
    /// The DIDs of the connection.
    pub route: MessageRoute,
    /// Whether others wait behind it.
    pub has_followers: bool,
}

/// The two ends of a connection when its message was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRoute {
    /// Our DID.
    pub our_did: String,
    /// The peer's present DID.
    pub their_did: String,
    /// The DID that the peer is known by.
    pub public_did: String,
    /// Whether the peer has ended the connection.
    pub has_ended: bool,
}

impl MessageRoute {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            our_did: row.try_get("our_did")?,
            their_did: row.try_get("their_did")?,
            public_did: row.try_get("public_did")?,
            has_ended: row.try_get::<i64, _>("has_ended")? != 0,
        })
    }
}

/// A message that was sent once, and the step after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentMessage {
    /// Place in the order.
    pub number: i64,
    /// The step.
    pub next: Next,
}

/// Notes the step after an attempt. A message that was settled meanwhile stays so.
fn settle(batch: &mut StatementBatch, sent: SentMessage, now: i64) {
    let number = sent.number;
    let state = match sent.next {
        Next::Delivered => DeliveryState::Delivered,
        Next::Undeliverable => DeliveryState::Undeliverable,
        Next::Unanswered => DeliveryState::Unanswered,
        Next::Again { waiting, .. } if waiting.unknown_since.is_some() => DeliveryState::Unanswered,
        Next::Again { .. } => DeliveryState::Waiting,
    };
    let sql =
        "UPDATE basic_message SET delivery = $2 WHERE id = (SELECT record_id FROM peer_message WHERE number = $1)";
    batch.add(sql, [number.into(), state.as_str().into()]);
    // It may belong to another connection by now: that one is looked at again.
    let sql = "UPDATE peer_connection SET \
               waiting = waiting + $2 - (SELECT COUNT(*) FROM peer_message WHERE number = $1 AND unknown_since IS NULL), \
               unanswered = unanswered + $3 - (SELECT COUNT(*) FROM peer_message WHERE number = $1 AND unknown_since IS NOT NULL), \
               next_due = CASE WHEN has_ended = 1 THEN NULL ELSE $4 END \
               WHERE id = (SELECT connection_id FROM peer_message WHERE number = $1)";
    let count = |counted: DeliveryState| i64::from(state == counted).into();
    batch.add(sql, [number.into(), count(DeliveryState::Waiting), count(DeliveryState::Unanswered), now.into()]);
    match sent.next {
        Next::Delivered | Next::Undeliverable => {
            let sql = "UPDATE peer_total SET waiting = waiting - (SELECT COUNT(*) FROM peer_message WHERE number = $1)";
            batch.add(sql, [number.into()]);
            batch.add("DELETE FROM peer_message WHERE number = $1", [number.into()]);
        }
        Next::Unanswered => {
            let sql = "UPDATE peer_message SET sending = 0, due_at = NULL, unknown_since = COALESCE(unknown_since, $2) \
                       WHERE number = $1";
            batch.add(sql, [number.into(), now.into()]);
        }
        Next::Again { at, waiting } => {
            let sql = "UPDATE peer_message SET sending = 0, due_at = $2, unknown_since = $3, failures = $4, unknowns = $5 \
                       WHERE number = $1";
            let [failures, unknowns] = [waiting.failures, waiting.unknowns].map(i64::from);
            batch.add(sql, [number.into(), at.into(), waiting.unknown_since.into(), failures.into(), unknowns.into()]);
        }
    }
}

/// Seconds that an attempt takes at most: two documents, and a connection and an answer of each of several endpoints.
const LONGEST_ATTEMPT: i64 = 900;

const QUEUED_COLUMNS: &str = "number, connection_id, body, stored_at, unknown_since, failures, unknowns";

fn read_message(row: &AnyRow) -> Result<(Message, Waiting), AgentStoreError> {
    let body: String = row.try_get("body")?;
    let corrupt = || AgentStoreError::CorruptRow("a message of the outbox".to_owned());
    let message = Message::parse(body.as_bytes()).map_err(|_| corrupt())?;
    let count = |column: &str| Ok::<_, sqlx::Error>(u32::try_from(row.try_get::<i64, _>(column)?).unwrap_or(u32::MAX));
    let waiting = Waiting {
        repetition: Repetition::of(&message),
        stored_at: row.try_get("stored_at")?,
        unknown_since: row.try_get("unknown_since")?,
        failures: count("failures")?,
        unknowns: count("unknowns")?,
    };
    Ok((message, waiting))
}

/// The number of the message that is sent next over a connection, `$1`. Those that were never sent go in their order; one whose arrival is
/// unknown holds up nothing.
const NEXT_NUMBER: &str = "SELECT number FROM (\
    SELECT * FROM (SELECT number, due_at, 0 AS place FROM peer_message WHERE connection_id = $1 AND due_at IS NOT NULL \
    AND sending = 0 AND unknown_since IS NULL ORDER BY number LIMIT 1) AS fresh \
    UNION ALL \
    SELECT * FROM (SELECT number, due_at, 1 AS place FROM peer_message WHERE connection_id = $1 AND due_at IS NOT NULL \
    AND sending = 0 AND unknown_since IS NOT NULL ORDER BY due_at, number LIMIT 1) AS repeated\
    ) AS candidates ORDER BY due_at, place LIMIT 1";

/// The time at which the next message of a connection is due.
async fn first_due(connection: &mut AnyConnection, connection_id: &str) -> Result<Option<i64>, AgentStoreError> {
    let sql = format!("SELECT due_at FROM peer_message WHERE number = ({NEXT_NUMBER})");
    Ok(sqlx::query_scalar(AssertSqlSafe(sql)).bind(connection_id.to_owned()).fetch_optional(connection).await?)
}

/// Marks the next message of a connection as being sent, if it is due; its row is returned.
fn mark_first_due(batch: &mut StatementBatch, connection_id: &str, now: i64) {
    let sql = format!(
        "UPDATE peer_message SET sending = 1 WHERE number = ({NEXT_NUMBER}) AND due_at <= $2 RETURNING {QUEUED_COLUMNS}"
    );
    batch.add(sql, [connection_id.into(), now.into()]);
}

impl AgentStore {
    /// Settles the message that was sent before, and takes the next one that is due. From then on it counts as sent with an unknown
    /// result, until it is settled: a process that ends in between does not send it twice.
    pub async fn take_next_message(
        &self,
        connection_id: &str,
        sent: Option<SentMessage>,
        now: i64,
    ) -> Result<Option<QueuedMessage>, AgentStoreError> {
        if sent.is_none() {
            let mut reader = self.reader().acquire().await?;
            let due = first_due(&mut reader, connection_id).await?;
            let sql = "SELECT next_due FROM peer_connection WHERE id = $1";
            let query = sqlx::query_scalar(sql).bind(connection_id.to_owned());
            let noted: Option<Option<i64>> = query.fetch_optional(&mut *reader).await?;
            // A time that has passed would wake the session again and again.
            let is_noted = noted.is_none_or(|noted| noted == due || noted.is_some_and(|noted| noted > now));
            if is_noted && due.is_none_or(|due| due > now) {
                return Ok(None);
            }
        }
        let mut batch = StatementBatch::default();
        if let Some(sent) = sent {
            settle(&mut batch, sent, now);
        }
        mark_first_due(&mut batch, connection_id, now);
        note_next_due(&mut batch, connection_id, now);
        let rows = self.write(&mut batch).await?;
        let [.., marked, noted] = rows.as_slice() else { return Ok(None) };
        let (Some(marked), Some(noted)) = (marked.first(), noted.first()) else { return Ok(None) };
        let (message, waiting) = read_message(marked)?;
        let (number, route) = (marked.try_get("number")?, MessageRoute::read(noted)?);
        let has_followers = noted.try_get::<i64, _>("waiting")? > 1;
        let connection_id = connection_id.to_owned();
        Ok(Some(QueuedMessage { number, connection_id, message, waiting, route, has_followers }))
    }

    /// Returns the message that is sent next over a connection, if it is due and was never sent, with its place in the order.
    pub async fn next_message(&self, connection_id: &str, now: i64) -> Result<Option<(i64, Message)>, AgentStoreError> {
        let sql = format!(
            "SELECT {QUEUED_COLUMNS} FROM peer_message WHERE number = ({NEXT_NUMBER}) AND due_at <= $2 AND unknown_since IS NULL"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(connection_id.to_owned()).bind(now);
        let Some(row) = query.fetch_optional(self.reader()).await? else { return Ok(None) };
        Ok(Some((row.try_get("number")?, read_message(&row)?.0)))
    }

    /// Whether a message waits in the outbox of a connection, and no byte of it was sent.
    pub async fn was_never_sent(&self, connection_id: &str, id: &str) -> Result<bool, AgentStoreError> {
        let sql = "SELECT COUNT(*) FROM peer_message WHERE connection_id = $1 AND id = $2 AND unknown_since IS NULL AND sending = 0";
        let query = sqlx::query_scalar(sql).bind(connection_id.to_owned()).bind(id.to_owned());
        let count: i64 = query.fetch_one(self.reader()).await?;
        Ok(count > 0)
    }

    /// Settles the messages that were being sent when a session or the process ended: their result is unknown.
    pub async fn settle_interrupted(
        &self,
        connection_id: Option<&str>,
        now: i64,
        max_age: i64,
    ) -> Result<(), AgentStoreError> {
        let sql =
            format!("SELECT {QUEUED_COLUMNS} FROM peer_message WHERE sending = 1 AND ($1 = '' OR connection_id = $1)");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(connection_id.unwrap_or_default().to_owned());
        let rows = query.fetch_all(self.reader()).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let (_, waiting) = read_message(row)?;
            let (number, connection_id): (i64, String) = (row.try_get("number")?, row.try_get("connection_id")?);
            let next = after_attempt(waiting, Attempt::Unknown, now, max_age, 0.0);
            let mut batch = StatementBatch::default();
            settle(&mut batch, SentMessage { number, next }, now);
            note_next_due(&mut batch, &connection_id, now);
            batch.run(&mut transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Returns the connections whose next message is due, the longest due first, by their ids and the peers' DIDs.
    pub async fn due_connections(&self, now: i64, limit: usize) -> Result<Vec<(String, String)>, AgentStoreError> {
        let sql = "SELECT id, public_did FROM peer_connection WHERE next_due <= $1 ORDER BY next_due, id LIMIT $2";
        let rows = sqlx::query(sql).bind(now).bind(to_column(limit as u64)).fetch_all(self.reader()).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Returns the time at which the next message of any connection is due.
    pub async fn next_due(&self) -> Result<Option<i64>, AgentStoreError> {
        Ok(sqlx::query_scalar("SELECT MIN(next_due) FROM peer_connection").fetch_one(self.reader()).await?)
    }

    /// Removes messages without an answer that were stored before a time: nothing will tell of them any more.
    pub async fn forget_unanswered(&self, before: i64) -> Result<(), AgentStoreError> {
        let sql = "SELECT number, connection_id FROM peer_message WHERE due_at IS NULL AND stored_at < $1 LIMIT 1000";
        let rows = sqlx::query(sql).bind(before).fetch_all(self.reader()).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        for row in &rows {
            let (number, connection_id): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
            let removed = sqlx::query("DELETE FROM peer_message WHERE number = $1 AND due_at IS NULL").bind(number);
            if removed.execute(&mut *transaction).await?.rows_affected() == 0 {
                continue;
            }
            let sql = "UPDATE peer_connection SET unanswered = unanswered - 1 WHERE id = $1";
            sqlx::query(sql).bind(connection_id).execute(&mut *transaction).await?;
            sqlx::query("UPDATE peer_total SET waiting = waiting - 1").execute(&mut *transaction).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Returns the newest message of some threads of a connection that went out, and of which nothing says whether it arrived.
    pub async fn unanswered_message(
        &self,
        connection_id: &str,
        [one, other]: [&str; 2],
    ) -> Result<Option<UnansweredMessage>, AgentStoreError> {
        let sql = "SELECT id, kind, unknown_since FROM peer_message WHERE connection_id = $1 AND unknown_since IS NOT NULL \
                   AND thread IN ($2, $3) ORDER BY number DESC LIMIT 1";
        let query = sqlx::query(sql).bind(connection_id.to_owned()).bind(one.to_owned()).bind(other.to_owned());
        let Some(row) = query.fetch_optional(self.reader()).await? else { return Ok(None) };
        let since: i64 = row.try_get("unknown_since")?;
        Ok(Some(UnansweredMessage { id: row.try_get("id")?, kind: row.try_get("kind")?, since }))
    }

    /// Returns the number of messages that wait or are unanswered.
    pub async fn queued_messages(&self) -> Result<u64, AgentStoreError> {
        let waiting: i64 = sqlx::query_scalar("SELECT waiting FROM peer_total").fetch_one(self.reader()).await?;
        Ok(from_column(waiting))
    }
}

/// Notes the time at which a connection is to be looked at again; its DIDs are returned.
pub(super) fn note_next_due(batch: &mut StatementBatch, connection_id: &str, now: i64) {
    // Should the session that sends a message die, another one looks after the message then.
    let sql = format!(
        "UPDATE peer_connection SET next_due = CASE \
         WHEN EXISTS (SELECT 1 FROM peer_message WHERE connection_id = $1 AND sending = 1) THEN $2 \
         WHEN has_ended = 1 THEN NULL \
         ELSE (SELECT due_at FROM peer_message WHERE number = ({NEXT_NUMBER})) END \
         WHERE id = $1 RETURNING our_did, their_did, public_did, has_ended, waiting"
    );
    batch.add(sql, [connection_id.into(), (now + LONGEST_ATTEMPT).into()]);
}
