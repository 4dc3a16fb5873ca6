//! Basic messages as records.

use sqlx::AssertSqlSafe;
use svc_agent_core::peers::{BasicMessageFilter, PeerLimits, StoredBasicMessage};
use svc_didcomm::{Message, protocol::basic_message::BasicMessage};
use svc_store::StatementBatch;

use super::types::read_basic_message;

use super::{
    connections::Conditions,
    outbound::{QueueError, add_to_outbox, queue_message, queued_for, why_refused},
};
use crate::{agent_store::AgentStore, columns::to_column, error::AgentStoreError};

/// Removes the oldest records of a connection where a condition holds, so that one more is not beyond the limit.
pub(crate) fn forget_oldest(batch: &mut StatementBatch, connection_id: &str, max: u64, condition: &str) {
    let sql = format!(
        "DELETE FROM basic_message WHERE {condition} AND id IN \
         (SELECT id FROM basic_message WHERE connection_id = $1 ORDER BY id LIMIT COALESCE( \
         (SELECT CASE WHEN basic_messages < $2 THEN 0 ELSE basic_messages + 1 - $2 END FROM peer_connection WHERE id = $1), 0))"
    );
    batch.add(sql, [connection_id.into(), to_column(max).into()]);
}

/// Inserts a record where a condition holds. The oldest make room before it, and its connection counts it.
pub(crate) fn insert_record(batch: &mut StatementBatch, record: &StoredBasicMessage, condition: &str) {
    let sql = format!(
        "INSERT INTO basic_message (id, connection_id, role, content, sent_at, created_at, delivery) \
         SELECT $1, $2, $3, $4, $5, $6, $7 WHERE {condition}"
    );
    let delivery = record.delivery.map(|delivery| delivery.as_str().to_owned());
    batch.add(
        sql,
        [
            record.id.as_str().into(),
            record.connection_id.as_str().into(),
            record.role.as_str().into(),
            record.content.as_str().into(),
            record.sent_at.into(),
            record.created_at.into(),
            delivery.into(),
        ],
    );
}

impl AgentStore {
    /// Stores a basic message of this agent, and puts it into the outbox. Returns the DID by which its peer is known.
    pub async fn queue_basic_message(
        &self,
        record: &StoredBasicMessage,
        limits: &PeerLimits,
    ) -> Result<String, QueueError> {
        let now = record.created_at / 1000;
        let message = BasicMessage { content: record.content.clone() }.to_message(&record.id, now);
        let mut batch = StatementBatch::default();
        add_to_outbox(&mut batch, (&record.connection_id, &message), Some(record), now, limits);
        let rows = self.write(&mut batch).await?;
        if let Some(public_did) = queued_for(&rows)? {
            return Ok(public_did);
        }
        let mut reader = self.reader().acquire().await?;
        Err(QueueError::Refused(why_refused(&mut reader, &record.connection_id, limits).await?))
    }

    /// Puts a message into the outbox that has no record.
    pub async fn queue_message(
        &self,
        connection_id: &str,
        message: &Message,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<(), QueueError> {
        let mut transaction = self.begin().await?;
        let queued = queue_message(&mut transaction, connection_id, message, now, limits).await?;
        transaction.commit().await?;
        queued.require()
    }

    /// Returns basic messages in the order of their ids, behind one of them.
    pub async fn basic_messages(
        &self,
        filter: &BasicMessageFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredBasicMessage>, AgentStoreError> {
        let mut conditions = Conditions::default();
        conditions.add("connection_id = ?", filter.connection_id.as_deref());
        conditions.add("role = ?", filter.role.map(|role| role.as_str()));
        conditions.add("id > ?", after);
        let sql = format!("SELECT * FROM basic_message WHERE {} ORDER BY id LIMIT {limit}", conditions.to_sql());
        let rows = conditions.bind(sqlx::query(AssertSqlSafe(sql))).fetch_all(self.reader()).await?;
        rows.iter().map(read_basic_message).collect()
    }
}
