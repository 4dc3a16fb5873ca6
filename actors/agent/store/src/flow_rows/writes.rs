//! Changes of flows.

use sqlx::AnyConnection;
use svc_agent_core::peers::{PeerEvent, PeerLimits};
use svc_didcomm::{
    Message,
    flow::{FlowRecord, FlowState, Progress},
};
use svc_otel::trace;
use svc_store::StatementBatch;
use tracing::Span;

use super::{
    contents::{self, FlowContent},
    records,
};
use crate::{
    agent_store::AgentStore,
    error::{AgentStoreError, WriteFailure},
    outbox::queue_peer_events,
    peer_rows::{QueueRefusal, add_to_outbox, drop_openings, queued_for, why_refused},
    sealing::ContentKey,
};

/// A changed flow with everything that goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowWrite {
    /// The record, and the changes of its state.
    pub progress: Progress,
    /// Messages to the peer, in order.
    pub messages: Vec<Message>,
    /// Time of the next step of this agent, in milliseconds since the epoch.
    pub due_at: Option<i64>,
    /// Credentials.
    pub contents: Vec<FlowContent>,
}

impl FlowWrite {
    /// The write, with the trace that its flow belongs to: that of the first call, event or message that has prompted the present work.
    pub fn in_trace(mut self) -> Self {
        let record = &mut self.progress.record;
        if record.traceparent.is_none() {
            record.traceparent = trace::traceparent(&Span::current());
        }
        self
    }
}

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

/// Stores a flow. `thread_before` is the thread of its opening message so far.
pub async fn write_flow(
    connection: &mut AnyConnection,
    key: &ContentKey,
    write: &FlowWrite,
    thread_before: Option<&str>,
    limits: &PeerLimits,
) -> Result<WrittenFlow, FlowWriteError> {
    let record = &write.progress.record;
    let seconds = record.updated_at / 1000;
    let mut batch = StatementBatch::default();
    if let (Some(connection_id), Some(thread)) = (&record.connection_id, thread_before)
        && record.thread_id.as_deref() != thread_before
    {
        // The new opening message takes the place of the one that still waits.
        drop_openings(&mut batch, connection_id, thread, seconds);
    }
    records::put(&mut batch, record, write.due_at)?;
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

/// A flow that has begun, and the one whose place it took.
pub(super) struct WrittenBeginning {
    /// The flow.
    pub begun: WrittenFlow,
    /// The flow that it ended.
    pub replaced: Option<WrittenFlow>,
}

/// Stores a flow that begins, behind the end of the one whose place it takes.
pub(super) async fn write_beginning(
    connection: &mut AnyConnection,
    key: &ContentKey,
    (begun, replaced): (&FlowWrite, Option<&FlowWrite>),
    max_per_peer: u64,
    limits: &PeerLimits,
) -> Result<WrittenBeginning, FlowWriteError> {
    let replaced = match replaced {
        None => None,
        Some(replaced) => {
            let thread = replaced.progress.record.thread_id.as_deref();
            Some(write_flow(connection, key, replaced, thread, limits).await?)
        }
    };
    if records::count_live(connection, &begun.progress.record.peer_did).await? >= max_per_peer {
        return Err(FlowWriteError::Refused(FlowRefusal::PeerFull));
    }
    let begun = write_flow(connection, key, begun, None, limits).await?;
    Ok(WrittenBeginning { begun, replaced })
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
        let thread = record.thread_id.clone();
        let Some(write) = change(record) else { return Ok(None) };
        let written = write_flow(&mut transaction, key, &write, thread.as_deref(), limits).await?;
        transaction.commit().await?;
        Ok(Some(written))
    }

    /// Stores a flow that begins, and the end of one whose place it takes.
    pub async fn begin_flow(
        &self,
        key: &ContentKey,
        begun: &FlowWrite,
        replaced: Option<&FlowWrite>,
        max_per_peer: u64,
        limits: &PeerLimits,
    ) -> Result<WrittenFlow, FlowWriteError> {
        let mut transaction = self.begin().await?;
        let record = &begun.progress.record;
        if records::of_session(&mut transaction, &record.session_id).await?.is_some() {
            return Err(FlowWriteError::Refused(FlowRefusal::SessionTaken));
        }
        if let Some(participant) = record.applicant_participant_id {
            let known = records::of_applicant(&mut transaction, record.side, participant).await?;
            let is_replaced = |id: &str| replaced.is_some_and(|write| write.progress.record.id == id);
            if known.iter().any(|flow| !flow.state.is_terminal() && !is_replaced(&flow.id)) {
                return Err(FlowWriteError::Refused(FlowRefusal::AlreadyLive));
            }
        }
        let written = write_beginning(&mut transaction, key, (begun, replaced), max_per_peer, limits).await?;
        transaction.commit().await?;
        Ok(written.begun)
    }
}
