//! The ends of an agent's own steps, and the calls of an applicant's operator, on the record. Pure.

use super::{
    chain_read::ParticipantRead,
    progress::Progress,
    record::{ALREADY_ISSUED, CredentialStage, FlowCredential, FlowTx, HeldOffer, Notice, TxStatus},
    state::{FlowState, Side, Variant},
    step::Cause,
    trigger::{Outgoing, Trigger},
};

impl Progress {
    /// Whether a call of the operator may pay for another credential of a validation. It may once the record has shown that one was paid;
    /// else the record shows it now, and the call is refused.
    pub fn may_pay_again(&mut self, now: i64) -> bool {
        let has_shown = self.record.is_blocked_as_issued();
        if !has_shown {
            self.block(ALREADY_ISSUED, "a credential of this validation was paid under another session", now);
        }
        has_shown
    }

    /// Takes the offer that waits. The facts of the cause are those of the node.
    pub fn take_offer(&mut self, cause: &Cause) -> bool {
        let Some(held) = self.record.held_offer.clone() else { return false };
        let cause = Cause { trigger: Trigger::OfferCredential, thread: Some(held.thread), ..cause.clone() };
        self.take(&cause)
    }

    /// Declines the offer that waits; the state stays. Returns it for the message.
    pub fn decline_offer(&mut self, now: i64) -> Option<HeldOffer> {
        let held = self.record.held_offer.take()?;
        self.record.updated_at = now;
        Some(held)
    }

    /// The opening message once more, in a thread of its own: the way on when the peer stays silent.
    pub fn open_again(&mut self, new_thread: &str, now: i64) -> bool {
        use FlowState as S;
        let record = &mut self.record;
        let is_open = matches!(
            record.state,
            S::OrSent | S::IrSent | S::OobPending | S::Validating | S::Validated | S::CredOffered | S::Completed
        );
        // Without a credential nothing is left to be done behind a validation.
        let is_over = record.state == S::Validated && !record.is_holder;
        if record.side != Side::Applicant || !is_open || is_over {
            return false;
        }
        record.thread_id = Some(new_thread.to_owned());
        record.refusal = None;
        record.updated_at = now;
        self.sends.push(match record.variant {
            Variant::Onboarding => Outgoing::OnboardingRequest,
            Variant::Direct => Outgoing::IssuanceRequest,
        });
        true
    }

    /// The flow waits for a reason that people have to see.
    pub fn block(&mut self, code: &str, text: &str, now: i64) {
        self.record.blocked = Some(Notice { code: code.to_owned(), text: text.to_owned(), at: now });
        self.record.updated_at = now;
    }

    /// The flow waits for a reason, since it waits for that one.
    pub fn wait_for(&mut self, code: &str, text: &str, now: i64) {
        if self.record.blocked.as_ref().is_none_or(|blocked| blocked.code != code || blocked.text != text) {
            self.block(code, text, now);
        }
    }

    /// Nothing holds the flow up any more.
    pub fn go_on(&mut self, now: i64) {
        if self.record.blocked.take().is_some() {
            self.record.updated_at = now;
        }
    }

    /// The credential is signed and stored, on the validation of a read; without a participant there is none.
    pub fn note_signed(&mut self, id: &str, digest: &str, read: Option<&ParticipantRead>, now: i64) {
        let validated_until = read.and_then(|read| read.expires_at);
        let (round, round_changed_at) = (self.record.round.number, self.record.round.changed_at);
        let (id, digest) = (Some(id.to_owned()), Some(digest.to_owned()));
        self.record.credential = Some(FlowCredential {
            round,
            session_id: self.record.session_id.clone(),
            round_changed_at,
            paid_before: self.record.paid_before,
            validated_until,
            stage: CredentialStage::Signed,
            id,
            digest,
            tx: None,
        });
        self.record.updated_at = now;
    }

    /// A signed credential that nothing was paid for is forgotten, and signed again.
    pub fn forget_unpaid(&mut self, now: i64) {
        self.record.credential = self.record.credential.take().filter(|one| one.stage != CredentialStage::Signed);
        self.record.updated_at = now;
    }

    /// The transaction that pays for the credential is sent, included or refused.
    pub fn note_anchoring(&mut self, tx: FlowTx, now: i64) {
        let Some(credential) = &mut self.record.credential else { return };
        if tx.status == TxStatus::Succeeded && credential.stage == CredentialStage::Signed {
            credential.stage = CredentialStage::Anchored;
        }
        credential.tx = Some(tx);
        self.record.updated_at = now;
    }

    /// The node shows the validation of this agent that it looked for.
    pub fn note_validation_proven(&mut self, now: i64) {
        if let Some(tx) = self.record.validation.as_mut().and_then(|validation| validation.tx.as_mut()) {
            tx.status = TxStatus::Succeeded;
        }
        self.record.updated_at = now;
    }

    /// The node shows a credential that was looked for, by its id. It keeps the hash of its transaction where no other one is known.
    pub fn note_credential_proven(&mut self, id: Option<&str>, hash: Option<String>, now: i64) {
        let is_it = |one: &&mut FlowCredential| one.id.as_deref() == id;
        if let Some(tx) = self.record.credentials_mut().find(is_it).and_then(|credential| credential.tx.as_mut()) {
            tx.status = TxStatus::Succeeded;
            tx.hash = hash.or(tx.hash.take());
        }
        self.record.updated_at = now;
    }

    /// The credential is in the outbox.
    pub fn note_delivered(&mut self, now: i64) {
        if let Some(exchange) = &mut self.record.exchange {
            exchange.is_delivered = true;
        }
        if let Some(credential) = &mut self.record.credential
            && credential.stage == CredentialStage::Anchored
        {
            credential.stage = CredentialStage::Delivered;
        }
        self.record.updated_at = now;
    }
}
