//! The transactions of a flow whose blocks the chain has lost: each is looked for at the node, and sent again where the node lacks its effect.

use std::time::Duration;

use svc_agent_core::flows::{BLOCKED_PAUSE, ShownParticipant};
use svc_agent_identity::{
    account_write::{WriteStop, WritingAccount},
    registry::NodeRegistry,
};
use svc_didcomm::flow::{FlowCredential, FlowRecord, Progress};
use svc_kit::wall_clock::now_millis;

use super::{
    anchor::{DIGEST_PAUSE, Paid, UNDECIDED_PAUSE, session_write},
    outcome::{Done, StepStop},
    validate::{LOOK_PAUSE, failure_of},
};
use crate::flows::service::{FlowChange, FlowService};

impl FlowService {
    /// Looks for the validation of the flow, then for its credentials, one at a time.
    pub(super) async fn look_again(&self, record: &FlowRecord, waited: Duration) -> Result<Done, StepStop> {
        let account = self.account()?;
        if record.lacks_validation() {
            return self.look_for_validation(&account, record).await;
        }
        let credential = record.unproven_credential().ok_or(StepStop::Outdated)?;
        self.look_for_credential(&account, record, (credential, waited)).await
    }

    async fn look_for_validation(&self, account: &WritingAccount, record: &FlowRecord) -> Result<Done, StepStop> {
        let validation = record.validation.as_ref().ok_or(StepStop::Outdated)?;
        let applicant = record.applicant_participant_id.ok_or(StepStop::Outdated)?;
        let Some((participant, height)) = NodeRegistry(account).participant_with_height(applicant).await? else {
            return Ok(Done::Later(BLOCKED_PAUSE));
        };
        let read = ShownParticipant { participant, height }.to_read();
        if read.is_revoked || read.is_slashed {
            return self.follow_applicant(record).await;
        }
        if record.round.is_validated_by(&read) {
            let mut progress = Progress::of(record.clone());
            progress.go_on(now_millis());
            progress.note_validation_proven(now_millis());
            return self.finish(record, FlowChange::of(record, progress)).await;
        }
        match self.validation_tx(account, record, (validation, applicant)).await {
            // The node shows it with a later read.
            Ok(Some(_)) => Ok(Done::Later(LOOK_PAUSE)),
            Ok(None) => Ok(Done::Later(UNDECIDED_PAUSE)),
            Err(WriteStop::Unanswered(reason)) => Err(StepStop::Failed(reason)),
            Err(stop) => {
                let (code, text) = failure_of(&stop);
                Err(StepStop::blocked(&code, text))
            }
        }
    }

    async fn look_for_credential(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        (credential, waited): (&FlowCredential, Duration),
    ) -> Result<Done, StepStop> {
        let write = session_write(account, credential);
        let Ok(mut hash) = write.find_earlier(&|_| {}).await else { return Ok(Done::Later(UNDECIDED_PAUSE)) };
        let digest = credential.digest.as_deref().unwrap_or_default();
        if NodeRegistry(account).anchored_at(digest).await?.is_none() {
            if hash.is_none() {
                match self.pay(account, record, credential, &write).await? {
                    Paid::Sent(sent) => hash = Some(sent),
                    Paid::Before => {}
                    Paid::Undecided => return Ok(Done::Later(BLOCKED_PAUSE)),
                    Paid::Failed(tx) => {
                        let text = tx.error.unwrap_or_default();
                        return Err(StepStop::blocked(tx.reason.as_deref().unwrap_or("TX_FAILED"), text));
                    }
                }
            }
            // A block has the session and the digest together.
            return if hash.is_some() { Ok(Done::Later(DIGEST_PAUSE)) } else { self.await_digest(waited) };
        }
        if let (Some(id), Some(hash)) = (&credential.id, &hash) {
            self.0.store.note_anchoring_transaction(id, hash).await?;
        }
        tracing::info!(flow = record.id, hash, "the node shows a credential whose block the chain had lost");
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        progress.note_credential_proven(credential.id.as_deref(), hash, now_millis());
        self.finish(record, FlowChange::of(record, progress)).await
    }
}
