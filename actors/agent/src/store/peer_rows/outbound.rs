//! The outbox to peers: messages that wait, that are being sent, and that were sent without an answer.

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row, any::AnyRow};
use svc_didcomm::{
    Message,
    delivery::{Attempt, DeliveryState, Next, Repetition, Waiting, after_attempt},
};

use super::types::{CONNECTION_COLUMNS, PeerLimits, StoredConnection};
use crate::store::{
    agent_store::{AgentStore, to_column},
    chain_rows::from_column,
    error::AgentStoreError,
};

/// A message in the outbox.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueuedMessage {
    /// Place in the order.
    pub number: i64,
    /// The connection that it goes over.
    pub connection_id: String,
    /// The message without its sender and recipient, which are those of the connection when it is sent.
    pub message: Message,
    /// Its state.
    pub waiting: Waiting,
}

/// A message that was sent once, and the step after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentMessage {
    /// Place in the order.
    pub number: i64,
    /// The step.
    pub next: Next,
}

/// Why a message does not get into the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRefusal {
    /// The connection is gone, or the peer has ended it.
    Ended,
    /// Too many messages wait for this peer.
    PeerFull,
    /// Too many messages wait for all peers.
    Full,
}

/// Puts a message behind the others of its connection; `now` in seconds since the epoch.
pub(super) async fn queue_message(
    connection: &mut AnyConnection,
    connection_id: &str,
    message: &Message,
    record_id: Option<&str>,
    now: i64,
    limits: &PeerLimits,
) -> Result<Result<(), QueueRefusal>, AgentStoreError> {
    let sql = "UPDATE peer_connection SET waiting = waiting + 1, \
               next_due = CASE WHEN next_due IS NULL OR next_due > $2 THEN $2 ELSE next_due END \
               WHERE id = $1 AND has_ended = 0 AND waiting + unanswered < $3";
    let (per_peer, max) = (to_column(limits.outbox_per_peer), to_column(limits.outbox_max));
    let counted = sqlx::query(sql).bind(connection_id.to_owned()).bind(now).bind(per_peer);
    if counted.execute(&mut *connection).await?.rows_affected() == 0 {
        let sql = "SELECT has_ended FROM peer_connection WHERE id = $1";
        let has_ended = sqlx::query_scalar(sql).bind(connection_id.to_owned()).fetch_optional(connection).await?;
        return Ok(Err(if has_ended == Some(0_i64) { QueueRefusal::PeerFull } else { QueueRefusal::Ended }));
    }
    let sql = "UPDATE peer_total SET waiting = waiting + 1, next_number = next_number + 1 WHERE waiting < $1 \
               RETURNING next_number - 1";
    let number: Option<i64> = sqlx::query_scalar(sql).bind(max).fetch_optional(&mut *connection).await?;
    let Some(number) = number else {
        let sql = "UPDATE peer_connection SET waiting = waiting - 1 WHERE id = $1";
        sqlx::query(sql).bind(connection_id.to_owned()).execute(&mut *connection).await?;
        note_next_due(connection, connection_id).await?;
        return Ok(Err(QueueRefusal::Full));
    };
    let sql = "INSERT INTO peer_message (number, id, connection_id, thread, kind, body, record_id, stored_at, due_at, sending, \
               failures, unknowns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 0, 0, 0)";
    sqlx::query(sql)
        .bind(number)
        .bind(message.id.clone())
        .bind(connection_id.to_owned())
        .bind(message.thread().to_owned())
        .bind(message.kind.clone())
        .bind(message.to_json().to_string())
        .bind(record_id.map(str::to_owned))
        .bind(now)
        .execute(connection)
        .await?;
    Ok(Ok(()))
}

/// Whether the outbox has a message with an id for a connection.
pub(super) async fn has_queued(
    connection: &mut AnyConnection,
    connection_id: &str,
    message_id: &str,
) -> Result<bool, AgentStoreError> {
    let sql = "SELECT COUNT(*) FROM peer_message WHERE connection_id = $1 AND id = $2";
    let query = sqlx::query_scalar(sql).bind(connection_id.to_owned()).bind(message_id.to_owned());
    Ok(query.fetch_one(connection).await.map(|count: i64| count > 0)?)
}

/// A later message of a thread shows that those before it have arrived.
pub(super) async fn settle_thread(
    connection: &mut AnyConnection,
    connection_id: &str,
    thread: &str,
) -> Result<(), AgentStoreError> {
    let sql = "SELECT number FROM peer_message WHERE connection_id = $1 AND thread = $2 AND unknown_since IS NOT NULL AND sending = 0 \
               AND kind <> $3";
    // The issuer repeats its credential because the acknowledgement did not arrive.
    let ack = svc_didcomm::protocol::issue_credential::ACK;
    let query = sqlx::query_scalar(sql).bind(connection_id.to_owned()).bind(thread.to_owned()).bind(ack);
    let numbers: Vec<i64> = query.fetch_all(&mut *connection).await?;
    for number in numbers {
        settle(connection, SentMessage { number, next: Next::Delivered }, 0).await?;
    }
    Ok(())
}

/// A message whose attempt is noted, with the changes of its connection's counters, which are still to be written.
struct SettledMessage {
    connection_id: String,
    waiting: i64,
    unanswered: i64,
}

/// Notes the step after an attempt, with the counters of the connection and the time of its next message.
async fn settle(connection: &mut AnyConnection, sent: SentMessage, now: i64) -> Result<(), AgentStoreError> {
    if let Some(settled) = settle_message(connection, sent, now).await? {
        let next_due = first_due(connection, &settled.connection_id).await?;
        count_settled(connection, &settled, next_due).await?;
    }
    Ok(())
}

/// Writes the counters of a connection, and the time of its next message.
async fn count_settled(
    connection: &mut AnyConnection,
    settled: &SettledMessage,
    next_due: Option<i64>,
) -> Result<(), AgentStoreError> {
    let sql = "UPDATE peer_connection SET waiting = waiting + $2, unanswered = unanswered + $3, \
               next_due = CASE WHEN has_ended = 1 THEN NULL ELSE $4 END WHERE id = $1";
    let query = sqlx::query(sql).bind(settled.connection_id.clone()).bind(settled.waiting).bind(settled.unanswered);
    query.bind(next_due).execute(connection).await?;
    Ok(())
}

/// Notes the step after an attempt on the message itself. One that was settled meanwhile stays so.
async fn settle_message(
    connection: &mut AnyConnection,
    sent: SentMessage,
    now: i64,
) -> Result<Option<SettledMessage>, AgentStoreError> {
    let is_gone = matches!(sent.next, Next::Delivered | Next::Undeliverable);
    let sql = if is_gone {
        "DELETE FROM peer_message WHERE number = $1 RETURNING connection_id, record_id, unknown_since"
    } else {
        "SELECT connection_id, record_id, unknown_since FROM peer_message WHERE number = $1"
    };
    let row = sqlx::query(sql).bind(sent.number).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(None) };
    let (connection_id, record_id): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let was_unanswered = row.try_get::<Option<i64>, _>(2)?.is_some();
    let state = match sent.next {
        Next::Delivered => DeliveryState::Delivered,
        Next::Undeliverable => DeliveryState::Undeliverable,
        Next::Unanswered => DeliveryState::Unanswered,
        Next::Again { waiting, .. } if waiting.unknown_since.is_some() => DeliveryState::Unanswered,
        Next::Again { .. } => DeliveryState::Waiting,
    };
    match sent.next {
        Next::Delivered | Next::Undeliverable => {
            sqlx::query("UPDATE peer_total SET waiting = waiting - 1").execute(&mut *connection).await?;
        }
        Next::Unanswered => {
            let sql = "UPDATE peer_message SET sending = 0, due_at = NULL, unknown_since = COALESCE(unknown_since, $2) \
                       WHERE number = $1";
            sqlx::query(sql).bind(sent.number).bind(now).execute(&mut *connection).await?;
        }
        Next::Again { at, waiting } => {
            let sql = "UPDATE peer_message SET sending = 0, due_at = $2, unknown_since = $3, failures = $4, unknowns = $5 \
                       WHERE number = $1";
            sqlx::query(sql)
                .bind(sent.number)
                .bind(at)
                .bind(waiting.unknown_since)
                .bind(i64::from(waiting.failures))
                .bind(i64::from(waiting.unknowns))
                .execute(&mut *connection)
                .await?;
        }
    }
    if let Some(record_id) = record_id {
        let sql = "UPDATE basic_message SET delivery = $2 WHERE id = $1";
        sqlx::query(sql).bind(record_id).bind(state.as_str()).execute(&mut *connection).await?;
    }
    let is_unanswered = state == DeliveryState::Unanswered;
    let waiting = i64::from(!is_gone && !is_unanswered) - i64::from(!was_unanswered);
    let unanswered = i64::from(is_unanswered) - i64::from(was_unanswered);
    Ok(Some(SettledMessage { connection_id, waiting, unanswered }))
}

/// Seconds that an attempt takes at most: two documents, and a connection and an answer of each of several endpoints.
const LONGEST_ATTEMPT: i64 = 900;

const QUEUED_COLUMNS: &str = "number, connection_id, kind, body, stored_at, unknown_since, failures, unknowns";

fn read_queued(row: &AnyRow) -> Result<QueuedMessage, AgentStoreError> {
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
    Ok(QueuedMessage { number: row.try_get("number")?, connection_id: row.try_get("connection_id")?, message, waiting })
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

/// Marks the next message of a connection as being sent, if it is due.
async fn mark_first_due(
    connection: &mut AnyConnection,
    connection_id: &str,
    now: i64,
) -> Result<Option<QueuedMessage>, AgentStoreError> {
    let sql = format!(
        "UPDATE peer_message SET sending = 1 WHERE number = ({NEXT_NUMBER}) AND due_at <= $2 RETURNING {QUEUED_COLUMNS}"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(connection_id.to_owned()).bind(now);
    query.fetch_optional(connection).await?.as_ref().map(read_queued).transpose()
}

impl AgentStore {
    /// Settles the message that was sent before, and takes the next one that is due. From then on it counts as sent with an unknown
    /// result, until it is settled: a process that ends in between does not send it twice.
    pub(crate) async fn take_next_message(
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
        let mut transaction = self.begin().await?;
        let settled = match sent {
            Some(sent) => settle_message(&mut transaction, sent, now).await?,
            None => None,
        };
        let mut counted = SettledMessage { connection_id: connection_id.to_owned(), waiting: 0, unanswered: 0 };
        match settled {
            Some(settled) if settled.connection_id == connection_id => counted = settled,
            // The connection has become a part of another one meanwhile.
            Some(settled) => {
                let next_due = first_due(&mut transaction, &settled.connection_id).await?;
                count_settled(&mut transaction, &settled, next_due).await?;
            }
            None => {}
        }
        let taken = mark_first_due(&mut transaction, connection_id, now).await?;
        let next_due = match &taken {
            // Should the session die, another one looks after the message then.
            Some(_) => Some(now + LONGEST_ATTEMPT),
            None => first_due(&mut transaction, connection_id).await?,
        };
        count_settled(&mut transaction, &counted, next_due).await?;
        transaction.commit().await?;
        Ok(taken)
    }

    /// Returns the connection that a message of the outbox goes over now.
    pub(crate) async fn connection_of_message(&self, number: i64) -> Result<Option<StoredConnection>, AgentStoreError> {
        let sql = format!(
            "SELECT {CONNECTION_COLUMNS} FROM peer_connection \
             WHERE id = (SELECT connection_id FROM peer_message WHERE number = $1)"
        );
        let row = sqlx::query(AssertSqlSafe(sql)).bind(number).fetch_optional(self.reader()).await?;
        row.as_ref().map(StoredConnection::read).transpose()
    }

    /// Settles the messages that were being sent when a session or the process ended: their result is unknown.
    pub(crate) async fn settle_interrupted(
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
            let queued = read_queued(row)?;
            let next = after_attempt(queued.waiting, Attempt::Unknown, now, max_age, 0.0);
            settle(&mut transaction, SentMessage { number: queued.number, next }, now).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Returns the connections whose next message is due, the longest due first, by their ids and the peers' DIDs.
    pub(crate) async fn due_connections(
        &self,
        now: i64,
        limit: usize,
    ) -> Result<Vec<(String, String)>, AgentStoreError> {
        let sql = "SELECT id, public_did FROM peer_connection WHERE next_due <= $1 ORDER BY next_due, id LIMIT $2";
        let rows = sqlx::query(sql).bind(now).bind(to_column(limit as u64)).fetch_all(self.reader()).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Returns the time at which the next message of any connection is due.
    pub(crate) async fn next_due(&self) -> Result<Option<i64>, AgentStoreError> {
        Ok(sqlx::query_scalar("SELECT MIN(next_due) FROM peer_connection").fetch_one(self.reader()).await?)
    }

    /// Removes messages without an answer that were stored before a time: nothing will tell of them any more.
    pub(crate) async fn forget_unanswered(&self, before: i64) -> Result<(), AgentStoreError> {
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

    /// Returns the number of messages that wait or are unanswered.
    pub(crate) async fn queued_messages(&self) -> Result<u64, AgentStoreError> {
        let waiting: i64 = sqlx::query_scalar("SELECT waiting FROM peer_total").fetch_one(self.reader()).await?;
        Ok(from_column(waiting))
    }
}

/// Notes the time at which the next message of a connection is due.
pub(super) async fn note_next_due(connection: &mut AnyConnection, id: &str) -> Result<(), AgentStoreError> {
    let next_due = first_due(connection, id).await?;
    let unchanged = SettledMessage { connection_id: id.to_owned(), waiting: 0, unanswered: 0 };
    count_settled(connection, &unchanged, next_due).await
}

/// Parses a stored answer.
pub(super) fn parse_answer(text: &str) -> Option<Message> {
    serde_json::from_str::<Value>(text).ok().and_then(|_| Message::parse(text.as_bytes()).ok())
}
