//! The shared parts of everything that has to do with flows, and their changes in the store.

use std::{sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use svc_agent_core::{
    error::{AgentPart, Refusal},
    flows::{FlowContent, FlowWrite, messages_of, next_look},
};
use svc_agent_identity::{
    account_write::WritingAccount,
    credential_settings::CredentialSettings,
    credentials::{CredentialIssuer, IssuerParts},
};
use svc_agent_peers::{FlowFacts, PeerService, TrustGate};
use svc_agent_store::{AgentStore, AgentStoreError, ContentKey, FlowWriteError, WrittenFlow, guard::StoreGuardHandle};
use svc_didcomm::{
    Message,
    flow::{FlowRecord, FlowState, Progress},
};
use svc_kit::wall_clock::now_millis;
use svc_otel::{metrics, trace};
use tokio::sync::broadcast;
use tracing::{Instrument, Span};

use super::{
    claims::ClaimSources,
    hearing::{FlowHearing, FlowStateChange},
    settings::FlowSettings,
};
use crate::{
    flow_directory::{DueFlows, FlowDirectory, FlowWork, NamedParticipant, ParticipantPage},
    flow_session::{FlowSteps, StepEnd},
};

/// Takes part in flows. Clones share everything.
#[derive(Clone)]
pub struct FlowService(pub(super) Arc<FlowParts>);

/// The parts of it.
pub struct FlowParts {
    /// The settings of flows.
    pub settings: FlowSettings,
    /// The sources of claims.
    pub claims: ClaimSources,
    /// The settings of the credentials of the DID.
    pub credentials: CredentialSettings,
    /// Has the rows of flows.
    pub store: AgentStore,
    /// Knows whether the store can be written.
    pub guard: StoreGuardHandle,
    /// Sends the messages.
    pub peers: PeerService,
    /// Decides about peers.
    pub gate: TrustGate,
    /// Reads the facts of a flow, and tells of its changes.
    pub hearing: FlowHearing,
    /// Starts and ends the sessions.
    pub directory: FlowDirectory,
    /// Judges and issues the credentials.
    pub issuer: IssuerParts,
}

/// The time behind a pause, in milliseconds since the epoch.
pub(super) fn time_behind(pause: Duration) -> i64 {
    now_millis().saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX))
}

/// A change of a flow that is to be stored.
pub(super) struct FlowChange {
    pub progress: Progress,
    pub messages: Vec<Message>,
    pub contents: Vec<FlowContent>,
    /// Time of the next step; by the work of the record when absent.
    pub due_at: Option<i64>,
}

impl FlowChange {
    /// A change with the messages of its steps, which need no further parts.
    pub fn of(before: &FlowRecord, progress: Progress) -> Self {
        let messages = messages_of(Some(before), &progress, |_, _| svc_didcomm::flow::MessageParts::default());
        Self { progress, messages, contents: Vec::new(), due_at: None }
    }

    /// A change whose messages are made already.
    pub fn with_messages(progress: Progress, messages: Vec<Message>) -> Self {
        Self { progress, messages, contents: Vec::new(), due_at: None }
    }

    /// The change of a call, whose trace has everything that follows.
    pub fn of_call(mut self) -> Self {
        self.progress.record.traceparent = trace::traceparent(&Span::current());
        self
    }

    pub fn with_content(mut self, content: FlowContent) -> Self {
        self.contents.push(content);
        self
    }

    fn into_write(self, now: i64) -> FlowWrite {
        let Self { progress, messages, contents, due_at } = self;
        let due_at = due_at.or_else(|| next_look(&progress, now));
        FlowWrite { progress, messages, due_at, contents }.in_trace(trace::traceparent(&Span::current()))
    }
}

impl FlowService {
    /// The service of these parts.
    pub fn new(parts: FlowParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The work of the directory.
    pub fn to_work(&self) -> Arc<dyn FlowWork> {
        Arc::new(self.clone())
    }

    /// Sessions of flows that run.
    pub fn session_count(&self) -> usize {
        self.0.directory.session_count()
    }

    /// The changes of state from now on, of every flow. A receiver that falls behind loses the oldest ones, gets an error that says so, and
    /// has to read the flows.
    pub fn state_changes(&self) -> broadcast::Receiver<FlowStateChange> {
        self.0.hearing.state_changes()
    }

    pub(super) fn key(&self) -> &ContentKey {
        self.0.hearing.key()
    }

    /// The account on its chain.
    pub(super) fn account(&self) -> Result<WritingAccount, Refusal> {
        let missing = || Refusal::not_ready(AgentPart::Node, "the chain is not found yet", 5);
        self.0.hearing.account().ok_or_else(missing)
    }

    /// The issuer on its chain.
    pub(super) fn issuer(&self) -> Result<CredentialIssuer, Refusal> {
        Ok(self.0.issuer.on_chain(self.account()?.access))
    }

    /// Changes a flow as it stands in the store, and has its session look at it. Nothing happens where `change` returns nothing.
    pub(super) async fn change(
        &self,
        id: &str,
        change: impl FnOnce(&FlowRecord, i64) -> Option<FlowChange> + Send,
    ) -> Result<Option<WrittenFlow>, FlowWriteError> {
        let written = self.change_in_session(id, change).await?;
        self.0.directory.flows_changed(written.as_slice());
        Ok(written)
    }

    /// Changes a flow by a step of its own session, which knows of it.
    pub(super) async fn change_in_session(
        &self,
        id: &str,
        change: impl FnOnce(&FlowRecord, i64) -> Option<FlowChange> + Send,
    ) -> Result<Option<WrittenFlow>, FlowWriteError> {
        let now = now_millis();
        let limits = *self.0.peers.limits();
        let to_write = |record: FlowRecord| change(&record, now).map(|change| change.into_write(now));
        let changed = self.0.store.change_flow(self.key(), id, &limits, to_write).await;
        self.0.guard.note_result(&changed);
        let written = changed?;
        if let Some(written) = &written {
            self.announce(written).await;
        }
        Ok(written)
    }

    /// Changes a flow that is still as it was. False when it has changed meanwhile.
    pub(super) async fn change_from(&self, before: &FlowRecord, change: FlowChange) -> Result<bool, FlowWriteError> {
        let is_same = |record: &FlowRecord, _| (record == before).then_some(change);
        Ok(self.change(&before.id, is_same).await?.is_some())
    }

    /// Has a flow looked at behind a pause at the latest.
    pub(super) async fn look_within(&self, id: &str, pause: Duration) -> Result<(), AgentStoreError> {
        let at = time_behind(pause);
        self.0.store.look_at_flow_by(id, at).await?;
        self.0.directory.due_at(at);
        Ok(())
    }

    /// Stores a flow that begins.
    pub(super) async fn begin(&self, change: FlowChange) -> Result<WrittenFlow, FlowWriteError> {
        let (limits, max_per_peer) = (*self.0.peers.limits(), self.0.settings.per_peer);
        let write = change.into_write(now_millis());
        let begun = self.0.store.begin_flow(self.key(), &write, max_per_peer, &limits).await;
        self.0.guard.note_result(&begun);
        let written = begun?;
        self.announce(&written).await;
        self.0.directory.flows_changed(std::slice::from_ref(&written));
        Ok(written)
    }

    /// Tells everything that waits for a change of a flow.
    async fn announce(&self, written: &WrittenFlow) {
        let WrittenFlow { record, has_message, has_event, .. } = written;
        if *has_event {
            self.0.peers.notify_courier();
        }
        self.0.hearing.note_changes(written);
        if let (true, Some(connection_id)) = (*has_message, &record.connection_id) {
            self.0.peers.message_queued(connection_id, &record.peer_did).await;
        }
    }
}

impl FlowSteps for FlowService {
    fn step<'a>(&'a self, flow_id: &'a str, waited: Duration) -> BoxFuture<'a, StepEnd> {
        self.take_step(flow_id, waited).boxed()
    }

    fn is_at_rest(&self, flow_id: &Arc<str>, wakes: u64) {
        self.0.directory.session_is_at_rest(flow_id, wakes);
    }
}

impl FlowWork for FlowService {
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<DueFlows, AgentStoreError>> {
        async move {
            let ids = self.0.store.due_flows(now_millis(), limit).await?;
            Ok(DueFlows { ids, first_at: self.0.store.next_flow_due().await? })
        }
        .boxed()
    }

    fn wake_waiting(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.0.store.wake_waiting_flows(now_millis()).await {
                tracing::warn!(%error, "the flows that wait cannot be woken; they are looked at later");
            }
        }
        .boxed()
    }

    fn measure(&self) -> BoxFuture<'_, ()> {
        async move {
            match self.0.store.count_flows().await {
                Ok(counts) => FlowState::ALL.iter().for_each(|state| {
                    let found = counts.iter().find(|(name, _)| name == state.as_str());
                    metrics::record_flows(state.as_str(), found.map_or(0, |(_, flows)| *flows));
                }),
                Err(error) => tracing::debug!(%error, "the flows cannot be counted"),
            }
        }
        .boxed()
    }

    fn follow_participant(&self, NamedParticipant { id, height }: NamedParticipant) -> BoxFuture<'_, bool> {
        async move {
            let followed = self.read_participant(id, height).instrument(trace::participant_read_span(id)).await;
            if let Err(reason) = &followed {
                tracing::debug!(participant = id, reason, "a participant cannot be read");
            }
            followed.is_ok()
        }
        .boxed()
    }

    fn participants<'a>(&'a self, after: Option<&'a str>, is_whole: bool) -> BoxFuture<'a, Option<ParticipantPage>> {
        self.read_page(after, is_whole).boxed()
    }
}
