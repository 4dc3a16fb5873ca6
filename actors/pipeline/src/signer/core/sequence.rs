//! The sequence that comes next: as the node states it, within that which blocks have shown.

use svc_net::upstream::NodeClientError;

use super::{SignerCore, SignerPhase};
use crate::{
    signer::{
        effects::{InFlightView, SignerEffect},
        queue::QueuedWrite,
    },
    write::error::SubmitError,
};

/// Answers in a row that show the node behind before the waiting writes are refused.
pub(in crate::signer) const MAX_BEHIND: u32 = 30;
/// Wrong sequences of simulations between two blocks before the signer waits for the next block.
const MAX_RESYNCHRONIZATIONS: u32 = 4;
/// Questions for the account in a row without an answer before the waiting writes are refused.
pub(in crate::signer) const MAX_UNANSWERED: u32 = 10;
/// Simulations of one write without an answer before it is refused.
pub(in crate::signer) const MAX_UNANSWERED_SIMULATIONS: u32 = 3;
/// Wrong sequences that the simulations of one write may meet before it is refused.
pub(in crate::signer) const MAX_SETBACKS: u32 = 12;

impl SignerCore {
    /// The node answered with the account's sequence in the newest block; `None`: the account does not exist.
    pub fn on_account(
        &mut self,
        answer: Result<Option<u64>, NodeClientError>,
        address: &str,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        if self.phase != SignerPhase::ReadingAccount {
            return Vec::new();
        }
        let error = match answer {
            Ok(Some(sequence)) => {
                (self.phase, self.unanswered_count) = (SignerPhase::Idle, 0);
                return self.adopt_sequence(sequence, live);
            }
            Ok(None) => SubmitError::NoAccount { address: address.to_owned() },
            // The next block or tick asks again. The writes wait, until the node has been silent for long.
            Err(_) if self.unanswered_count + 1 < MAX_UNANSWERED => {
                (self.phase, self.unanswered_count) = (SignerPhase::Paused, self.unanswered_count + 1);
                return vec![SignerEffect::ChooseNode];
            }
            Err(error) => SubmitError::Node(error),
        };
        self.unanswered_count = 0;
        self.refuse_all(&error)
    }

    /// The node did not answer a simulation. The write waits for the next block or tick, a few times, and so do the writes behind it: a
    /// node that is down for a moment refuses none of them.
    pub(super) fn on_unanswered_simulation(
        &mut self,
        error: NodeClientError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        self.expected_sequence = None;
        self.unanswered_count += 1;
        if self.unanswered_count >= MAX_UNANSWERED {
            self.unanswered_count = 0;
            return self.refuse_all(&SubmitError::Node(error));
        }
        let is_refused = self.current_write.as_mut().is_none_or(|write| {
            write.unanswered_count += 1;
            write.unanswered_count >= MAX_UNANSWERED_SIMULATIONS
        });
        let mut effects = vec![SignerEffect::ChooseNode];
        if is_refused {
            effects.extend(self.refuse_current(SubmitError::Node(error), live));
        } else {
            self.requeue();
            self.phase = SignerPhase::Paused;
        }
        effects
    }

    fn refuse_all(&mut self, error: &SubmitError) -> Vec<SignerEffect> {
        self.phase = SignerPhase::Paused;
        let waiting = self.current_write.take().into_iter().chain(self.queue.drain());
        let answer = |write: QueuedWrite| SignerEffect::Answer { id: write.id, outcome: Err(error.clone()) };
        let is_node_error = !matches!(error, SubmitError::NoAccount { .. });
        waiting.map(answer).chain(is_node_error.then_some(SignerEffect::ChooseNode)).collect()
    }

    /// Nothing is signed any more: refuses every write that is not being broadcast.
    pub fn stop(&mut self, error: &SubmitError) -> Vec<SignerEffect> {
        let is_sending = matches!(
            self.phase,
            SignerPhase::Broadcasting { .. } | SignerPhase::AskingPrice { .. } | SignerPhase::Rebroadcasting { .. }
        );
        (self.expected_sequence, self.has_doubt) = (None, true);
        let current = if is_sending { None } else { self.current_write.take() };
        if !is_sending {
            self.phase = SignerPhase::Paused;
        }
        let waiting = current.into_iter().chain(self.queue.drain());
        waiting.map(|write| SignerEffect::Answer { id: write.id, outcome: Err(error.clone()) }).collect()
    }

    /// The node expects this sequence. A used one shows that the node is behind.
    pub(super) fn adopt_sequence(&mut self, sequence: u64, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if sequence >= live.sequence_floor() {
            (self.expected_sequence, self.behind_count) = (Some(sequence), 0);
            return self.advance(live);
        }
        (self.expected_sequence, self.has_doubt) = (None, true);
        self.behind_count += 1;
        if self.behind_count > MAX_BEHIND {
            self.behind_count = 0;
            let used_below = live.sequence_floor();
            return self.refuse_all(&SubmitError::NodeBehind { expected_sequence: sequence, used_below });
        }
        self.phase = SignerPhase::Paused;
        vec![SignerEffect::ChooseNode]
    }

    /// The next step: reads the sequence, sends live transactions again, or begins the next write.
    pub(super) fn advance(&mut self, live: &dyn InFlightView) -> Vec<SignerEffect> {
        if self.phase != SignerPhase::Idle || (self.queue.is_empty() && !self.has_doubt) {
            return Vec::new();
        }
        if std::mem::take(&mut self.is_sequence_stale) {
            self.expected_sequence = None;
        }
        let Some(sequence) = self.expected_sequence else {
            self.phase = SignerPhase::ReadingAccount;
            return vec![SignerEffect::ReadAccount];
        };
        if live.is_live_at(sequence) {
            self.phase = SignerPhase::Rebroadcasting { sequence };
            return vec![SignerEffect::Rebroadcast { sequence }];
        }
        self.has_doubt = false;
        if live.live_count() >= self.window.size() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        while let Some(write) = self.queue.pop() {
            let id = write.id;
            if let Some(required) = write.required_sequence.filter(|required| *required != sequence) {
                let outcome = Err(SubmitError::SequenceMoved { required, expected: sequence });
                effects.push(SignerEffect::Answer { id, outcome });
                continue;
            }
            let with_granter = write.granter.is_some();
            self.current_write = Some(write);
            self.phase = SignerPhase::Simulating { sequence };
            effects.push(SignerEffect::Simulate { id, sequence, with_granter });
            break;
        }
        effects
    }

    /// The sequence was wrong: the signer goes on with the sequence that the node expects, or reads it.
    pub(super) fn resynchronize(
        &mut self,
        expected: Option<u64>,
        error: SubmitError,
        live: &dyn InFlightView,
    ) -> Vec<SignerEffect> {
        self.expected_sequence = None;
        self.window.record_setback();
        let setback_count = self.current_write.as_mut().map_or(0, |write| {
            write.setback_count += 1;
            write.setback_count
        });
        if setback_count > MAX_SETBACKS {
            return self.refuse_current(error, live);
        }
        self.requeue();
        self.resynchronizations += 1;
        if self.resynchronizations > MAX_RESYNCHRONIZATIONS {
            // The answers contradict each other. Blocks tell more.
            self.phase = SignerPhase::Paused;
            return Vec::new();
        }
        self.phase = SignerPhase::Idle;
        match expected {
            Some(expected) => self.adopt_sequence(expected, live),
            None => self.advance(live),
        }
    }
}
