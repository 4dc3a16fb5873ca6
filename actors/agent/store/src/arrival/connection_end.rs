//! The end of a connection whose peer gives up its DID.

use svc_agent_core::peers::{PeerEvent, PeerLimits, StoredConnection};
use svc_didcomm::{
    connection::{Connection, end},
    from_prior::FromPrior,
};
use svc_store::StatementBatch;

use super::values::ArrivalError;
use crate::{
    agent_store::AgentStore,
    outbox::queue_peer_events,
    peer_rows::connections::{connections_with, update_connection},
};

impl AgentStore {
    /// Ends the connection whose peer gives up its DID. Returns whether an event was queued.
    pub async fn end_connection(
        &self,
        recipient: &str,
        prior: &FromPrior,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<bool, ArrivalError> {
        let mut transaction = self.begin().await?;
        let stored = connections_with(&mut transaction, &[&prior.issuer]).await?;
        let known: Vec<Connection> = stored.iter().map(|one| one.connection.clone()).collect();
        let ended = end(&known, recipient, prior, now / 1000).map_err(ArrivalError::Refused)?;
        let before = stored.into_iter().find(|one| one.connection.id == ended.id);
        let Some(before) = before.filter(|before| !before.connection.has_ended) else { return Ok(false) };
        let mut batch = StatementBatch::default();
        update_connection(&mut batch, &ended, None, now, true, None);
        batch.run(&mut transaction).await?;
        let after = StoredConnection { connection: ended, updated_at: now, last_seen_at: Some(now), ..before };
        queue_peer_events(&mut transaction, &[PeerEvent::connection(&after)], now / 1000, limits.max_events).await?;
        transaction.commit().await?;
        Ok(limits.max_events.is_some())
    }
}
