//! Grants as rows: reads, lists and revocations.

use sqlx::AssertSqlSafe;
use svc_agent_core::{
    access::{GrantState, StoredGrant},
    peers::{PeerEvent, PeerLimits},
};
use svc_didcomm::protocol::endpoint_access::{AccessRevocation, frame_message};
use uuid::Uuid;

use super::types::read_grant;

use super::types::COLUMNS;
use crate::{
    agent_store::AgentStore,
    columns::to_column,
    error::AgentStoreError,
    outbox::queue_peer_events,
    peer_rows::{Conditions, queue_message},
};

/// Grants of one transaction.
const REVOKED_AT_ONCE: usize = 100;
/// Time for which a grant that has ended is listed, in seconds.
const KEPT_AFTER_END: i64 = 7 * 24 * 3600;
/// Seconds for which the notice of a revocation is worth sending.
const NOTICE_SECONDS: i64 = 900;

/// A selection of grants.
#[derive(Debug, Clone, Default)]
pub struct AccessGrantFilter {
    /// DID of the peer.
    pub peer: Option<String>,
    /// DID URL of the service entry.
    pub endpoint: Option<String>,
    /// State.
    pub state: Option<GrantState>,
}

/// The end of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RevokedGrants {
    /// The grants, as they are now.
    pub grants: Vec<StoredGrant>,
    /// Whether an event was queued.
    pub has_event: bool,
}

impl AgentStore {
    /// Returns grants in the order of their ids, which is that of their beginnings, behind one of them. `now` is in seconds since the
    /// epoch.
    pub async fn access_grants(
        &self,
        filter: &AccessGrantFilter,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Result<Vec<StoredGrant>, AgentStoreError> {
        let mut conditions = Conditions::default();
        conditions.add("id > ?", after);
        conditions.add("peer = ?", filter.peer.as_deref());
        conditions.add("endpoint = ?", filter.endpoint.as_deref());
        match filter.state {
            None => {}
            Some(GrantState::Active) => conditions.add_fixed(&format!("revoked_at IS NULL AND expires_at > {now}")),
            Some(GrantState::Expired) => conditions.add_fixed(&format!("revoked_at IS NULL AND expires_at <= {now}")),
            Some(GrantState::Revoked) => conditions.add_fixed("revoked_at IS NOT NULL"),
        }
        let (condition, limit) = (conditions.to_sql(), to_column(limit as u64));
        let sql = format!("SELECT {COLUMNS} FROM access_grant WHERE {condition} ORDER BY id LIMIT {limit}");
        let rows = conditions.bind(sqlx::query(AssertSqlSafe(sql))).fetch_all(self.reader()).await?;
        rows.iter().map(read_grant).collect()
    }

    /// Returns a grant.
    pub async fn access_grant(&self, id: &str) -> Result<Option<StoredGrant>, AgentStoreError> {
        let sql = format!("SELECT {COLUMNS} FROM access_grant WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(id.to_owned()).fetch_optional(self.reader()).await?;
        row.as_ref().map(read_grant).transpose()
    }

    /// Takes valid grants back. The notice for each peer goes into the outbox, and the event for the receiver, with the row. Grants that
    /// are not valid any more stay as they are.
    pub async fn revoke_grants(
        &self,
        ids: &[String],
        reason: &str,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<RevokedGrants, AgentStoreError> {
        let mut revoked = RevokedGrants::default();
        for ids in ids.chunks(REVOKED_AT_ONCE) {
            let mut transaction = self.begin().await?;
            let mut events = Vec::new();
            for id in ids {
                let sql = format!(
                    "UPDATE access_grant SET revoked_at = $2, reason = $3 WHERE id = $1 AND revoked_at IS NULL AND expires_at > $2 \
                     RETURNING {COLUMNS}"
                );
                let query = sqlx::query(AssertSqlSafe(sql)).bind(id.clone()).bind(now).bind(reason.to_owned());
                let Some(row) = query.fetch_optional(&mut *transaction).await? else { continue };
                let grant = read_grant(&row)?;
                let notice = AccessRevocation {
                    id: grant.request_id.clone(),
                    endpoint: grant.endpoint.clone(),
                    reason: Some(reason.to_owned()),
                };
                let (id, end) = (Uuid::new_v4().to_string(), Some(now + NOTICE_SECONDS));
                let message = frame_message(&id, &notice.to_content(), None, now, end);
                // Without room for the notice the grant ends all the same: the list says so.
                let _ = queue_message(&mut transaction, &grant.connection_id, &message, now, limits).await?;
                events.push(PeerEvent::access_grant(&grant, now));
                revoked.grants.push(grant);
            }
            queue_peer_events(&mut transaction, &events, now, limits.max_events).await?;
            revoked.has_event |= limits.max_events.is_some() && !events.is_empty();
            transaction.commit().await?;
        }
        Ok(revoked)
    }

    /// Removes grants that ended long ago.
    pub async fn forget_old_grants(&self, now: i64) -> Result<(), AgentStoreError> {
        let mut transaction = self.begin().await?;
        let sql = "DELETE FROM access_grant WHERE expires_at < $1";
        sqlx::query(sql).bind(now - KEPT_AFTER_END).execute(&mut *transaction).await?;
        Ok(transaction.commit().await?)
    }
}
