//! One step of a flow: a record and a cause become the next record and a message. Pure.

use std::collections::BTreeSet;

use super::{
    chain_read::{ParticipantRead, RoundStart},
    record::{
        CredentialStage, Exchange, FlowCredential, FlowRecord, FlowTx, KeptMessage, MAX_PAST, OobLink, PastRound,
        TxStatus, Validation,
    },
    state::{ConnectionState, FlowState, Side},
    table::{Decision, decide},
    transition::{Condition, Transition},
    trigger::{Effect, Guard, Outgoing, Trigger},
};

/// The cause of a step, with the parts that its rows may need. Times are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// Trigger.
    pub trigger: Trigger,
    /// Time.
    pub now: i64,
    /// Id for an exchange that begins here.
    pub new_id: String,
    /// Thread of the message: of the flow, or of an exchange.
    pub thread: Option<String>,
    /// DID by which the sender of the message is known.
    pub peer_did: Option<String>,
    /// A text for people.
    pub kept: Option<KeptMessage>,
    /// A link.
    pub oob_link: Option<OobLink>,
    /// A read of the participant.
    pub read: Option<ParticipantRead>,
    /// A decision.
    pub validation: Option<Validation>,
    /// The reason of a failed transaction, and the failure in words.
    pub failure: Option<(String, String)>,
    /// The reason of an end, in words.
    pub reason: Option<String>,
    /// Conditions that hold and that no record shows.
    pub facts: BTreeSet<Guard>,
}

impl Cause {
    /// A trigger without anything else.
    pub fn new(trigger: Trigger, now: i64) -> Self {
        Self {
            trigger,
            now,
            new_id: String::new(),
            thread: None,
            peer_did: None,
            kept: None,
            oob_link: None,
            read: None,
            validation: None,
            failure: None,
            reason: None,
            facts: BTreeSet::new(),
        }
    }

    /// Adds conditions that hold.
    pub fn with_facts(mut self, facts: impl IntoIterator<Item = Guard>) -> Self {
        self.facts.extend(facts);
        self
    }

    /// Whether a condition holds for a record. Those that the record shows are read there; nothing else can make them true.
    fn holds(&self, record: &FlowRecord, guard: Guard) -> bool {
        let is_of_peer = self.peer_did.as_deref() == Some(record.peer_did.as_str());
        match guard {
            Guard::Holder => record.is_holder,
            Guard::Established => record.connection_state == ConnectionState::Established,
            Guard::AnchoringFailed => record.has_failed_anchoring(),
            Guard::Delivered => record.exchange.as_ref().is_some_and(|exchange| exchange.is_delivered),
            Guard::NamesExchange => {
                let thread = record.exchange.as_ref().map(|exchange| exchange.thread.as_str());
                is_of_peer && thread.is_some() && thread == self.thread.as_deref()
            }
            Guard::DecisionRecorded => record.validation.is_some(),
            Guard::CredentialHeld | Guard::CredentialDelivered => record.has_held_credential(),
            Guard::CredentialRevoked => record.has_revoked_credential(),
            Guard::SamePeer => is_of_peer && self.facts.contains(&Guard::SamePeer),
            other => self.facts.contains(&other),
        }
    }
}

/// The end of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The row that was taken, with the record behind it.
    Moved {
        /// Row.
        row: &'static Transition,
        /// Record.
        record: Box<FlowRecord>,
        /// Message to the peer.
        sends: Option<Outgoing>,
    },
    /// A condition does not hold: nothing changes.
    Unmet(Condition),
    /// The state has no row for the trigger: nothing changes.
    Elsewhere,
}

/// Takes a step.
pub fn step(record: &FlowRecord, cause: &Cause) -> Step {
    let holds = |guard| cause.holds(record, guard);
    match decide((record.side, record.variant), Some(record.state), cause.trigger, holds) {
        Decision::Row(row) => {
            Step::Moved { row, record: Box::new(follow(record.clone(), row, cause)), sends: row.sends }
        }
        Decision::Unmet(condition) => Step::Unmet(condition),
        Decision::Elsewhere => Step::Elsewhere,
    }
}

/// The record behind a row.
fn follow(mut record: FlowRecord, row: &Transition, cause: &Cause) -> FlowRecord {
    for effect in row.effects {
        record = perform(record, *effect, cause);
    }
    if record.state != row.to {
        record.state = row.to;
        record.last_event_at = cause.now;
    }
    record.updated_at = cause.now;
    // A flow that moves on is not held up by the reason of before.
    record.blocked = None;
    if let Some(read) = &cause.read {
        record.round.read_at = record.round.read_at.max(read.height);
    }
    match row.to {
        FlowState::Completed => {
            record.credential = record.received.take().or(record.credential);
            mark(&mut record, CredentialStage::Held);
        }
        FlowState::CredRevoked => revoke(&mut record),
        FlowState::TerminatedByValidator | FlowState::TerminatedByApplicant => {
            record.connection_state = ConnectionState::Terminated;
            record.oob_link = None;
        }
        _ => {}
    }
    if row.to.is_terminal() {
        record.error_message = cause.reason.clone();
        record.proofs = None;
        (record.held_offer, record.received) = (None, None);
    }
    if matches!(row.sends, Some(Outgoing::OnboardingRequest | Outgoing::IssuanceRequest)) {
        record.connection_state = ConnectionState::Established;
        record.thread_id = Some(cause.new_id.clone());
    }
    if row.trigger == Trigger::ChainRestored {
        restore(&mut record);
    }
    record
}

fn perform(mut record: FlowRecord, effect: Effect, cause: &Cause) -> FlowRecord {
    match effect {
        // They come with the record, before the step.
        Effect::NewSession | Effect::ReadClaims | Effect::ReplaceOlder => {}
        Effect::Establish => record.connection_state = ConnectionState::Established,
        Effect::ClearOobLink => record.oob_link = None,
        Effect::SetOobLink => record.oob_link = cause.oob_link.clone(),
        Effect::ClearRefusal => record.refusal = None,
        Effect::KeepMessage => {
            if let Some(message) = cause.kept.clone() {
                record.keep(message);
            }
        }
        Effect::NewExchange => {
            // An applicant takes the thread of the offer.
            let thread = match (record.side, &cause.thread) {
                (Side::Applicant, Some(thread)) => thread.clone(),
                _ => cause.new_id.clone(),
            };
            record.exchange = Some(Exchange { thread, is_requested: false, is_delivered: false });
            (record.held_offer, record.received) = (None, None);
        }
        Effect::NewThread => record.thread_id = cause.thread.clone().or(record.thread_id),
        Effect::HoldCredential => {
            for past in &mut record.past {
                past.credential = None;
            }
        }
        Effect::DropCredential => {
            for past in &mut record.past {
                if let Some(credential) = &mut past.credential {
                    credential.stage = CredentialStage::Revoked;
                }
            }
        }
        Effect::DiscardCredential => {
            let is_out = |one: &FlowCredential| {
                matches!(one.stage, CredentialStage::Delivered | CredentialStage::Held | CredentialStage::Revoked)
            };
            record.credential = record.credential.filter(is_out);
        }
        Effect::NextRound => record = begin_round(record, cause),
        Effect::RecordValidation => {
            let attempts = record.validation.as_ref().map_or(0, |validation| validation.attempts);
            record.validation = cause.validation.clone().map(|validation| Validation { attempts, ..validation });
        }
        Effect::SubmitValidation => {
            if let Some(validation) = &mut record.validation {
                validation.attempts += 1;
                validation.tx = Some(pending_tx());
            }
        }
        Effect::FailValidation => {
            if let Some(validation) = &mut record.validation {
                let tx = validation.tx.take().unwrap_or_else(pending_tx);
                validation.tx = Some(failed(tx, cause));
            }
        }
        Effect::FillValidation => {
            // A message prompts a read without the terms: those of the operator stay until the next one.
            if let Some(shown) = cause.validation.clone() {
                // The chain has the terms, and the own record how they came there. Behind an own transaction that failed another one did it.
                let has_failed = |own: &Validation| own.tx.as_ref().is_some_and(|tx| tx.status == TxStatus::Failed);
                record.validation = Some(match record.validation.take() {
                    None => shown,
                    Some(own) => {
                        // The chain has neither the terms of the credential nor the summary of a HOLDER.
                        let kept = own.op_summary_digest.clone().filter(|_| record.is_holder);
                        let op_summary_digest = shown.op_summary_digest.clone().or(kept);
                        let shown = Validation { attempts: own.attempts, terms: own.terms, op_summary_digest, ..shown };
                        if has_failed(&own) {
                            shown
                        } else {
                            let Validation { decided_at, submission, tx, .. } = own;
                            Validation { decided_at, submission, tx, ..shown }
                        }
                    }
                });
            }
            if let Some(tx) = record.validation.as_mut().and_then(|validation| validation.tx.as_mut()) {
                (tx.status, tx.reason, tx.error) = (TxStatus::Succeeded, None, None);
            }
        }
        Effect::AnchorAgain => {
            if let Some(credential) = &mut record.credential {
                credential.tx = None;
            }
        }
    }
    record
}

/// Moves decision and credential of the round to the past, and begins the next one with the read.
fn begin_round(mut record: FlowRecord, cause: &Cause) -> FlowRecord {
    let (validation, credential) = (record.validation.take(), record.credential.take());
    let exchange = record.exchange.take();
    let told_to_present = record.told_to_present.take();
    record.past.push(PastRound { number: record.round.number, validation, exchange, credential, told_to_present });
    let paid = record.paid_under(&record.session_id);
    let excess = record.past.len().saturating_sub(MAX_PAST);
    record.past.drain(..excess);
    record.paid_before += paid - record.paid_under(&record.session_id);
    (record.held_offer, record.received) = (None, None);
    record.refusal = None;
    record.oob_link = None;
    record.traceparent = None;
    record.round = match &cause.read {
        Some(read) => record.round.next(read),
        None => RoundStart { number: record.round.number.saturating_add(1), ..record.round },
    };
    record
}

/// The round that a cancelled renewal wanted to follow goes on: its decision and its credential count again. Its number stays with the
/// round that was cancelled, since keys of transactions name it.
fn restore(record: &mut FlowRecord) {
    if let Some(past) = record.past.pop() {
        (record.validation, record.exchange, record.credential) = (past.validation, past.exchange, past.credential);
        record.told_to_present = past.told_to_present;
    }
}

fn pending_tx() -> FlowTx {
    FlowTx { status: TxStatus::Submitted, hash: None, height: None, reason: None, error: None }
}

fn failed(tx: FlowTx, cause: &Cause) -> FlowTx {
    let (reason, error) = cause.failure.clone().unzip();
    FlowTx { status: TxStatus::Failed, reason, error, ..tx }
}

fn mark(record: &mut FlowRecord, stage: CredentialStage) {
    if let Some(credential) = &mut record.credential {
        credential.stage = stage;
    }
}

/// The newest credential of the flow is revoked.
fn revoke(record: &mut FlowRecord) {
    let of_past = record.past.iter_mut().rev().filter_map(|past| past.credential.as_mut());
    if let Some(credential) = record.credential.as_mut().into_iter().chain(of_past).next() {
        credential.stage = CredentialStage::Revoked;
    }
}
