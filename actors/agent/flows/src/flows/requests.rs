//! Requests of callers about flows.

use serde_json::{Map, Value};
use svc_agent_core::{
    error::{Refusal, RefusalCode},
    flows::{ShownParticipant, flow_json, messages_of, unanswered_json},
};
use svc_agent_identity::registry::NodeRegistry;
use svc_agent_store::{FlowFilter, FlowRefusal, FlowWriteError, QueueRefusal, store_failed};
use svc_didcomm::flow::{Cause, FlowRecord, Guard, NewFlow, Side, Trigger, Variant, begin};
use svc_kit::wall_clock::now_millis;
use svc_wire::proto::svc::cs::v1::HolderOnboardingMode;
use uuid::Uuid;

use super::{
    calls::{FlowCall, check_claims},
    chain::{ApplicationError, NoApplication},
    claims::{ClaimsStop, WantedSchema},
    service::{FlowChange, FlowService},
    steps::{is_issuer, order_refused},
};

/// A flow that a caller opens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowRequest {
    /// A participant of this agent's DID that waits for its validation, or for its credential.
    pub participant_id: Option<u64>,
    /// DID of an issuer, for a credential without an onboarding.
    pub did: Option<String>,
    /// Its schema.
    pub schema_id: Option<u64>,
    /// Claims of the credential.
    pub claims: Option<Map<String, Value>>,
}

/// A flow as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownFlow {
    /// Id of the record; the order of the ids is that of their beginnings.
    pub id: String,
    /// The record.
    pub record: Value,
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Refusal {
    Refusal {
        retry_after: Some(5),
        ..Refusal::new(RefusalCode::ResolverUnavailable, format!("the registry cannot be read: {error}"))
    }
}

fn invalid(path: &str, rule: &str) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, path, rule)
}

impl FlowService {
    /// Returns flows in the order of their beginnings, behind one of them.
    pub async fn list(
        &self,
        filter: &FlowFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ShownFlow>, Refusal> {
        let found = self.0.store.flows(filter, after, limit).await.map_err(|error| store_failed(&error))?;
        let mut shown = Vec::with_capacity(found.len());
        for record in &found {
            shown.push(self.show(record).await?);
        }
        Ok(shown)
    }

    /// Returns the flow of a session, its present one or one of before.
    pub async fn get(&self, session_id: &str) -> Result<ShownFlow, Refusal> {
        self.show(&self.flow_of(session_id).await?).await
    }

    /// The record as callers see it: also the last message to the peer, where its arrival is not known.
    async fn show(&self, record: &FlowRecord) -> Result<ShownFlow, Refusal> {
        let mut shown = flow_json(record, now_millis());
        if let (Some(connection_id), Some(thread)) = (&record.connection_id, &record.thread_id) {
            let exchange = record.exchange.as_ref().map_or(thread, |exchange| &exchange.thread);
            let found = self.0.store.unanswered_message(connection_id, [thread, exchange]).await;
            if let Some(message) = found.map_err(|error| store_failed(&error))? {
                shown["unanswered"] = unanswered_json(&message);
            }
        }
        Ok(ShownFlow { id: record.id.clone(), record: shown })
    }

    pub(super) async fn flow_of(&self, session_id: &str) -> Result<FlowRecord, Refusal> {
        let found = self.0.store.flow_of_session(session_id).await.map_err(|error| store_failed(&error))?;
        let unknown = || Refusal::new(RefusalCode::UnknownId, format!("no flow has the session {session_id:?}"));
        found.ok_or_else(unknown)
    }

    /// Performs a call on a flow.
    pub async fn call(&self, session_id: &str, call: &FlowCall) -> Result<ShownFlow, Refusal> {
        call.check()?;
        let record = self.flow_of(session_id).await?;
        let mut shown = None;
        if let (true, Some(id)) = (call.needs_read(&record), record.applicant_participant_id) {
            let account = self.account()?;
            let found = NodeRegistry(&account).participant_with_height(id).await.map_err(unreadable)?;
            shown = found.map(|(participant, height)| ShownParticipant { participant, height });
            if shown.is_none() {
                return Err(unreadable("the node does not show the applicant's participant"));
            }
        }
        let mut refusal = None;
        let change = |found: &FlowRecord, now: i64| {
            let end = call.perform(found, shown.as_ref(), now);
            refusal = end.refusal;
            end.change.map(|(progress, messages)| FlowChange::with_messages(progress, messages).of_call())
        };
        match self.change(&record.id, change).await {
            // An end needs no word to a peer that has gone.
            Err(FlowWriteError::Refused(FlowRefusal::NotConnected | FlowRefusal::Queue(QueueRefusal::Ended)))
                if matches!(call, FlowCall::End { .. } | FlowCall::Reject { .. }) =>
            {
                let silently = |found: &FlowRecord, now: i64| {
                    let (progress, _) = call.perform(found, shown.as_ref(), now).change?;
                    Some(FlowChange::with_messages(progress, Vec::new()))
                };
                self.change(&record.id, silently).await?;
            }
            changed => drop(changed?),
        }
        match refusal {
            Some(refusal) => Err(refusal),
            None => self.get(session_id).await,
        }
    }

    /// Opens a flow of this agent as applicant.
    pub async fn open(&self, request: FlowRequest) -> Result<ShownFlow, Refusal> {
        if let Some(claims) = &request.claims {
            let mut violations = Vec::new();
            check_claims(&mut violations, claims);
            if let Some(first) = violations.first() {
                let message = format!("{}: {}", first.path, first.message);
                return Err(Refusal { violations, ..Refusal::new(RefusalCode::InvalidInput, message) });
            }
        }
        match (request.participant_id, &request.did, request.schema_id) {
            (Some(id), None, None) => self.open_onboarding(id, request.claims).await,
            (None, Some(did), Some(schema_id)) => self.open_issuance(did, schema_id, request.claims).await,
            (Some(_), _, _) => Err(invalid("participantId", "it stands alone; did and schemaId ask for an issuance")),
            (None, Some(_), None) => Err(invalid("schemaId", "it is missing")),
            (None, None, _) => Err(invalid("participantId", "it is missing, or did and schemaId are")),
        }
    }

    async fn open_onboarding(&self, id: u64, claims: Option<Map<String, Value>>) -> Result<ShownFlow, Refusal> {
        let account = self.account()?;
        let found = NodeRegistry(&account).participant_with_height(id).await.map_err(unreadable)?;
        let own = found.filter(|(participant, _)| participant.did == account.did);
        let Some((participant, height)) = own else {
            return Err(Refusal::new(RefusalCode::UnknownId, format!("this agent's DID has no participant {id}")));
        };
        let shown = ShownParticipant { participant, height };
        let known = self.0.store.flows_of_applicant(Side::Applicant, id).await.map_err(|error| store_failed(&error))?;
        let begun = self.begin_application(&account, &shown, &known, Trigger::FlowsOpen, claims).await;
        match begun {
            Ok(record) => self.show(&record).await,
            Err(ApplicationError::Failed(reason)) => Err(unreadable(reason)),
            Err(ApplicationError::NotBegun(NoApplication::Refused(refusal))) => {
                Err(FlowWriteError::Refused(refusal).into())
            }
            Err(ApplicationError::NotBegun(NoApplication::LateRead)) => {
                Err(unreadable("the node lags behind an earlier read"))
            }
            Err(ApplicationError::NotBegun(NoApplication::Unmet(guard))) => {
                let reason = match guard {
                    Guard::NoLiveFlow => "a flow of the participant has not ended",
                    Guard::OpensWithoutEvent => {
                        "the participant is neither PENDING nor a validated HOLDER without its credential"
                    }
                    Guard::SelfValidated => "the validator is this agent itself",
                    _ => "the registry does not show its validator",
                };
                Err(Refusal::new(RefusalCode::InvalidState, format!("{reason}; no flow is opened")))
            }
        }
    }

    async fn open_issuance(
        &self,
        did: &str,
        schema_id: u64,
        claims: Option<Map<String, Value>>,
    ) -> Result<ShownFlow, Refusal> {
        let account = self.account()?;
        let schema = NodeRegistry(&account).schema(schema_id).await.map_err(unreadable)?;
        let Some(schema) = schema.filter(|schema| schema.schema.archived.is_none()) else {
            return Err(invalid("schemaId", "the registry has no such schema in use"));
        };
        if schema.schema.holder_onboarding_mode() != HolderOnboardingMode::Permissionless {
            let message = format!("holders of schema {schema_id} need an onboarding: start it by a participant");
            return Err(Refusal::new(RefusalCode::InvalidState, message));
        }
        if !is_issuer(&account, did, schema_id).await.map_err(order_refused)? {
            let message = format!("{did} has no active ISSUER participant of schema {schema_id}");
            return Err(Refusal::new(RefusalCode::PeerNotAuthorized, message));
        }
        self.require_verdict(did).await.map_err(order_refused)?;
        let connection = self.0.peers.open_connection(did).await?;
        let essential = self.essential(&schema);
        let wanted = WantedSchema { id: schema_id, essential, json_schema: &schema.schema.json_schema };
        let claims = self.opening_claims(claims.as_ref(), wanted).await.map_err(|stop| match stop {
            ClaimsStop::Unanswered(_) => {
                Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, stop.to_string()) }
            }
            _ => Refusal::new(RefusalCode::InvalidClaims, format!("the claims cannot be used: {stop}")),
        })?;
        let new = NewFlow {
            id: Uuid::now_v7().to_string(),
            side: Side::Applicant,
            variant: Variant::Direct,
            peer_did: did.to_owned(),
            connection_id: Some(connection.connection.id),
            schema_id,
            applicant_participant_id: None,
            validator_participant_id: None,
            is_holder: true,
            session_id: Uuid::new_v4().to_string(),
            claims,
            proofs: None,
        };
        let cause = Cause { new_id: Uuid::new_v4().to_string(), ..Cause::new(Trigger::FlowsRequest, now_millis()) };
        let facts = [Guard::Permissionless, Guard::PeerIssuerActive, Guard::GatePassed];
        let refused = |_| Refusal::new(RefusalCode::InvalidState, "the flow cannot begin");
        let progress = begin(new, &cause.with_facts(facts)).map_err(refused)?;
        let messages = messages_of(None, &progress, |_, _| svc_didcomm::flow::MessageParts::default());
        let written = self.begin(FlowChange::with_messages(progress, messages)).await?;
        self.show(&written.record).await
    }
}
