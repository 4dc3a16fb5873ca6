//! Connections: reads with filters, the one that a DID belongs to, and changes.

use sqlx::{Any, AnyConnection, AssertSqlSafe, any::AnyArguments, query::Query};
use svc_agent_core::peers::{ConnectionFilter, OwnPeerDid, PeerEvent, PeerLimits, StoredConnection, Verdict};
use svc_didcomm::{
    connection::Connection,
    peer_did::{comparable, is_same_did},
};
use svc_store::StatementBatch;

use super::types::read_connection;

use super::outbox_turn::note_next_due;
use super::types::CONNECTION_COLUMNS;
use crate::{
    agent_store::AgentStore,
    columns::to_column,
    error::AgentStoreError,
    outbox::{placeholders, queue_peer_events},
    sealing::PrivateKey,
};

/// Connections that know one DID, which are read at once.
const MAX_OF_ONE_DID: usize = 10_000;

/// Conditions of a statement with their values, in order.
#[derive(Default)]
pub struct Conditions {
    texts: Vec<String>,
    pub values: Vec<String>,
}

impl Conditions {
    /// Adds a condition in which `?` is the value.
    pub fn add(&mut self, condition: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            self.texts.push(condition.replace('?', &format!("${}", self.values.len())));
        }
    }

    /// Adds a condition without a value.
    pub fn add_fixed(&mut self, condition: &str) {
        self.texts.push(condition.to_owned());
    }

    /// The text behind WHERE.
    pub fn to_sql(&self) -> String {
        if self.texts.is_empty() { "1 = 1".to_owned() } else { self.texts.join(" AND ") }
    }

    /// Binds the values.
    pub fn bind<'q>(&self, query: Query<'q, Any, AnyArguments>) -> Query<'q, Any, AnyArguments> {
        self.values.iter().fold(query, |query, value| query.bind(value.clone()))
    }
}

impl AgentStore {
    /// Returns a connection.
    pub async fn connection(&self, id: &str) -> Result<Option<StoredConnection>, AgentStoreError> {
        let sql = format!("SELECT {CONNECTION_COLUMNS} FROM peer_connection WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(id.to_owned()).fetch_optional(self.reader()).await?;
        row.as_ref().map(read_connection).transpose()
    }

    /// Returns connections in the order of their ids, behind one of them.
    pub async fn connections(
        &self,
        filter: &ConnectionFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredConnection>, AgentStoreError> {
        let mut conditions = Conditions::default();
        conditions.add("id > ?", after);
        conditions.add("out_of_band_id = ?", filter.out_of_band_id.as_deref());
        conditions.add("parent_id = ?", filter.parent_id.as_deref());
        conditions.add("role = ?", filter.role.map(|role| role.as_str()));
        conditions.add("our_did = ?", filter.did.as_deref());
        conditions.add("our_did = ?", filter.invitation_did.as_deref());
        if filter.invitation_did.is_some() {
            conditions.add_fixed("out_of_band_id IS NOT NULL");
        }
        conditions.add("thread_id = ?", filter.thread_id.as_deref());
        let known = "id IN (SELECT connection_id FROM peer_did WHERE did = ?)";
        conditions.add(known, filter.their_did.as_deref().map(comparable));
        if let Some(has_ended) = filter.has_ended {
            conditions.add_fixed(if has_ended { "has_ended = 1" } else { "has_ended = 0" });
        }
        // A DID has few connections, and not all that know it are of the filter.
        let rows = if filter.their_did.is_some() { MAX_OF_ONE_DID } else { limit };
        let sql = format!(
            "SELECT {CONNECTION_COLUMNS} FROM peer_connection WHERE {} ORDER BY id LIMIT {rows}",
            conditions.to_sql()
        );
        let rows = conditions.bind(sqlx::query(AssertSqlSafe(sql))).fetch_all(self.reader()).await?;
        let found: Vec<StoredConnection> = rows.iter().map(read_connection).collect::<Result<_, _>>()?;
        // The filter names the present DID or the first one, and the index has all of them.
        let has_did = |one: &StoredConnection, did: &str| {
            is_same_did(&one.connection.their_did, did) || is_same_did(&one.connection.public_did, did)
        };
        Ok(match &filter.their_did {
            None => found,
            Some(did) => found.into_iter().filter(|one| has_did(one, did)).take(limit).collect(),
        })
    }

    /// Returns the connections of one of our DIDs that know one of these DIDs of peers.
    pub async fn connections_with(&self, dids: &[&str]) -> Result<Vec<StoredConnection>, AgentStoreError> {
        let mut connection = self.reader().acquire().await?;
        connections_with(&mut connection, dids).await
    }

    /// Returns the connection with a peer, by the DID that it is known by, which is none of an invitation.
    pub async fn connection_with_peer(&self, public_did: &str) -> Result<Option<StoredConnection>, AgentStoreError> {
        let found = self.connections_with(&[public_did]).await?;
        let is_wanted = |one: &StoredConnection| {
            is_same_did(&one.connection.public_did, public_did) && one.out_of_band_id.is_none()
        };
        Ok(found.into_iter().find(is_wanted))
    }

    /// Stores a connection with its event. The one that is there with the same peer is returned instead.
    pub async fn add_connection_with_event(
        &self,
        added: &StoredConnection,
        limits: &PeerLimits,
    ) -> Result<StoredConnection, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let known = connections_with(&mut transaction, &[&added.connection.public_did]).await?;
        let is_same = |one: &StoredConnection| {
            is_same_did(&one.connection.public_did, &added.connection.public_did) && one.out_of_band_id.is_none()
        };
        if let Some(known) = known.into_iter().find(is_same) {
            return Ok(known);
        }
        let mut batch = StatementBatch::default();
        insert_connection(&mut batch, added, 0);
        batch.run(&mut transaction).await?;
        let event = PeerEvent::connection(added);
        queue_peer_events(&mut transaction, &[event], added.created_at / 1000, limits.max_events).await?;
        transaction.commit().await?;
        Ok(added.clone())
    }

    /// Removes a connection with everything that belongs to it. False when there is none.
    pub async fn remove_connection(&self, id: &str) -> Result<bool, AgentStoreError> {
        let mut transaction = self.begin().await?;
        let removed = delete_connection(&mut transaction, id).await?;
        transaction.commit().await?;
        Ok(removed)
    }

    /// Stores a DID for an invitation with its private key.
    pub async fn add_own_peer_did(
        &self,
        did: &str,
        added: &OwnPeerDid,
        key: &PrivateKey,
        now: i64,
    ) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "INSERT INTO private_key (name, version, sealed) VALUES ($1, $2, $3)";
        sqlx::query(sql)
            .bind(key.name.clone())
            .bind(to_column(key.version))
            .bind(self.keys().seal(did, key)?)
            .execute(&mut *transaction)
            .await?;
        let sql = "INSERT INTO own_peer_did (did, long_did, out_of_band_id, parent_id, created_at) VALUES ($1, $2, $3, $4, $5)";
        sqlx::query(sql)
            .bind(added.short.clone())
            .bind(added.long.clone())
            .bind(added.out_of_band_id.clone())
            .bind(added.parent_id.clone())
            .bind(now)
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    /// Returns a DID of an invitation, with its private key.
    pub async fn own_peer_did(
        &self,
        did: &str,
        short: &str,
    ) -> Result<Option<(OwnPeerDid, PrivateKey)>, AgentStoreError> {
        use sqlx::Row;
        let sql = "SELECT long_did, out_of_band_id, parent_id, sealed FROM own_peer_did \
                   JOIN private_key ON name = did WHERE did = $1 AND version = 1";
        let row = sqlx::query(sql).bind(short.to_owned()).fetch_optional(self.reader()).await?;
        let Some(row) = row else { return Ok(None) };
        let sealed: String = row.try_get("sealed")?;
        let found = OwnPeerDid {
            short: short.to_owned(),
            long: row.try_get("long_did")?,
            out_of_band_id: row.try_get("out_of_band_id")?,
            parent_id: row.try_get("parent_id")?,
        };
        Ok(Some((found, self.keys().open(did, short, 1, &sealed)?)))
    }
}

/// The connections that know one of these DIDs.
pub(crate) async fn connections_with(
    connection: &mut AnyConnection,
    dids: &[&str],
) -> Result<Vec<StoredConnection>, AgentStoreError> {
    let mut batch = StatementBatch::default();
    ask_connections(&mut batch, dids);
    let rows = batch.run(connection).await?;
    rows.iter().flatten().map(read_connection).collect()
}

/// Asks for the connections that know one of these DIDs.
pub(crate) fn ask_connections(batch: &mut StatementBatch, dids: &[&str]) {
    let sql = format!(
        "SELECT {CONNECTION_COLUMNS} FROM peer_connection WHERE id IN \
         (SELECT connection_id FROM peer_did WHERE did IN ({})) ORDER BY created_at, id",
        placeholders(dids.len(), 1)
    );
    batch.add_all(sql, dids.iter().map(|did| comparable(did).into()).collect());
}

/// Adds a connection that begins with a number of basic messages.
pub(crate) fn insert_connection(batch: &mut StatementBatch, added: &StoredConnection, basic_messages: i64) {
    let sql = "INSERT INTO peer_connection (id, role, our_did, their_did, public_did, previous, has_ended, thread_id, \
               out_of_band_id, parent_id, trusted, judged_at, last_seen_at, waiting, unanswered, basic_messages, created_at, \
               updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, $14, $15, $16)";
    let Connection { id, our_did, their_did, previous, public_did, has_ended } = &added.connection;
    batch.add(
        sql,
        [
            id.as_str().into(),
            added.role.as_str().into(),
            our_did.as_str().into(),
            their_did.as_str().into(),
            public_did.as_str().into(),
            serde_json::json!(previous).to_string().into(),
            i64::from(*has_ended).into(),
            added.thread_id.clone().into(),
            added.out_of_band_id.clone().into(),
            added.parent_id.clone().into(),
            added.verdict.map(|verdict| i64::from(verdict.is_trusted)).into(),
            added.verdict.map(|verdict| verdict.at).into(),
            added.last_seen_at.into(),
            basic_messages.into(),
            added.created_at.into(),
            added.updated_at.into(),
        ],
    );
    write_known_dids(batch, &added.connection);
}

/// Writes the DIDs of a connection, and when it was last seen. A basic message that is stored with it is counted, up to a limit.
pub(crate) fn update_connection(
    batch: &mut StatementBatch,
    changed: &Connection,
    verdict: Option<Verdict>,
    now: i64,
    has_changed: bool,
    record_limit: Option<u64>,
) {
    let sql = "UPDATE peer_connection SET their_did = $2, previous = $3, has_ended = $4, last_seen_at = $5, \
               trusted = COALESCE($6, trusted), judged_at = COALESCE($7, judged_at), \
               updated_at = CASE WHEN $8 = 1 THEN $5 ELSE updated_at END, basic_messages = CASE WHEN $9 IS NULL THEN basic_messages \
               WHEN basic_messages < $9 THEN basic_messages + 1 ELSE $9 END WHERE id = $1";
    batch.add(
        sql,
        [
            changed.id.as_str().into(),
            changed.their_did.as_str().into(),
            serde_json::json!(changed.previous).to_string().into(),
            i64::from(changed.has_ended).into(),
            now.into(),
            verdict.map(|verdict| i64::from(verdict.is_trusted)).into(),
            verdict.map(|verdict| verdict.at).into(),
            i64::from(has_changed).into(),
            record_limit.map(to_column).into(),
        ],
    );
    if has_changed {
        write_known_dids(batch, changed);
    }
}

/// Ends a connection that has not ended, and that was not changed since `loaded_at`; returns no row of another one.
pub(crate) fn end_connection(batch: &mut StatementBatch, id: &str, loaded_at: i64, at: i64) {
    let sql = "UPDATE peer_connection SET has_ended = 1, last_seen_at = $2, updated_at = $2 \
               WHERE id = $1 AND has_ended = 0 AND updated_at = $3 RETURNING id";
    batch.add(sql, [id.into(), at.into(), loaded_at.into()]);
}

fn write_known_dids(batch: &mut StatementBatch, of: &Connection) {
    batch.add("DELETE FROM peer_did WHERE connection_id = $1", [of.id.as_str().into()]);
    for did in of.known_dids() {
        let sql = "INSERT INTO peer_did (did, connection_id) VALUES ($1, $2)";
        batch.add(sql, [did.into(), of.id.as_str().into()]);
    }
}

/// Moves everything of one connection to another, and removes it; `now` in seconds since the epoch.
pub(crate) fn merge_connections(batch: &mut StatementBatch, kept: &str, dropped: &str, now: i64) {
    let sql = "DELETE FROM credential_exchange WHERE connection_id = $2 AND thread_id IN \
               (SELECT thread_id FROM credential_exchange WHERE connection_id = $1)";
    batch.add(sql, [kept.into(), dropped.into()]);
    for table in ["basic_message", "peer_message", "credential_exchange", "flow"] {
        let sql = format!("UPDATE {table} SET connection_id = $1 WHERE connection_id = $2");
        batch.add(sql, [kept.into(), dropped.into()]);
    }
    let sql = "UPDATE peer_connection SET \
               waiting = waiting + (SELECT waiting FROM peer_connection WHERE id = $2), \
               unanswered = unanswered + (SELECT unanswered FROM peer_connection WHERE id = $2), \
               basic_messages = basic_messages + (SELECT basic_messages FROM peer_connection WHERE id = $2) WHERE id = $1";
    batch.add(sql, [kept.into(), dropped.into()]);
    note_next_due(batch, kept, now);
    for sql in ["DELETE FROM peer_did WHERE connection_id = $1", "DELETE FROM peer_connection WHERE id = $1"] {
        batch.add(sql, [dropped.into()]);
    }
}

async fn delete_connection(connection: &mut AnyConnection, id: &str) -> Result<bool, AgentStoreError> {
    let sql = "UPDATE peer_total SET waiting = waiting - (SELECT COUNT(*) FROM peer_message WHERE connection_id = $1)";
    sqlx::query(sql).bind(id.to_owned()).execute(&mut *connection).await?;
    let removed =
        sqlx::query("DELETE FROM peer_connection WHERE id = $1").bind(id.to_owned()).execute(&mut *connection).await?;
    for table in ["peer_did", "peer_message", "basic_message", "credential_exchange"] {
        let sql = format!("DELETE FROM {table} WHERE connection_id = $1");
        sqlx::query(AssertSqlSafe(sql)).bind(id.to_owned()).execute(&mut *connection).await?;
    }
    let sql = "UPDATE flow SET connection_id = NULL, connection_state = 'TERMINATED' WHERE connection_id = $1";
    sqlx::query(sql).bind(id.to_owned()).execute(&mut *connection).await?;
    Ok(removed.rows_affected() == 1)
}
