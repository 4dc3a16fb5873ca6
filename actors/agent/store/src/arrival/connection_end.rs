//! The end of a connection whose peer gives up its DID.

use sqlx::any::AnyRow;
use svc_agent_core::peers::{ConnectionEnd, ConnectionsOf, EndOutcome, PeerLimits, StoredConnection};
use svc_didcomm::from_prior::FromPrior;
use svc_store::StatementBatch;

use super::values::ArrivalError;
use crate::{
    agent_store::AgentStore,
    decision::{Decided, StoredDecision},
    error::AgentStoreError,
    peer_rows::{connections::ask_connections, types::read_connection},
};

impl StoredDecision for ConnectionEnd {
    type Key = ();

    fn ask(query: &ConnectionsOf, batch: &mut StatementBatch) {
        ask_connections(batch, &[&query.did]);
    }

    fn read(_query: &ConnectionsOf, rows: &[Vec<AnyRow>], _key: &()) -> Result<Vec<StoredConnection>, AgentStoreError> {
        rows.iter().flatten().map(read_connection).collect()
    }
}

impl AgentStore {
    /// Ends the connection whose peer gives up its DID. Returns whether an event was queued.
    pub async fn end_connection(
        &self,
        recipient: &str,
        prior: &FromPrior,
        now: i64,
        limits: &PeerLimits,
    ) -> Result<bool, ArrivalError> {
        let facts = ConnectionEnd { recipient: recipient.to_owned(), prior: prior.clone(), now };
        let Decided { outcome, has_event } = self.decide(facts.start(), now / 1000, limits).await?;
        match outcome {
            EndOutcome::Ended | EndOutcome::EndedBefore => Ok(has_event),
            EndOutcome::Refused(refusal) => Err(ArrivalError::Refused(refusal)),
        }
    }
}
