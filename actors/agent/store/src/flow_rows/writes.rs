//! Changes of flows.

use sqlx::AnyConnection;
use svc_agent_core::{
    flows::{FlowBefore, FlowWrite},
    peers::{PeerEvent, PeerLimits},
};
use svc_didcomm::flow::{FlowRecord, FlowState};
use svc_store::StatementBatch;

use super::{contents, records};
use crate::{
    agent_store::AgentStore,
    error::{AgentStoreError, WriteFailure},
    outbox::queue_peer_events,
    peer_rows::{QueueRefusal, add_to_outbox, drop_openings, queued_for, why_refused},
    sealing::ContentKey,
};

/// A flow that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenFlow {
    /// The record.
    pub record: FlowRecord,
    /// Whether a message was queued.
    pub has_message: bool,
    /// Whether an event was queued.
    pub has_event: bool,
    /// Time of its next step.
    pub due_at: Option<i64>,
    /// Changes of the state, in order.
    pub changes: Vec<FlowState>,
    /// The reason for which the flow waits since this change.
    pub blocked: Option<String>,
}

/// Why a flow is not stored. Nothing of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowRefusal {
    /// A message gets no place in the outbox.
    Queue(QueueRefusal),
    /// The flow has a message and no connection.
    NotConnected,
    /// Another flow has the session.
    SessionTaken,
    /// A flow of the participant has not ended.
    AlreadyLive,
    /// Too many flows of the peer have not ended.
    PeerFull,
}

/// Why the change of a flow was not stored.
#[derive(Debug, thiserror::Error)]
pub enum FlowWriteError {
    /// The store failed.
    #[error(transparent)]
    Store(AgentStoreError),
    /// The change has no place.
    #[error("the flow has no place for its change: {0:?}")]
    Refused(FlowRefusal),
}

impl<E: Into<AgentStoreError>> From<E> for FlowWriteError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

impl WriteFailure for FlowWriteError {
    fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// Stores a flow.
async fn write_flow(
    connection: &mut AnyConnection,
    key: &ContentKey,
    write: &FlowWrite,
    before: &FlowBefore,
    limits: &PeerLimits,
) -> Result<WrittenFlow, FlowWriteError> {
    let record = &write.progress.record;
    let seconds = record.updated_at / 1000;
    let mut batch = StatementBatch::default();
    if let (Some(connection_id), FlowBefore::Loaded { thread_id: Some(thread), .. }) = (&record.connection_id, before)
        && record.thread_id.as_ref() != Some(thread)
    {
        // The new opening message takes the place of the one that still waits.
        drop_openings(&mut batch, connection_id, thread, seconds);
    }
    let guarded = batch.len();
    records::put(&mut batch, record, before, write.due_at)?;
    for content in &write.contents {
        contents::put(&mut batch, key, &record.id, content)?;
    }
    if let (true, Some(connection_id), Some(thread)) =
        (record.state.is_terminal(), &record.connection_id, &record.thread_id)
    {
        drop_openings(&mut batch, connection_id, thread, seconds);
    }
    let mut places = Vec::new();
    for message in &write.messages {
        let Some(connection_id) = &record.connection_id else {
            return Err(FlowWriteError::Refused(FlowRefusal::NotConnected));
        };
        places.push(batch.len());
        add_to_outbox(&mut batch, (connection_id, message), None, seconds, limits);
    }
    let rows = batch.run(connection).await?;
    if rows[guarded].is_empty() {
        return Err(AgentStoreError::WrongFacts.into());
    }
    for place in places {
        if let (None, Some(connection_id)) = (queued_for(&rows[place..])?, &record.connection_id) {
            let refusal = why_refused(connection, connection_id, limits).await?;
            return Err(FlowWriteError::Refused(FlowRefusal::Queue(refusal)));
        }
    }
    let event = |state| PeerEvent::flow(&FlowRecord { state, ..record.clone() }, record.updated_at);
    let events: Vec<PeerEvent> = write.progress.changes.iter().copied().map(event).collect();
    queue_peer_events(connection, &events, seconds, limits.max_events).await?;
    Ok(WrittenFlow {
        record: record.clone(),
        has_message: !write.messages.is_empty(),
        has_event: limits.max_events.is_some() && !events.is_empty(),
        due_at: write.due_at,
        changes: write.progress.changes.clone(),
        blocked: record.blocked.as_ref().filter(|one| one.at == record.updated_at).map(|one| one.code.clone()),
    })
}

/// Stores the flows that a decision changes, in their order.
pub async fn write_flows(
    connection: &mut AnyConnection,
    key: &ContentKey,
    changes: &[(FlowWrite, FlowBefore)],
    limits: &PeerLimits,
) -> Result<Vec<WrittenFlow>, FlowWriteError> {
    let mut written = Vec::new();
    for (write, before) in changes {
        written.push(write_flow(connection, key, write, before, limits).await?);
    }
    Ok(written)
}

impl AgentStore {
    /// Changes a flow as it stands in the store. Nothing happens where `change` returns nothing, or the flow is not there.
    pub async fn change_flow(
        &self,
        key: &ContentKey,
        id: &str,
        limits: &PeerLimits,
        change: impl FnOnce(FlowRecord) -> Option<FlowWrite> + Send,
    ) -> Result<Option<WrittenFlow>, FlowWriteError> {
        let mut batch = StatementBatch::default();
        records::ask_of_id(&mut batch, id);
        let (mut transaction, rows) = self.begin_with(&mut batch).await?;
        let Some(row) = rows.iter().flatten().next() else { return Ok(None) };
        let record = records::read(row)?;
        let before = FlowBefore::of(&record);
        let Some(write) = change(record) else { return Ok(None) };
        let written = write_flow(&mut transaction, key, &write, &before, limits).await?;
        transaction.commit().await?;
        Ok(Some(written))
    }

    /// Stores a flow that begins.
    pub async fn begin_flow(
        &self,
        key: &ContentKey,
        begun: &FlowWrite,
        max_per_peer: u64,
        limits: &PeerLimits,
    ) -> Result<WrittenFlow, FlowWriteError> {
        let (mut batch, record) = (StatementBatch::default(), &begun.progress.record);
        records::ask_of_session(&mut batch, &record.session_id);
        records::ask_live(&mut batch, &record.peer_did);
        if let Some(participant) = record.applicant_participant_id {
            records::ask_of_applicant(&mut batch, record.side, participant);
        }
        let (mut transaction, rows) = self.begin_with(&mut batch).await?;
        let [of_session, live, of_applicant @ ..] = rows.as_slice() else {
            return Err(AgentStoreError::CorruptRow("the answers to two questions".to_owned()).into());
        };
        let live = records::read_live(live)?;
        if !of_session.is_empty() {
            return Err(FlowWriteError::Refused(FlowRefusal::SessionTaken));
        }
        if records::read_all(of_applicant)?.iter().any(|flow| !flow.state.is_terminal()) {
            return Err(FlowWriteError::Refused(FlowRefusal::AlreadyLive));
        }
        if live >= max_per_peer {
            return Err(FlowWriteError::Refused(FlowRefusal::PeerFull));
        }
        let written = write_flow(&mut transaction, key, begun, &FlowBefore::New { live }, limits).await?;
        transaction.commit().await?;
        Ok(written)
    }
}
