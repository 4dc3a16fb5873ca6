//! Messages of peers about flows: the reads of the node that they need, before their transaction.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use svc_agent_core::flows::{
    HeardFacts, PeerStanding, RequestFacts, ShownParticipant, is_own_session, is_session_id, issuance_facts,
    onboarding_facts,
};
use svc_agent_identity::{account_write::WritingAccount, chain_link::ChainLinkHandle, registry::NodeRegistry};
use svc_agent_peers::{FlowFacts, UnknownFacts};
use svc_agent_store::{AgentStore, AgentStoreError, ContentKey, WrittenFlow};
use svc_didcomm::{
    Message,
    flow::{FlowRecord, FlowState, Guard, ParticipantRead, ReportMeaning, Side, Trigger, Variant, report_meaning},
    protocol::{Content, vt_flow::VtFlow},
};
use svc_wire::timestamp;
use tokio::{sync::broadcast, time::timeout};

use super::change_notes::note_changes;
use crate::flow_directory::{FlowDirectory, NamedParticipant};

/// Longest wait for the node.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The parts of it.
pub struct HearingParts {
    /// The chain, once it is found.
    pub chain: ChainLinkHandle,
    /// Has the rows of flows.
    pub store: AgentStore,
    /// DID and corporation of this agent.
    pub own: (String, u64),
    /// Encrypts the credentials of flows in the store.
    pub key: ContentKey,
    /// Flows of one peer that have not ended.
    pub max_per_peer: u64,
    /// Starts and ends the sessions.
    pub directory: FlowDirectory,
}

/// Changes of state that a receiver may be behind.
const CHANGES: usize = 1_024;

/// A flow that has another state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowStateChange {
    /// Id of the flow.
    pub flow_id: String,
    /// Its participant session.
    pub session_id: String,
    /// Side of this agent.
    pub side: Side,
    /// The state.
    pub state: FlowState,
}

/// Hears messages about flows. Clones share everything.
#[derive(Clone)]
pub struct FlowHearing(Arc<HearingParts>, broadcast::Sender<FlowStateChange>);

impl FlowHearing {
    /// The facts of these parts, without a receiver of changes.
    pub fn new(parts: HearingParts) -> Self {
        Self(Arc::new(parts), broadcast::Sender::new(CHANGES))
    }

    /// The changes of state from now on.
    pub fn state_changes(&self) -> broadcast::Receiver<FlowStateChange> {
        self.1.subscribe()
    }

    /// Tells the log, the metrics and the receivers of a flow that has changed.
    pub fn note_changes(&self, written: &WrittenFlow) {
        note_changes(written);
        let WrittenFlow { record, changes, .. } = written;
        for state in changes {
            let (flow_id, session_id) = (record.id.clone(), record.session_id.clone());
            // There may be no receiver.
            let _ = self.1.send(FlowStateChange { flow_id, session_id, side: record.side, state: *state });
        }
    }

    /// The account of this agent on its chain, once that is found.
    pub fn account(&self) -> Option<WritingAccount> {
        let (did, corporation_id) = self.0.own.clone();
        Some(WritingAccount { store: self.0.store.clone(), access: self.0.chain.access()?, did, corporation_id })
    }

    async fn flow_of(&self, peer_did: &str, message: &Message) -> Result<Option<FlowRecord>, AgentStoreError> {
        for thread in [message.pthid.as_deref(), Some(message.thread())].into_iter().flatten() {
            if let Some(flow) = self.0.store.flow_of_thread(peer_did, thread).await? {
                return Ok(Some(flow));
            }
        }
        Ok(None)
    }

    async fn read_for(&self, peer_did: &str, message: &Message, content: &Content) -> Result<HeardFacts, UnknownFacts> {
        match content {
            Content::VtFlow(VtFlow::OnboardingRequest { participant_id, request }) => {
                let account = self.account().ok_or(UnknownFacts::Silent)?;
                let registry = NodeRegistry(&account);
                let applicant = match participant_id.parse() {
                    Ok(id) => registry.participant_with_height(id).await?,
                    Err(_) => None,
                };
                let applicant = applicant.map(|(participant, height)| ShownParticipant { participant, height });
                let validator = match &applicant {
                    Some(applicant) => registry.participant(applicant.participant.validator_participant_id).await?,
                    None => None,
                };
                let is_free = self.is_free(&account, &request.participant_session_id).await?;
                let (own, now) = (account.agent(), timestamp::unix_nanos(&account.chain_time()));
                let found = onboarding_facts((peer_did, &own), applicant.as_ref(), validator.as_ref(), is_free, now);
                Ok(heard(found, applicant.as_ref().map(ShownParticipant::to_read)))
            }
            Content::VtFlow(VtFlow::IssuanceRequest { schema_id, request }) => {
                let account = self.account().ok_or(UnknownFacts::Silent)?;
                let registry = NodeRegistry(&account);
                let schema = match schema_id.parse() {
                    Ok(id) => registry.schema(id).await?,
                    Err(_) => None,
                };
                let issuers = registry.participants(&account.did).await?;
                let is_free = self.is_free(&account, &request.participant_session_id).await?;
                let (own, now) = (account.agent(), timestamp::unix_nanos(&account.chain_time()));
                let schema = schema.as_ref().map(|schema| &schema.schema);
                Ok(heard(issuance_facts(&own, schema, &issuers, is_free, now), None))
            }
            Content::ProblemReport(report) => {
                let states_end = matches!(
                    report_meaning(report),
                    ReportMeaning::Trigger(Trigger::ReportParticipantRevoked | Trigger::ReportParticipantSlashed)
                );
                let flow = if states_end { self.flow_of(peer_did, message).await? } else { None };
                let Some(flow) = flow else { return Ok(HeardFacts::default()) };
                let account = self.account().ok_or(UnknownFacts::Silent)?;
                let registry = NodeRegistry(&account);
                let mut facts = BTreeSet::new();
                for id in [flow.applicant_participant_id, flow.validator_participant_id].into_iter().flatten() {
                    let found = registry.participant(id).await?;
                    if found.is_some_and(|one| one.revoked.is_some() || one.slashed.is_some()) {
                        facts.insert(Guard::NodeConfirms);
                    }
                }
                Ok(HeardFacts { facts, ..HeardFacts::default() })
            }
            _ => Ok(HeardFacts::default()),
        }
    }

    /// Whether a session has the form of the contract, and may be that of another flow. One of our account that this store does not know may:
    /// the store was recovered from a backup, and the flow counts the records of the session before it pays.
    async fn is_free(&self, account: &WritingAccount, session_id: &str) -> Result<bool, UnknownFacts> {
        if !is_session_id(session_id) {
            return Ok(false);
        }
        let Some(session) = NodeRegistry(account).session(session_id).await? else { return Ok(true) };
        let own = account.agent();
        Ok(is_own_session(&session, &own)
            && self.0.store.credential(&format!("{}#{session_id}", own.did)).await?.is_none())
    }
}

impl FlowFacts for FlowHearing {
    fn is_of_live_flow<'a>(
        &'a self,
        peer_did: &'a str,
        message: &'a Message,
        content: &'a Content,
    ) -> BoxFuture<'a, Result<bool, AgentStoreError>> {
        Box::pin(async move {
            let may_be =
                matches!(content, Content::VtFlow(_) | Content::IssueCredential(_) | Content::ProblemReport(_));
            let found = if may_be { self.flow_of(peer_did, message).await? } else { None };
            let is_validated_here =
                |flow: &FlowRecord| flow.side == Side::Validator && flow.variant == Variant::Onboarding;
            Ok(found.is_some_and(|flow| !flow.state.is_terminal() && is_validated_here(&flow)))
        })
    }

    fn has_flow<'a>(&'a self, peer_did: &'a str, message: &'a Message) -> BoxFuture<'a, Result<bool, AgentStoreError>> {
        Box::pin(async move { Ok(self.flow_of(peer_did, message).await?.is_some()) })
    }

    fn read<'a>(
        &'a self,
        peer_did: &'a str,
        message: &'a Message,
        content: &'a Content,
        standing: PeerStanding,
    ) -> BoxFuture<'a, Result<HeardFacts, UnknownFacts>> {
        Box::pin(async move {
            let read = timeout(MAX_WAIT, self.read_for(peer_did, message, content));
            let mut heard = read.await.unwrap_or(Err(UnknownFacts::Silent))?;
            if standing.is_trusted {
                heard.facts.insert(Guard::GatePassed);
            }
            if standing.is_trusted || standing.is_exempt {
                heard.facts.insert(Guard::GateOrExempt);
            }
            Ok(heard)
        })
    }

    fn key(&self) -> &ContentKey {
        &self.0.key
    }

    fn max_per_peer(&self) -> u64 {
        self.0.max_per_peer
    }

    fn changed(&self, flows: Vec<WrittenFlow>) {
        flows.iter().for_each(|flow| self.note_changes(flow));
        // The chain may have decided before the request came, and no event follows.
        let begun = flows.iter().filter(|flow| flow.changes.contains(&FlowState::Validating));
        let begun = begun.filter_map(|flow| flow.record.applicant_participant_id);
        self.0.directory.participants_changed(begun.map(|id| NamedParticipant { id, height: 0 }).collect());
        self.0.directory.flows_changed(&flows);
    }
}

fn heard((facts, requested): RequestFacts, read: Option<ParticipantRead>) -> HeardFacts {
    HeardFacts { facts, read, requested }
}
