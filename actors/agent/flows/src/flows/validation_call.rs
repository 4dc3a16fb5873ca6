//! The call of a validator's operator that validates an applicant, or orders its credential.

use std::collections::BTreeSet;

use svc_agent_core::{
    error::{Refusal, RefusalCode},
    flows::{ValidationTerms, credential_terms, unknown_records, wrong_state},
};
use svc_agent_identity::{
    account_write::{WriteStop, WritingAccount},
    credentials::{IssueRequest, IssueStop},
    registry::NodeRegistry,
};
use svc_didcomm::flow::{
    ALREADY_ISSUED, Cause, CredentialTerms, FlowRecord, FlowState, Guard, Progress, Side, Submission, Trigger, Variant,
};
use svc_kit::wall_clock::now_millis;
use svc_trust::EssentialCredential;
use svc_wire::proto::svc::pp::v1::ParticipantRole;

use super::{
    requests::{ShownFlow, unreadable},
    service::{FlowChange, FlowService},
    steps::{StepStop, failure_of, order_refused},
};

/// Attempts of a call on a flow that changes meanwhile.
const MAX_ATTEMPTS: usize = 5;

impl FlowService {
    /// Validates the applicant of a flow, or orders its credential. The answer does not wait for a block.
    pub async fn validate(&self, session_id: &str, terms: &ValidationTerms) -> Result<ShownFlow, Refusal> {
        for _ in 0..MAX_ATTEMPTS {
            let mut record = self.flow_of(session_id).await?;
            if record.side != Side::Validator {
                return Err(wrong_state(&record));
            }
            if let Some(id) = record.applicant_participant_id {
                self.read_participant(id, 0).await.map_err(unreadable)?;
                // The flow has followed the participant, and keeps at least the height of this read.
                record = self.flow_of(session_id).await?;
            }
            let has_decision = record.variant == Variant::Onboarding && record.state != FlowState::CredOffered;
            if terms.credential != CredentialTerms::default() && !has_decision {
                let rule =
                    "this call makes no decision that could have terms: the credential is ordered, or signed already";
                return Err(Refusal::of_member(RefusalCode::InvalidTerms, "terms", rule));
            }
            let change = match (record.variant, record.state) {
                (_, FlowState::CredOffered) if record.has_failed_anchoring() => {
                    let mut progress = Progress::of(record.clone());
                    progress.go_on(now_millis());
                    progress.take(&Cause::new(Trigger::ValidateFlow, now_millis()));
                    FlowChange::of(&record, progress)
                }
                (_, FlowState::CredOffered) if record.is_blocked_as_issued() => {
                    match self.pay_once_more(&record).await? {
                        Some(change) => change,
                        None => continue,
                    }
                }
                (
                    Variant::Onboarding,
                    FlowState::OobPending | FlowState::Validating | FlowState::ValidationTxFailed,
                ) => self.decide(&record, terms).await?,
                (Variant::Direct, FlowState::OobPending) => {
                    let mut progress = Progress::of(record.clone());
                    let cause = Cause::new(Trigger::ValidateFlow, now_millis()).with_facts([Guard::TermsFit]);
                    if !progress.take(&cause) {
                        return Err(wrong_state(&record));
                    }
                    self.change_from(&record, FlowChange::of(&record, progress)).await?;
                    continue;
                }
                (Variant::Direct, FlowState::Validating)
                | (Variant::Onboarding, FlowState::ValidatedPendingClaims | FlowState::Validated)
                    if record.is_holder =>
                {
                    match self.order_credential(&record, terms).await? {
                        Some(change) => change,
                        None => continue,
                    }
                }
                _ => return Err(wrong_state(&record)),
            };
            if self.change_from(&record, change.of_call()).await? {
                return self.get(session_id).await;
            }
        }
        Err(Refusal {
            retry_after: Some(1),
            ..Refusal::new(RefusalCode::InvalidState, "the flow changes at this moment; call again")
        })
    }

    /// The decision of the operator: the agent sends the validation where its grant allows that.
    async fn decide(&self, record: &FlowRecord, terms: &ValidationTerms) -> Result<FlowChange, Refusal> {
        let account = self.account()?;
        let registry = NodeRegistry(&account);
        let id = record.applicant_participant_id.unwrap_or_default();
        let participant = registry.participant(id).await.map_err(unreadable)?;
        let participant =
            participant.ok_or_else(|| unreadable("the node does not show the applicant's participant"))?;
        let schema = registry.schema(record.schema_id).await.map_err(unreadable)?;
        let schema = schema.ok_or_else(|| unreadable("the node does not show the schema"))?;
        if record.is_holder {
            let request = IssueRequest {
                did: record.peer_did.clone(),
                schema_id: record.schema_id,
                claims: record.claims.clone().unwrap_or_default(),
                valid_until: None,
                terms: CredentialTerms::default(),
            };
            self.issuer()?.check_claims(&request, &schema).map_err(IssueStop::into_refusal)?;
        }
        let needs_end =
            matches!(self.essential(&schema), Some(EssentialCredential::Organization | EssentialCredential::Persona))
                && participant.role() == ParticipantRole::Holder
                && schema.schema.holder_validation_validity_period == 0;
        let now = now_millis();
        let seconds = account.chain_time().seconds;
        let mut validation = terms.decide(&participant, needs_end, now, seconds)?;
        let times = (validation.effective_until, seconds);
        validation.terms = credential_terms(terms.credential, record, self.essential(&schema), times)?;
        if record.is_holder && validation.op_summary_digest.is_none() {
            // It is kept here alone, and a retry without it keeps it.
            validation.op_summary_digest =
                record.validation.as_ref().and_then(|before| before.op_summary_digest.clone());
        }
        let (facts, failure) = self.choose_path(&account, record, &mut validation).await?;
        let mut progress = Progress::of(record.clone());
        progress.go_on(now);
        let cause = Cause { validation: Some(validation), failure, ..Cause::new(Trigger::ValidateFlow, now) };
        let cause = cause.with_facts(facts);
        if record.state == FlowState::OobPending && !progress.take(&cause) {
            return Err(wrong_state(record));
        }
        if !progress.take(&cause) {
            return Err(wrong_state(record));
        }
        Ok(FlowChange::of(record, progress))
    }

    /// The sender of the validation, and the failure of its simulation.
    async fn choose_path(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        validation: &mut svc_didcomm::flow::Validation,
    ) -> Result<(BTreeSet<Guard>, Option<(String, String)>), Refusal> {
        let mut facts = BTreeSet::from([Guard::TermsFit]);
        let grant = match self.validation_grant(account, record).await {
            Ok(grant) => grant,
            // An operator of the corporation sends it.
            Err(WriteStop::Blocked(_)) => return Ok((facts, None)),
            Err(stop) => return Err(unreadable(stop.reason().into_owned())),
        };
        facts.insert(Guard::GrantUsable);
        validation.submission = Submission::Agent;
        match self.preflight(account, record, &grant, validation).await {
            Ok(_) => {
                facts.insert(Guard::PreflightPassed);
                Ok((facts, None))
            }
            // A node that answers nothing has stated nothing.
            Err(WriteStop::Unanswered(reason)) => Err(unreadable(reason)),
            // The decision stands. The step that sends it is blocked with the field, and simulates it once the node takes the message.
            Err(stop) if stop.is_of_node() => {
                facts.insert(Guard::PreflightPassed);
                Ok((facts, None))
            }
            Err(stop) => {
                let mut failure = failure_of(&stop);
                if matches!(stop, WriteStop::Failed(_)) {
                    failure.0 = "PREFLIGHT_ERROR".to_owned();
                }
                Ok((facts, Some(failure)))
            }
        }
    }

    /// The flow goes on with a credential whose session has records at the node that this store does not know: the operator has seen them.
    /// Nothing where the flow has changed.
    async fn pay_once_more(&self, record: &FlowRecord) -> Result<Option<FlowChange>, Refusal> {
        if let Some(settled) = self.settle_payments(record).await.map_err(order_refused)? {
            self.change_from(record, FlowChange::of(record, Progress::of(settled))).await?;
            return Ok(None);
        }
        let account = self.account()?;
        let registry = NodeRegistry(&account);
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        let digest = record.credential.as_ref().and_then(|credential| credential.digest.as_deref());
        let is_anchored = match digest {
            Some(digest) => registry.anchored_at(digest).await.map_err(unreadable)?.is_some(),
            None => false,
        };
        // A digest that has come since was paid with one of these records.
        if let (false, Some(issuer)) = (is_anchored, record.validator_participant_id) {
            let session = registry.session(&record.session_id).await.map_err(unreadable)?;
            let record = &mut progress.record;
            record.paid_before += unknown_records(record, &record.session_id, session.as_ref(), issuer);
            let paid_before = record.paid_before;
            record.credential.iter_mut().for_each(|credential| credential.paid_before = paid_before);
        }
        Ok(Some(FlowChange::of(record, progress)))
    }

    /// The order of a credential that the registry already allows. Nothing where the flow has changed.
    async fn order_credential(
        &self,
        record: &FlowRecord,
        terms: &ValidationTerms,
    ) -> Result<Option<FlowChange>, Refusal> {
        let order = match self.order(record).await {
            Err(StepStop::Outdated) => return Err(order_refused(StepStop::Outdated)),
            order => order.map_err(order_refused)?,
        };
        if let Some(settled) = self.settle_payments(record).await.map_err(order_refused)? {
            self.change_from(record, FlowChange::of(record, Progress::of(settled))).await?;
            return Ok(None);
        }
        let other = self.has_other_issued(record, order.applicant.as_ref()).await.map_err(order_refused)?;
        let registry = order.issuer.registry();
        let session = registry.session(&record.session_id).await.map_err(unreadable)?;
        let unknown = unknown_records(record, &record.session_id, session.as_ref(), order.issuer_participant);
        let mut ordered = record.clone();
        if let Some(validation) = &mut ordered.validation {
            let now = order.issuer.account.chain_time().seconds;
            let times = (validation.effective_until, now);
            validation.terms = credential_terms(terms.credential, record, self.essential(&order.schema), times)?;
        }
        if other || unknown > 0 {
            let now = now_millis();
            let mut progress = Progress::of(record.clone());
            if !progress.may_pay_again(now) {
                self.change_from(record, FlowChange::of(record, progress)).await?;
                let message = format!(
                    "{ALREADY_ISSUED}: the node shows a credential of this validation that was paid under another session, or by another \
                     copy of this store; the same call again pays once more"
                );
                return Err(Refusal::new(RefusalCode::InvalidState, message));
            }
            // The operator has seen them: the next one is unpaid.
            ordered.paid_before += unknown;
        }
        let format = self.offer_format(record).await.map_err(order_refused)?;
        match self.offer_by(&ordered, Trigger::ValidateFlow, (&order, format)) {
            Ok(change) => change.map(Some).ok_or_else(|| wrong_state(record)),
            Err(stop) => {
                if matches!(stop, IssueStop::Refused(_)) {
                    self.await_claims(record).await?;
                }
                Err(stop.into_refusal())
            }
        }
    }

    /// A validated flow whose claims do not fit waits for others, which the operator can give it then. It stays blocked, if it is.
    async fn await_claims(&self, record: &FlowRecord) -> Result<(), Refusal> {
        let mut progress = Progress::of(record.clone());
        if progress.take(&Cause::new(Trigger::ClaimsMissing, now_millis())) {
            progress.record.blocked.clone_from(&record.blocked);
            self.change_from(record, FlowChange::of(record, progress)).await?;
        }
        Ok(())
    }
}
