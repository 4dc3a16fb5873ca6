//! Exchanges of credentials outside of flows.

use sqlx::{AnyConnection, AssertSqlSafe};
use svc_agent_core::peers::{ExchangeFilter, ExchangeState, PeerEvent, PeerLimits, StoredExchange};
use svc_didcomm::Message;
use svc_store::StatementBatch;

use super::types::read_exchange;

use super::{
    connections::Conditions,
    outbound::{QueueError, queue_message},
};
use crate::{agent_store::AgentStore, columns::to_column, error::AgentStoreError, outbox::queue_peer_events};

/// The exchange of a thread.
pub(crate) async fn exchange_of_thread(
    connection: &mut AnyConnection,
    connection_id: &str,
    thread: &str,
) -> Result<Option<StoredExchange>, AgentStoreError> {
    let sql = "SELECT * FROM credential_exchange WHERE connection_id = $1 AND thread_id = $2";
    let query = sqlx::query(sql).bind(connection_id.to_owned()).bind(thread.to_owned());
    query.fetch_optional(connection).await?.as_ref().map(read_exchange).transpose()
}

/// Exchanges of one connection.
const MAX_EXCHANGES: i64 = 200;

/// Makes room for another exchange of a connection: the oldest that has ended goes. False when none has.
pub(crate) async fn make_room(connection: &mut AnyConnection, connection_id: &str) -> Result<bool, AgentStoreError> {
    let sql = "SELECT COUNT(*) FROM credential_exchange WHERE connection_id = $1";
    let count: i64 = sqlx::query_scalar(sql).bind(connection_id.to_owned()).fetch_one(&mut *connection).await?;
    if count < MAX_EXCHANGES {
        return Ok(true);
    }
    let sql = "DELETE FROM credential_exchange WHERE id IN (SELECT id FROM credential_exchange WHERE connection_id = $1 \
               AND state IN ('done', 'declined', 'abandoned') ORDER BY updated_at, id LIMIT 1)";
    let removed = sqlx::query(sql).bind(connection_id.to_owned()).execute(connection).await?;
    Ok(removed.rows_affected() == 1)
}

/// Stores an exchange, in the place of its earlier state.
pub(crate) fn put_exchange(batch: &mut StatementBatch, exchange: &StoredExchange) {
    let sql = "INSERT INTO credential_exchange (id, connection_id, thread_id, parent_thread_id, state, role, format, schema_id, offer, \
               credential, error, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, 'holder', $6, $7, $8, $9, $10, $11, $12) \
               ON CONFLICT (id) DO UPDATE SET state = $5, format = $6, schema_id = $7, offer = $8, credential = $9, error = $10, \
               updated_at = $12";
    batch.add(
        sql,
        [
            exchange.id.as_str().into(),
            exchange.connection_id.as_str().into(),
            exchange.thread_id.as_str().into(),
            exchange.parent_thread_id.clone().into(),
            exchange.state.as_str().into(),
            exchange.format.as_str().into(),
            exchange.schema_id.map(to_column).into(),
            exchange.offer.to_string().into(),
            exchange.credential.as_ref().map(ToString::to_string).into(),
            exchange.error.clone().into(),
            exchange.created_at.into(),
            exchange.updated_at.into(),
        ],
    );
}

impl AgentStore {
    /// Returns an exchange.
    pub async fn exchange(&self, id: &str) -> Result<Option<StoredExchange>, AgentStoreError> {
        let query = sqlx::query("SELECT * FROM credential_exchange WHERE id = $1").bind(id.to_owned());
        query.fetch_optional(self.reader()).await?.as_ref().map(read_exchange).transpose()
    }

    /// Returns exchanges in the order of their ids, behind one of them.
    pub async fn exchanges(
        &self,
        filter: &ExchangeFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredExchange>, AgentStoreError> {
        let mut conditions = Conditions::default();
        conditions.add("connection_id = ?", filter.connection_id.as_deref());
        conditions.add("thread_id = ?", filter.thread_id.as_deref());
        conditions.add("state = ?", filter.state.map(|state| state.as_str()));
        conditions.add("id > ?", after);
        let sql = format!("SELECT * FROM credential_exchange WHERE {} ORDER BY id LIMIT {limit}", conditions.to_sql());
        let rows = conditions.bind(sqlx::query(AssertSqlSafe(sql))).fetch_all(self.reader()).await?;
        rows.iter().map(read_exchange).collect()
    }

    /// Moves an exchange out of a state, with its message and its event. False when another caller was faster.
    pub async fn move_exchange(
        &self,
        from: ExchangeState,
        exchange: &StoredExchange,
        message: &Message,
        event: Option<PeerEvent>,
        limits: &PeerLimits,
    ) -> Result<bool, QueueError> {
        let mut transaction = self.begin().await?;
        let sql = "SELECT * FROM credential_exchange WHERE id = $1";
        let row = sqlx::query(sql).bind(exchange.id.clone()).fetch_optional(&mut *transaction).await?;
        let present = row.as_ref().map(read_exchange).transpose()?;
        if present.is_none_or(|present| present.state != from) {
            return Ok(false);
        }
        let now = exchange.updated_at / 1000;
        queue_message(&mut transaction, &exchange.connection_id, message, now, limits).await?.require()?;
        let mut batch = StatementBatch::default();
        put_exchange(&mut batch, exchange);
        batch.run(&mut transaction).await?;
        queue_peer_events(&mut transaction, event.as_slice(), now, limits.max_events).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Removes an exchange. False when there is none.
    pub async fn remove_exchange(&self, id: &str) -> Result<bool, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM credential_exchange WHERE id = $1").bind(id.to_owned());
        let removed = removed.execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(removed == 1)
    }
}
