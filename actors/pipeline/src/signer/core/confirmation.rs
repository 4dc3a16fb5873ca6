//! Refusals of simulations that only a sentence names. A message may quote any sentence, and so nothing follows from one before the account
//! or the allowance at the node agrees with it.

use svc_net::upstream::NodeClientError;
use svc_wire::chain_error::{ChainError, ChainErrorKind};

use super::{SignerCore, SignerPhase};
use crate::{
    signer::effects::{InFlightView, SignerEffect},
    write::{error::SubmitError, submission::SubmissionId},
};

/// Simulations of one write with a sentence that the node contradicts before the write is refused for the sentence. The state may have
/// changed between the two answers.
const MAX_CONTRADICTIONS: u32 = 2;

impl SignerCore {
    /// The chain refused the current write in a simulation at `sequence`.
    pub(super) fn on_refused_simulation(
        &mut self,
        id: SubmissionId,
        sequence: u64,
        error: ChainError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let has_granter = self.current_write.as_ref().is_some_and(|write| write.granter.is_some());
        match error.classify_simulation() {
            ChainErrorKind::WrongSequence { expected, .. } if error.has_sequence_code() => {
                self.resynchronize(expected, SubmitError::Sequence(error), live)
            }
            ChainErrorKind::WrongSequence { actual, .. } if actual.is_none_or(|actual| actual == sequence) => {
                self.phase = SignerPhase::Confirming { sequence, error };
                vec![SignerEffect::ConfirmSequence { id }]
            }
            ChainErrorKind::FeeAllowanceUnusable if has_granter => {
                self.phase = SignerPhase::Confirming { sequence, error };
                vec![SignerEffect::ConfirmAllowance { id }]
            }
            _ => {
                // A frame that is not known may hide a wrong sequence: the account is read before the next write.
                self.is_sequence_stale |= error.may_name_sequence();
                self.refuse_current(SubmitError::Simulation(error), live)
            }
        }
    }

    /// The sequence that the node's check state expects, after a sentence about a wrong one.
    pub fn on_sequence_confirmation(
        &mut self,
        id: SubmissionId,
        expected: Result<u64, NodeClientError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let Some((sequence, error)) = self.take_doubted(id) else { return Vec::new() };
        match expected {
            Ok(expected) if expected != sequence => {
                self.resynchronize(Some(expected), SubmitError::Sequence(error), live)
            }
            Ok(_) => self.on_contradiction(id, sequence, error, live),
            Err(unanswered) => self.on_unanswered_simulation(unanswered, live),
        }
    }

    /// Whether the allowance at the node pays for the write, after a sentence that it does not.
    pub fn on_allowance_confirmation(
        &mut self,
        id: SubmissionId,
        pays: Result<bool, NodeClientError>,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let Some((sequence, error)) = self.take_doubted(id) else { return Vec::new() };
        match pays {
            Ok(false) => {
                if let Some(write) = self.current_write.as_mut() {
                    write.granter = None;
                }
                self.phase = SignerPhase::Simulating { sequence };
                vec![SignerEffect::Simulate { id, sequence, with_granter: false }]
            }
            Ok(true) => self.on_contradiction(id, sequence, error, live),
            Err(unanswered) => self.on_unanswered_simulation(unanswered, live),
        }
    }

    fn take_doubted(&mut self, id: SubmissionId) -> Option<(u64, ChainError)> {
        let SignerPhase::Confirming { sequence, error } = &self.phase else { return None };
        let is_current = self.current_write.as_ref().is_some_and(|write| write.id == id);
        is_current.then(|| (*sequence, error.clone()))
    }

    /// The node contradicts the sentence of its own refusal.
    fn on_contradiction(
        &mut self,
        id: SubmissionId,
        sequence: u64,
        error: ChainError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        let Some(write) = self.current_write.as_mut() else { return Vec::new() };
        write.contradiction_count += 1;
        if write.contradiction_count >= MAX_CONTRADICTIONS {
            return self.refuse_current(SubmitError::Simulation(error), live);
        }
        let with_granter = write.granter.is_some();
        self.phase = SignerPhase::Simulating { sequence };
        vec![SignerEffect::Simulate { id, sequence, with_granter }]
    }
}
