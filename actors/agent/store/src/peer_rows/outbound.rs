//! The outbox to peers: a message gets its place, and later messages of its thread show that it has arrived.

use serde_json::Value;
use sqlx::{AnyConnection, Row, any::AnyRow};
use svc_agent_core::peers::{PeerLimits, StoredBasicMessage};
use svc_didcomm::{
    Message,
    protocol::vt_flow::{ISSUANCE_REQUEST, ONBOARDING_REQUEST},
};
use svc_store::StatementBatch;

use super::{
    outbox_turn::note_next_due,
    records::{forget_oldest, insert_record},
};
use crate::{
    columns::to_column,
    error::{AgentStoreError, WriteFailure},
};

/// Why a message does not get into the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRefusal {
    /// The connection is gone, or the peer has ended it.
    Ended,
    /// Too many messages wait for this peer.
    PeerFull,
    /// Too many messages wait for all peers.
    Full,
}

/// Why a message was not put into the outbox.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// It has no place there.
    #[error("the message has no place in the outbox: {0:?}")]
    Refused(QueueRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(AgentStoreError),
}

impl<E: Into<AgentStoreError>> From<E> for QueueError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl WriteFailure for QueueError {
    fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// The outcome of an attempt to put a message into the outbox, within a transaction that may have other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum QueueOutcome {
    /// The message waits there.
    Queued,
    /// It has no place there, and nothing of it is written.
    Refused(QueueRefusal),
}

impl QueueOutcome {
    /// Whether the message waits there.
    pub fn is_queued(self) -> bool {
        self == Self::Queued
    }

    /// Fails when the message has no place.
    pub fn require(self) -> Result<(), QueueError> {
        match self {
            Self::Queued => Ok(()),
            Self::Refused(refusal) => Err(QueueError::Refused(refusal)),
        }
    }
}

/// True once the message with the next number stands in the outbox.
const IS_QUEUED: &str = "EXISTS (SELECT 1 FROM peer_message WHERE number = (SELECT next_number FROM peer_total))";

/// Puts a message behind the others of its connection; `now` in seconds since the epoch.
pub async fn queue_message(
    connection: &mut AnyConnection,
    connection_id: &str,
    message: &Message,
    now: i64,
    limits: &PeerLimits,
) -> Result<QueueOutcome, AgentStoreError> {
    let mut batch = StatementBatch::default();
    add_to_outbox(&mut batch, (connection_id, message), None, now, limits);
    let rows = batch.run(connection).await?;
    Ok(match queued_for(&rows)? {
        Some(_) => QueueOutcome::Queued,
        None => QueueOutcome::Refused(why_refused(connection, connection_id, limits).await?),
    })
}

/// Puts a message into the outbox, and its record, if there is room.
pub fn add_to_outbox(
    batch: &mut StatementBatch,
    (connection_id, message): (&str, &Message),
    record: Option<&StoredBasicMessage>,
    now: i64,
    limits: &PeerLimits,
) {
    let (per_peer, max) = (to_column(limits.outbox_per_peer), to_column(limits.outbox_max));
    let sql = "INSERT INTO peer_message (number, id, connection_id, thread, kind, body, record_id, stored_at, due_at, sending, \
               failures, unknowns) SELECT next_number, $2, $1, $3, $4, $5, $6, $7, $7, 0, 0, 0 FROM peer_total \
               WHERE waiting < $8 AND EXISTS \
               (SELECT 1 FROM peer_connection AS one WHERE one.id = $1 AND has_ended = 0 AND one.waiting + unanswered < $9) \
               RETURNING number";
    let (thread, body) = (message.thread(), message.to_json().to_string());
    let record_id = record.map(|record| record.id.clone());
    batch.add(
        sql,
        [
            connection_id.into(),
            message.id.as_str().into(),
            thread.into(),
            message.kind.as_str().into(),
            body.into(),
            record_id.into(),
            now.into(),
            max.into(),
            per_peer.into(),
        ],
    );
    let mut counted = "";
    if record.is_some() {
        forget_oldest(batch, connection_id, limits.records_per_connection, IS_QUEUED);
        counted = "basic_messages = CASE WHEN basic_messages < $3 THEN basic_messages + 1 ELSE $3 END,";
    }
    let sql = format!(
        "UPDATE peer_connection SET waiting = waiting + 1, {counted} \
         next_due = CASE WHEN next_due IS NULL OR next_due > $2 THEN $2 ELSE next_due END WHERE id = $1 AND {IS_QUEUED} \
         RETURNING public_did"
    );
    let mut values = vec![connection_id.into(), now.into()];
    if let Some(record) = record {
        values.push(to_column(limits.records_per_connection).into());
        batch.add_all(sql, values);
        insert_record(batch, record, IS_QUEUED);
    } else {
        batch.add_all(sql, values);
    }
    let sql = format!("UPDATE peer_total SET waiting = waiting + 1, next_number = next_number + 1 WHERE {IS_QUEUED}");
    batch.add(sql, []);
}

/// The DID by which the peer of a queued message is known, by the rows of [`add_to_outbox`]; none when it was refused.
pub fn queued_for(rows: &[Vec<AnyRow>]) -> Result<Option<String>, AgentStoreError> {
    let counted = rows.iter().skip(1).find_map(|rows| rows.first());
    Ok(counted.map(|row| row.try_get("public_did")).transpose()?)
}

/// Why a message got no place in the outbox.
pub async fn why_refused(
    connection: &mut AnyConnection,
    connection_id: &str,
    limits: &PeerLimits,
) -> Result<QueueRefusal, AgentStoreError> {
    let sql = "SELECT has_ended, waiting + unanswered AS kept FROM peer_connection WHERE id = $1";
    let row = sqlx::query(sql).bind(connection_id.to_owned()).fetch_optional(connection).await?;
    let Some(row) = row else { return Ok(QueueRefusal::Ended) };
    let (has_ended, kept): (i64, i64) = (row.try_get("has_ended")?, row.try_get("kept")?);
    Ok(match has_ended {
        0 if kept < to_column(limits.outbox_per_peer) => QueueRefusal::Full,
        0 => QueueRefusal::PeerFull,
        _ => QueueRefusal::Ended,
    })
}

/// Whether the outbox has a message with an id for a connection.
pub(crate) async fn has_queued(
    connection: &mut AnyConnection,
    connection_id: &str,
    message_id: &str,
) -> Result<bool, AgentStoreError> {
    let sql = "SELECT COUNT(*) FROM peer_message WHERE connection_id = $1 AND id = $2";
    let query = sqlx::query_scalar(sql).bind(connection_id.to_owned()).bind(message_id.to_owned());
    Ok(query.fetch_one(connection).await.map(|count: i64| count > 0)?)
}

/// A later message of a thread shows that those before it have arrived.
pub(crate) fn settle_thread(batch: &mut StatementBatch, connection_id: &str, thread: &str, now: i64) {
    // The issuer repeats its credential because the acknowledgement did not arrive.
    let ack = svc_didcomm::protocol::issue_credential::ACK;
    let arrived = "FROM peer_message WHERE connection_id = $1 AND thread = $2 AND unknown_since IS NOT NULL AND sending = 0 AND kind <> $3";
    let sql = [
        format!("UPDATE basic_message SET delivery = 'delivered' WHERE id IN (SELECT record_id {arrived})"),
        format!("UPDATE peer_connection SET unanswered = unanswered - (SELECT COUNT(*) {arrived}) WHERE id = $1"),
        format!("UPDATE peer_total SET waiting = waiting - (SELECT COUNT(*) {arrived})"),
        format!("DELETE {arrived}"),
    ];
    for sql in sql {
        batch.add(sql, [connection_id.into(), thread.into(), ack.into()]);
    }
    note_next_due(batch, connection_id, now);
}

/// Removes the opening messages of a flow that has ended before they were sent. One that is being sent stays.
pub fn drop_openings(batch: &mut StatementBatch, connection_id: &str, thread: &str, now: i64) {
    let openings = "FROM peer_message WHERE connection_id = $1 AND thread = $2 AND kind IN ($3, $4) AND sending = 0";
    let sql = [
        format!(
            "UPDATE peer_connection SET waiting = waiting - (SELECT COUNT(*) {openings} AND unknown_since IS NULL), \
             unanswered = unanswered - (SELECT COUNT(*) {openings} AND unknown_since IS NOT NULL) WHERE id = $1"
        ),
        format!("UPDATE peer_total SET waiting = waiting - (SELECT COUNT(*) {openings})"),
        format!("DELETE {openings}"),
    ];
    for sql in sql {
        batch.add(sql, [connection_id.into(), thread.into(), ONBOARDING_REQUEST.into(), ISSUANCE_REQUEST.into()]);
    }
    note_next_due(batch, connection_id, now);
}

/// Parses a stored answer.
pub(crate) fn parse_answer(text: &str) -> Option<Message> {
    serde_json::from_str::<Value>(text).ok().and_then(|_| Message::parse(text.as_bytes()).ok())
}
