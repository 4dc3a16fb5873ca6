//! The steps that one cause leads to: the record behind them, and the messages that they send, in order.

use super::{
    record::{FlowRecord, KeptMessage},
    state::{FlowState, Side},
    step::{Cause, Step, step},
    trigger::{Outgoing, Trigger},
};

/// Milliseconds by which the clock of this agent may be behind that of the chain.
const CLOCK_TOLERANCE: i64 = 30_000;

/// A record with everything that a message, a read or a call has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// The record behind the last step.
    pub record: FlowRecord,
    /// Changes of the state, in order: each is an event.
    pub changes: Vec<FlowState>,
    /// Messages to the peer, in order.
    pub sends: Vec<Outgoing>,
}

impl Progress {
    /// A record of which nothing has changed yet.
    pub fn of(record: FlowRecord) -> Self {
        Self { record, changes: Vec::new(), sends: Vec::new() }
    }

    /// Takes a step. False when the table has none, or a condition does not hold.
    pub fn take(&mut self, cause: &Cause) -> bool {
        let Step::Moved { record, sends, .. } = step(&self.record, cause) else { return false };
        if record.state != self.record.state {
            self.changes.push(record.state);
        }
        self.record = *record;
        self.sends.extend(sends);
        true
    }

    /// Takes the steps of a read of the applicant's participant.
    pub fn take_read(&mut self, cause: &Cause) -> bool {
        let Some(read) = cause.read else { return false };
        let mut has_moved = false;
        for trigger in self.record.round.triggers(&read) {
            has_moved |= self.take(&Cause { trigger, ..cause.clone() });
        }
        if has_moved && self.record.state == FlowState::AwaitingOr {
            self.take_early_request(cause.now);
        }
        // The record knows the height even when nothing follows.
        self.record.round.read_at = self.record.round.read_at.max(read.height);
        has_moved
    }

    /// A new round has begun. Its request may have come before: the applicant's node was ahead of ours.
    fn take_early_request(&mut self, now: i64) {
        let Some(early) = self.record.early_request.take() else { return };
        let begun = self.record.round.changed_at.map_or(0, |nanos| nanos / 1_000_000);
        if i128::from(early.at + CLOCK_TOLERANCE) >= begun && self.accept_request(now) {
            self.record.claims = early.claims.or_else(|| self.record.claims.take());
            self.record.proofs = early.proofs;
        }
    }

    /// Keeps a message for people.
    pub(super) fn keep(&mut self, message: Option<KeptMessage>, now: i64) {
        if let Some(message) = message {
            self.record.keep(message);
            self.record.updated_at = now;
        }
    }

    /// Accepts the request that a validator waits for: no other condition is left.
    pub(super) fn accept_request(&mut self, now: i64) -> bool {
        self.take(&Cause::new(Trigger::RequestAccepted, now))
    }

    /// The message of the state, for a peer that has begun again.
    pub(super) fn send_again(&mut self) {
        self.sends.extend(last_message(&self.record));
    }
}

/// The message that a validator has sent for its state.
fn last_message(record: &FlowRecord) -> Option<Outgoing> {
    use FlowState as S;
    if record.side != Side::Validator {
        return None;
    }
    match record.state {
        S::OobPending => Some(Outgoing::OobLink),
        S::Validating
        | S::AwaitingValidationTx
        | S::ValidationTxSubmitted
        | S::ValidationTxFailed
        | S::Validated
        | S::ValidatedPendingClaims => Some(Outgoing::Validating),
        _ => None,
    }
}
