//! The validation that the agent sends itself.

use std::time::Duration;

use prost::Message as _;
use prost_types::{Any, Timestamp};
use svc_agent_core::{
    grant::{BlockedReason, WantedGrant},
    journal_key::validation_key,
};
use svc_agent_identity::{
    account_write::{AccountWrite, Block, Payment, WriteStop, WritingAccount},
    grant::AgentGrant,
    registry::NodeRegistry,
};
use svc_didcomm::flow::{Cause, FlowRecord, Progress, Trigger, Validation};
use svc_kit::wall_clock::now_millis;
use svc_otel::trace;
use svc_pipeline::EncodedMessage;
use svc_wire::proto::svc::pp::v1::MsgSetParticipantOpToValidated;

use super::{
    anchor::UNDECIDED_PAUSE,
    outcome::{Done, StepStop, blocked_by},
};
use crate::flows::service::{FlowChange, FlowService};

/// Pause between two looks at the node.
pub(super) const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The write of one attempt.
fn attempt<'a>(account: &'a WritingAccount, record: &FlowRecord, number: u32) -> AccountWrite<'a> {
    AccountWrite {
        account,
        key: validation_key(&record.session_id, record.round.number, number),
        origin: "flow",
        allows_repetition: false,
    }
}

/// The message of a validation.
fn message_of(
    account: &WritingAccount,
    grant: &AgentGrant,
    (applicant, is_holder): (u64, bool),
    validation: &Validation,
) -> EncodedMessage {
    let fees = validation.fees;
    // The chain refuses it for a HOLDER.
    let summary = validation.op_summary_digest.clone().filter(|_| !is_holder);
    let validated = MsgSetParticipantOpToValidated {
        corporation: grant.corporation.clone(),
        operator: account.pipeline().identity().address.to_string(),
        id: applicant,
        effective_until: validation.effective_until.map(|seconds| Timestamp { seconds, nanos: 0 }),
        validation_fees: fees.validation_fees,
        issuance_fees: fees.issuance_fees,
        verification_fees: fees.verification_fees,
        op_summary_digest: summary.unwrap_or_default(),
        issuance_fee_discount: fees.issuance_fee_discount,
        verification_fee_discount: fees.verification_fee_discount,
    };
    let type_url = account.access.chain.registry.namespace().type_url("pp", "MsgSetParticipantOPToValidated");
    EncodedMessage { message: Any { type_url, value: validated.encode_to_vec() }, needs_grant: true }
}

/// A reason of the contract for a transaction that was not sent or failed, and the failure in words.
pub(in crate::flows) fn failure_of(stop: &WriteStop) -> (String, String) {
    let (reason, text) = match stop {
        WriteStop::Blocked(Block { reason, .. }) => {
            let code = match reason {
                BlockedReason::NoFees => "INSUFFICIENT_FUNDS_AGENT",
                BlockedReason::NoFunds => "INSUFFICIENT_FUNDS_CORPORATION",
                BlockedReason::NoGrant | BlockedReason::GrantExpired | BlockedReason::NoParticipant => {
                    "AUTHORIZATION_EXPIRED"
                }
                BlockedReason::FeeAboveCeiling
                | BlockedReason::SignedFieldDiffers(_)
                | BlockedReason::ChainChanged(_) => "PREFLIGHT_ERROR",
            };
            (code, blocked_by(reason).1.to_owned())
        }
        WriteStop::Failed(reason) if reason.contains(" was expired") => ("TX_NOT_FOUND", reason.clone()),
        WriteStop::Failed(reason) | WriteStop::Unanswered(reason) => ("TX_FAILED", reason.clone()),
    };
    (reason.to_owned(), text)
}

impl FlowService {
    /// The grant to send a validation. [`WriteStop::Blocked`] where the account may not.
    pub(in crate::flows) async fn validation_grant(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
    ) -> Result<AgentGrant, WriteStop> {
        let Some(id) = record.validator_participant_id else { return Err(BlockedReason::NoParticipant.into()) };
        let participant = NodeRegistry(account).participant(id).await?;
        let participant = participant.ok_or(BlockedReason::NoParticipant)?;
        account.read_grant(&WantedGrant::to_validate(record.schema_id, id, participant.role())).await
    }

    /// Shows by a simulation that a validation would succeed, and chooses its payer.
    pub(in crate::flows) async fn preflight(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        grant: &AgentGrant,
        validation: &Validation,
    ) -> Result<Payment, WriteStop> {
        let applicant = record.applicant_participant_id.unwrap_or_default();
        let message = message_of(account, grant, (applicant, record.is_holder), validation);
        attempt(account, record, validation.attempts).choose_payer(&message, grant).await
    }

    /// Sends the validation of the record, or finds the block of an earlier attempt.
    pub(super) async fn send_validation(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let account = self.account()?;
        let validation = record.validation.clone().ok_or(StepStop::Outdated)?;
        let applicant = record.applicant_participant_id.ok_or(StepStop::Outdated)?;
        let hash = match self.validation_tx(&account, record, (&validation, applicant)).await {
            Ok(Some(hash)) => hash,
            Ok(None) => return Ok(Done::Later(UNDECIDED_PAUSE)),
            // Without an answer nothing is proven, and a node that reads the message otherwise has refused nothing.
            Err(stop) if stop.is_of_node() => return Err(stop.into()),
            Err(stop) => return self.fail_validation(record, &stop).await,
        };
        if validation.tx.as_ref().is_none_or(|tx| tx.hash.as_ref() != Some(&hash)) {
            let mut progress = Progress::of(record.clone());
            if let Some(tx) = progress.record.validation.as_mut().and_then(|validation| validation.tx.as_mut()) {
                tx.hash = Some(hash);
            }
            progress.record.updated_at = now_millis();
            return self.finish(record, FlowChange::of(record, progress)).await;
        }
        // The block has it: the node shows the validation with the next read.
        self.read_participant(applicant, 0).await.map_err(StepStop::Failed)?;
        Ok(Done::Later(LOOK_PAUSE))
    }

    /// The transaction of a validation: that of an earlier attempt, or one that is sent now. Nothing while one is not decided.
    pub(super) async fn validation_tx(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        (validation, applicant): (&Validation, u64),
    ) -> Result<Option<String>, WriteStop> {
        let write = attempt(account, record, validation.attempts);
        let silent = |_: String| {};
        match write.find_earlier(&silent).await {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            Err(_) => return Ok(None),
        }
        let grant = self.validation_grant(account, record).await?;
        let message = message_of(account, &grant, (applicant, record.is_holder), validation);
        let sent = match write.choose_payer(&message, &grant).await {
            Ok(payment) => {
                let span = trace::flow_validation_span(&account.did, &record.id);
                write.send(message, payment, &span, &silent).await
            }
            // Nothing was sent.
            Err(stop) => Err(stop),
        };
        let Err(stop) = sent else { return sent.map(Some) };
        // The chain may have it all the same, or another has sent it.
        self.read_participant(applicant, 0).await.map_err(WriteStop::Unanswered)?;
        match write.find_earlier(&silent).await {
            Ok(None) => Err(stop),
            Ok(found) => Ok(found),
            Err(_) => Ok(None),
        }
    }

    /// The validation is on no block, and will be on none.
    async fn fail_validation(&self, record: &FlowRecord, stop: &WriteStop) -> Result<Done, StepStop> {
        let attempt_of = |record: &FlowRecord| record.validation.as_ref().map(|validation| validation.attempts);
        // The read of the participant has changed the record too.
        let change = |found: &FlowRecord, now: i64| {
            let mut progress = Progress::of(found.clone());
            let cause = Cause { failure: Some(failure_of(stop)), ..Cause::new(Trigger::ValidationFailed, now) };
            let has_failed = attempt_of(found) == attempt_of(record) && progress.take(&cause);
            has_failed.then(|| FlowChange::of(found, progress))
        };
        let failed = self.change_in_session(&record.id, change).await?;
        if failed.is_some() { Ok(Done::Changed) } else { Err(StepStop::Outdated) }
    }
}
