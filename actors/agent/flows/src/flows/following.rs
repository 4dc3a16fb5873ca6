//! Participants that the node shows, and the flows that follow them.

use serde_json::{Map, Value};
use svc_agent_core::{
    flows::{BLOCKED_PAUSE, ShownParticipant},
    participant::state_of,
};
use svc_agent_identity::{account_write::WritingAccount, credential_settings::CredentialMode, registry::NodeRegistry};
use svc_agent_store::{FlowFilter, FlowRefusal, FlowWriteError, QueueRefusal};
use svc_didcomm::flow::{FlowRecord, FlowState, OnboardingState, Progress, Side, Trigger, next_work};
use svc_kit::wall_clock::now_millis;
use svc_wire::{proto::svc::pp::v1::Participant, timestamp};

use super::{
    chain::{Application, ApplicationError, NoApplication, ReadContext, after_read},
    service::{FlowChange, FlowService},
    steps::Opening,
};
use crate::flow_directory::ParticipantPage;

/// Flows of a page whose participants are read.
const PAGE: usize = 100;

/// States whose flows wait for nothing on the chain but a renewal or an end, which events announce.
fn is_at_rest(flow: &FlowRecord) -> bool {
    matches!(flow.state, FlowState::Completed | FlowState::CredRevoked)
        || (flow.state == FlowState::Validated && !flow.is_holder)
}

/// Whether a flow has begun for this state of a participant: one that has ended is opened again by the operator alone.
fn is_known(known: &[FlowRecord], shown: &ShownParticipant) -> bool {
    let changed_at = shown.to_read().changed_at;
    known.iter().any(|flow| flow.round.changed_at == changed_at)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl FlowService {
    /// The participants of a page of the flows that have not ended; with the first page those of our DID that wait for a validation.
    pub(super) async fn read_page(&self, after: Option<&str>, is_whole: bool) -> Option<ParticipantPage> {
        let filter = FlowFilter { is_live: Some(true), ..FlowFilter::default() };
        let flows = self.0.store.flows(&filter, after, PAGE).await.ok()?;
        let mut ids: Vec<u64> = Vec::new();
        if after.is_none() {
            let account = self.0.hearing.account()?;
            let own = NodeRegistry(&account).participants(&account.did).await.ok()?;
            let waits = |one: &&Participant| self.begins_by_itself(&account, one);
            ids.extend(own.iter().filter(waits).map(|one| one.id));
        }
        for flow in flows.iter().filter(|flow| is_whole || !is_at_rest(flow)) {
            // A flow without an onboarding ends with the participant of its issuer.
            ids.extend(flow.applicant_participant_id.or(flow.validator_participant_id));
        }
        ids.sort_unstable();
        ids.dedup();
        let next = (flows.len() == PAGE).then(|| flows.last().map(|flow| flow.id.clone())).flatten();
        Some(ParticipantPage { ids, next })
    }

    /// Whether a participant of our DID may begin a flow without a call.
    fn begins_by_itself(&self, account: &WritingAccount, one: &Participant) -> bool {
        let shown = ShownParticipant { participant: one.clone(), height: 0 };
        let read = shown.to_read();
        let is_wanted = one.did == account.did && !read.is_revoked && !read.is_slashed;
        is_wanted && (read.state == OnboardingState::Pending || self.lacks_parent_credential(one))
    }

    /// Whether a participant is that of the service credential of this agent's parent.
    fn lacks_parent_credential(&self, one: &Participant) -> bool {
        // The flow itself judges schema and validator before anything is sent.
        let is_delegated = matches!(self.0.credentials.mode, CredentialMode::Delegated { .. });
        let shown = ShownParticipant { participant: one.clone(), height: 0 };
        is_delegated && shown.to_read().state == OnboardingState::Validated
    }

    /// Reads a participant at the node, and has its flows follow. Fails in words when node or store do not answer, and when the state of the
    /// node is below a height.
    pub(super) async fn read_participant(&self, id: u64, least_height: u64) -> Result<(), String> {
        let account = self.0.hearing.account().ok_or("the chain is not found yet")?;
        let found = NodeRegistry(&account).participant_with_height(id).await.map_err(words)?;
        // An answer that it is not there names no height.
        let height = found.as_ref().map_or_else(|| account.pipeline().clock().height, |(_, height)| *height);
        if height < least_height {
            return Err(format!("the node is at height {height}, and the event at {least_height}"));
        }
        let Some((participant, _)) = found else { return Ok(()) };
        let shown = ShownParticipant { participant, height };
        for side in [Side::Applicant, Side::Validator] {
            let flows = self.0.store.flows_of_applicant(side, id).await.map_err(words)?;
            if side == Side::Applicant {
                self.follow_application(&account, &shown, &flows).await?;
            }
            for (place, flow) in flows.iter().enumerate() {
                let may_follow = !flow.state.is_terminal() || flow.state == FlowState::TerminatedByValidator;
                if may_follow {
                    self.follow(&account, flow, Some(&shown), place == 0).await?;
                }
            }
        }
        self.follow_own_end(&account, &shown).await
    }

    /// Ends the flows under a participant of ours that was taken away.
    async fn follow_own_end(&self, account: &WritingAccount, shown: &ShownParticipant) -> Result<(), String> {
        let read = shown.to_read();
        if shown.participant.did != account.did || !(read.is_revoked || read.is_slashed) {
            return Ok(());
        }
        let filter = FlowFilter {
            side: Some(Side::Validator),
            validator_participant_id: Some(shown.participant.id),
            is_live: Some(true),
            ..FlowFilter::default()
        };
        let mut after: Option<String> = None;
        loop {
            let flows = self.0.store.flows(&filter, after.as_deref(), PAGE).await.map_err(words)?;
            for flow in flows.iter().filter(|flow| !is_at_rest(flow)) {
                self.follow(account, flow, None, true).await?;
            }
            match flows.last() {
                Some(last) if flows.len() == PAGE => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Has one flow follow its participants. `applicant` is read where it is not there yet.
    async fn follow(
        &self,
        account: &WritingAccount,
        flow: &FlowRecord,
        applicant: Option<&ShownParticipant>,
        is_newest: bool,
    ) -> Result<(), String> {
        let registry = NodeRegistry(account);
        let to_shown = |(participant, height)| ShownParticipant { participant, height };
        let applicant = match (applicant, flow.applicant_participant_id) {
            (Some(applicant), _) => Some(applicant.clone()),
            (None, Some(id)) => registry.participant_with_height(id).await.map_err(words)?.map(to_shown),
            (None, None) => None,
        };
        let validator = match (flow.side, flow.validator_participant_id) {
            (Side::Validator, Some(id)) => registry.participant_with_height(id).await.map_err(words)?.map(to_shown),
            _ => None,
        };
        let renews = flow.side == Side::Applicant
            && applicant.as_ref().is_some_and(|applicant| {
                let read = applicant.to_read();
                read.state == OnboardingState::Pending && read.changed_at > flow.round.changed_at
            });
        let mut context = ReadContext { is_newest, now: now_millis(), ..ReadContext::default() };
        let mut held_up = None;
        if renews {
            match self.judge_opening(account, flow, true).await {
                Ok(Opening { claims, connection }) => {
                    (context.is_gate_passed, context.claims) = (true, claims);
                    // The connection of the last round may have ended.
                    context.connection_id = Some(connection.connection.id);
                }
                Err(stop) => held_up = Some(stop.into_notice()),
            }
        }
        let change = |record: &FlowRecord, now: i64, has_outbox: bool| {
            let followed = after_read(record, applicant.as_ref(), validator.as_ref(), &context);
            let (mut progress, mut messages) = match followed {
                Some(followed) => followed,
                None => (Progress::of(record.clone()), Vec::new()),
            };
            match &held_up {
                Some((code, text)) => progress.wait_for(code, text, now),
                // The renewal that was held up is not wanted any more.
                None if record.side == Side::Applicant && next_work(&progress.record).is_none() => progress.go_on(now),
                None => {}
            }
            if !has_outbox {
                messages.clear();
            }
            // The height of a read alone is worth a write while the flow is under way.
            let is_height_alone =
                progress.changes.is_empty() && progress.record.blocked == record.blocked && messages.is_empty();
            let differs = progress.record != *record && !(is_at_rest(record) && is_height_alone);
            differs.then(|| FlowChange::with_messages(progress, messages))
        };
        match self.change(&flow.id, |record, now| change(record, now, renews || record.connection_id.is_some())).await {
            Ok(_) => Ok(()),
            // The chain's fact counts without a word to a peer that has gone. An opening message is one that has to get there.
            Err(FlowWriteError::Refused(FlowRefusal::Queue(QueueRefusal::Ended))) if !renews => {
                self.change(&flow.id, |record, now| change(record, now, false)).await.map(drop).map_err(words)
            }
            // It is read again when there may be a place.
            Err(FlowWriteError::Refused(_)) => self.look_within(&flow.id, BLOCKED_PAUSE).await.map_err(words),
            Err(FlowWriteError::Store(error)) => Err(words(error)),
        }
    }

    /// Begins the flow of an application of ours that the node shows.
    async fn follow_application(
        &self,
        account: &WritingAccount,
        shown: &ShownParticipant,
        known: &[FlowRecord],
    ) -> Result<(), String> {
        if shown.participant.did != account.did {
            return Ok(());
        }
        let trigger = match shown.to_read().state {
            OnboardingState::Pending => Trigger::ChainPending,
            // An agent that depends on another asks it for the credential that it lacks.
            OnboardingState::Validated
                if !is_known(known, shown) && self.awaits_parent(account, &shown.participant).await? =>
            {
                Trigger::FlowsOpen
            }
            _ => return Ok(()),
        };
        match self.begin_application(account, shown, known, trigger, None).await {
            Ok(_) | Err(ApplicationError::NotBegun(NoApplication::LateRead | NoApplication::Unmet(_))) => Ok(()),
            // The next reading of all finds it again; the participants behind it do not wait for a place.
            Err(ApplicationError::NotBegun(NoApplication::Refused(refusal))) => {
                tracing::warn!(participant = shown.participant.id, ?refusal, "an application begins no flow");
                Ok(())
            }
            Err(ApplicationError::Failed(reason)) => Err(reason),
        }
    }

    /// Whether the service credential of the parent is missing, and this participant is the one that gets it.
    async fn awaits_parent(&self, account: &WritingAccount, one: &Participant) -> Result<bool, String> {
        let CredentialMode::Delegated { parent, .. } = &self.0.credentials.mode else { return Ok(false) };
        let now = timestamp::unix_nanos(&account.chain_time());
        if state_of(one, now) != svc_wire::participant_state::ParticipantState::Active {
            return Ok(false);
        }
        let held = self.0.store.held_credentials().await.map_err(words)?;
        if held.iter().any(|held| held.schema_id == one.schema_id) {
            return Ok(false);
        }
        let registry = NodeRegistry(account);
        let validator = registry.participant(one.validator_participant_id).await.map_err(words)?;
        if validator.is_none_or(|validator| validator.did != *parent) {
            return Ok(false);
        }
        let schema = registry.schema(one.schema_id).await.map_err(words)?;
        let essential = schema.and_then(|schema| self.essential(&schema));
        Ok(essential == Some(svc_trust::EssentialCredential::Service))
    }

    /// Begins the flow of an application.
    pub(super) async fn begin_application(
        &self,
        account: &WritingAccount,
        shown: &ShownParticipant,
        known: &[FlowRecord],
        trigger: Trigger,
        claims: Option<Map<String, Value>>,
    ) -> Result<FlowRecord, ApplicationError> {
        let registry = NodeRegistry(account);
        let validator = registry.participant(shown.participant.validator_participant_id).await;
        let Some(validator) = validator.map_err(|error| ApplicationError::Failed(words(error)))? else {
            let unmet = NoApplication::Unmet(svc_didcomm::flow::Guard::OwnParticipant);
            return Err(ApplicationError::NotBegun(unmet));
        };
        let now = now_millis();
        let (own_did, validator) = (account.did.as_str(), &validator);
        let application = Application { own_did, applicant: shown, validator, known, claims, now };
        let progress = application.begin(trigger).map_err(ApplicationError::NotBegun)?;
        match self.begin(FlowChange::with_messages(progress, Vec::new())).await {
            Ok(written) => Ok(written.record),
            Err(FlowWriteError::Refused(refusal)) => Err(ApplicationError::NotBegun(NoApplication::Refused(refusal))),
            Err(FlowWriteError::Store(error)) => Err(ApplicationError::Failed(words(error))),
        }
    }
}
