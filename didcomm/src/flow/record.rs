//! The record of a flow. Times are milliseconds since the epoch, but those of the chain.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use super::record_parts::{
    ALREADY_ISSUED, CredentialStage, CredentialTerms, EarlyRequest, Exchange, Fees, FlowCredential, FlowTx, HeldOffer,
    KeptKind, KeptMessage, MAX_KEPT, MAX_PAST, Notice, OobLink, PastRound, Submission, TxStatus, Validation,
};
use super::{
    chain_read::{ParticipantRead, RoundStart},
    state::{ConnectionState, FlowState, PendingAction, Side, Variant},
};

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowRecord {
    /// Id of the record.
    pub id: String,
    /// Side of this agent.
    pub side: Side,
    /// Kind.
    pub variant: Variant,
    /// DID by which the peer is known.
    pub peer_did: String,
    /// Connection with the peer.
    pub connection_id: Option<String>,
    /// Thread of the newest opening message.
    pub thread_id: Option<String>,
    /// Schema of the credential.
    pub schema_id: u64,
    /// The applicant's participant; none in a direct issuance.
    pub applicant_participant_id: Option<u64>,
    /// The validator's participant.
    pub validator_participant_id: Option<u64>,
    /// Whether a credential follows from the validation: the role is HOLDER, or there is none.
    pub is_holder: bool,
    /// Id of the session.
    pub session_id: String,
    /// Ids of sessions of before, which find the record too.
    #[serde(default)]
    pub previous_session_ids: Vec<String>,
    /// State.
    pub state: FlowState,
    /// State of the connection.
    pub connection_state: ConnectionState,
    /// The present round.
    pub round: RoundStart,
    /// Claims of the credential.
    pub claims: Option<Map<String, Value>>,
    /// Presentations of the applicant, which are kept and not read.
    pub proofs: Option<Vec<Value>>,
    /// A request that may be that of a round which no read has shown yet.
    #[serde(default)]
    pub early_request: Option<EarlyRequest>,
    /// The link that is outstanding.
    pub oob_link: Option<OobLink>,
    /// Messages for people, in order.
    #[serde(default)]
    pub messages: Vec<KeptMessage>,
    /// Decision of this round.
    pub validation: Option<Validation>,
    /// Whether the validator wants the credential of this round presented, where it has said so before its offer.
    #[serde(default)]
    pub told_to_present: Option<bool>,
    /// An offer that is not judged yet.
    #[serde(default)]
    pub held_offer: Option<HeldOffer>,
    /// Exchange of this round.
    pub exchange: Option<Exchange>,
    /// A credential that has come in the exchange, and of which nothing is checked.
    #[serde(default)]
    pub received: Option<FlowCredential>,
    /// Credential of this round.
    pub credential: Option<FlowCredential>,
    /// The reason for which the flow waits; the code is one of the contract's.
    pub blocked: Option<Notice>,
    /// The last problem report that can be mended.
    pub refusal: Option<Notice>,
    /// The reason of the end, in words.
    pub error_message: Option<String>,
    /// Earlier rounds.
    #[serde(default)]
    pub past: Vec<PastRound>,
    /// Paid credentials of the present session in rounds that are not kept any more.
    #[serde(default)]
    pub paid_before: usize,
    /// W3C traceparent of the call, the event or the message that the present work goes back to.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// Time at which the record was made.
    pub created_at: i64,
    /// Time of the last change.
    pub updated_at: i64,
    /// Time of the last change of state.
    pub last_event_at: i64,
}

impl FlowRecord {
    /// The credentials of all rounds, in order.
    fn credentials(&self) -> impl DoubleEndedIterator<Item = &FlowCredential> {
        self.past.iter().filter_map(|past| past.credential.as_ref()).chain(&self.credential)
    }

    /// The credentials of all rounds, to note the outcome of their transactions.
    pub fn credentials_mut(&mut self) -> impl Iterator<Item = &mut FlowCredential> {
        self.past.iter_mut().filter_map(|past| past.credential.as_mut()).chain(&mut self.credential)
    }

    /// Stage of the last credential that was held by its applicant, or was revoked later.
    fn last_outcome(&self) -> Option<CredentialStage> {
        let has_ended = |stage: &CredentialStage| matches!(stage, CredentialStage::Held | CredentialStage::Revoked);
        self.credentials().rev().map(|one| one.stage).find(has_ended)
    }

    /// Whether the applicant holds a credential of the flow.
    pub fn has_held_credential(&self) -> bool {
        self.last_outcome() == Some(CredentialStage::Held)
    }

    /// Whether the last credential was revoked.
    pub fn has_revoked_credential(&self) -> bool {
        self.last_outcome() == Some(CredentialStage::Revoked)
    }

    /// Whether the applicant holds no credential of the validation that a read shows. One of an earlier round does not stand for it.
    pub fn lacks_credential(&self, read: &ParticipantRead) -> bool {
        let held = self.credentials().rev().find(|one| one.stage == CredentialStage::Held);
        held.is_none_or(|held| held.round < self.round.number && self.round.is_validated_by(read))
    }

    /// Whether a credential was issued on the validation that a read shows. A renewal that was begun and cancelled since changes the time of
    /// the state and not the end of the validation; where validations have no end, a second one looks like the first.
    pub fn has_issued_on(&self, read: &ParticipantRead) -> bool {
        let is_out = |one: &FlowCredential| one.stage != CredentialStage::Received;
        let is_of_it =
            |one: &FlowCredential| one.validated_until == read.expires_at || one.round_changed_at == read.changed_at;
        self.side == Side::Validator && self.credentials().any(|one| is_out(one) && is_of_it(one))
    }

    /// Whether the state follows from a validation.
    fn rests_on_validation(&self) -> bool {
        use FlowState as S;
        matches!(self.state, S::Validated | S::ValidatedPendingClaims | S::CredOffered | S::Completed)
    }

    /// Whether the chain has lost the block of this agent's validation, and nothing has shown it since.
    pub fn lacks_validation(&self) -> bool {
        let of_agent = self.validation.as_ref().filter(|one| one.submission == Submission::Agent);
        let tx = of_agent.and_then(|one| one.tx.as_ref());
        let is_sought = self.side == Side::Validator && self.rests_on_validation();
        is_sought && tx.is_some_and(|tx| tx.status == TxStatus::Submitted)
    }

    /// The first credential whose payment was in a block that the chain has lost, and that nothing has shown since.
    pub fn unproven_credential(&self) -> Option<&FlowCredential> {
        let is_sought = self.side == Side::Validator && !self.state.is_terminal();
        self.credentials().find(|one| is_sought && one.is_unproven())
    }

    /// The chain has lost blocks: the transactions in them are looked for at the node once more. `is_lost` says of a hash whether its block is
    /// lost, and of none whether the block of an unknown transaction may be. Returns whether anything is looked for.
    pub fn look_again(&mut self, newest_kept: u64, is_lost: impl Fn(Option<&str>) -> bool) -> bool {
        // A read at a lost height would make each later one look late.
        self.round.read_at = self.round.read_at.min(newest_kept);
        if self.side != Side::Validator || self.state.is_terminal() {
            return false;
        }
        let has_validation = self.rests_on_validation();
        let doubt = |tx: &mut FlowTx| {
            let is_doubtful = tx.status == TxStatus::Succeeded && is_lost(tx.hash.as_deref());
            if is_doubtful {
                (tx.status, tx.height) = (TxStatus::Submitted, None);
            }
        };
        if let Some(Validation { submission: Submission::Agent, tx: Some(tx), .. }) = &mut self.validation
            && has_validation
        {
            doubt(tx);
        }
        self.credentials_mut().filter(|one| one.is_paid()).filter_map(|one| one.tx.as_mut()).for_each(doubt);
        self.lacks_validation() || self.unproven_credential().is_some()
    }

    /// The number of credentials that were paid under a session.
    pub fn paid_under(&self, session_id: &str) -> usize {
        let is_paid = |one: &&FlowCredential| one.session_id == session_id && one.is_paid() && !one.is_unproven();
        let before = if session_id == self.session_id { self.paid_before } else { 0 };
        before + self.credentials().filter(is_paid).count()
    }

    /// Whether a credential was signed in a round.
    pub fn has_signed_in(&self, round: u32) -> bool {
        self.credentials().any(|one| one.round == round && one.stage != CredentialStage::Received)
    }

    /// Whether the flow waits since a credential of its validation was paid that the record does not know.
    pub fn is_blocked_as_issued(&self) -> bool {
        self.blocked.as_ref().is_some_and(|blocked| blocked.code == ALREADY_ISSUED)
    }

    /// Whether a credential is signed whose transaction failed.
    pub fn has_failed_anchoring(&self) -> bool {
        let tx = self.credential.as_ref().and_then(|one| one.tx.as_ref());
        tx.is_some_and(|tx| tx.status == TxStatus::Failed)
    }

    /// The party that has to act next.
    pub fn pending_action(&self, now: i64) -> PendingAction {
        use FlowState as S;
        let is_applicant = self.side == Side::Applicant;
        if self.state.is_terminal() {
            return PendingAction::None;
        }
        if self.blocked.is_some() {
            return if is_applicant { PendingAction::Applicant } else { PendingAction::Validator };
        }
        let waits_for_answer = matches!(self.state, S::OrSent | S::IrSent | S::OobPending | S::Validating);
        if self.refusal.is_some() && is_applicant && waits_for_answer {
            return PendingAction::Applicant;
        }
        let has_failed_anchoring = self.has_failed_anchoring();
        match self.state {
            S::AwaitingOp => PendingAction::Applicant,
            S::OrSent | S::IrSent | S::AwaitingOr | S::AwaitingIr => PendingAction::Agent,
            S::OobPending => {
                let end = self.oob_link.as_ref().and_then(|link| link.expires_at);
                if end.is_some_and(|end| end <= now) { PendingAction::Validator } else { PendingAction::Applicant }
            }
            S::Validating | S::AwaitingValidationTx | S::ValidationTxFailed | S::ValidatedPendingClaims => {
                PendingAction::Validator
            }
            S::ValidationTxSubmitted => PendingAction::Chain,
            S::Validated if self.is_holder => PendingAction::Agent,
            S::CredOffered if !is_applicant && has_failed_anchoring => PendingAction::Validator,
            S::CredOffered => PendingAction::Agent,
            _ => PendingAction::None,
        }
    }

    /// Adds a message for people.
    pub fn keep(&mut self, message: KeptMessage) {
        self.messages.push(message);
        let excess = self.messages.len().saturating_sub(MAX_KEPT);
        self.messages.drain(..excess);
    }
}
