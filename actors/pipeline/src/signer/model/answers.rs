//! The answers of the node in the model, honest and others.

use svc_net::upstream::{BroadcastOutcome, NodeClientError, UpstreamError, UpstreamKind};
use svc_wire::chain_error::ChainError;

use super::{
    chain::{HashParts, refused, wrong_sequence},
    state::{LIE, ModelRequest, ModelState},
};
use crate::{chain::simulation::SimulationError, write::error::SubmitError};

/// A lie of the node in its answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLie {
    /// It names a sequence that is too high.
    HighSequence,
    /// It refuses the transaction for this code, and passes it on.
    RelayedRefusal(u32),
    /// It states the account in the newest block, and not the check state.
    CommittedSequence,
}

fn unreachable_error() -> NodeClientError {
    NodeClientError::Upstream(UpstreamError::Unreachable {
        kind: UpstreamKind::Rpc,
        origin: String::new(),
        reason: String::new(),
    })
}

fn simulation_refusal(expected: u64, sequence: u64) -> SimulationError {
    let raw_log = wrong_sequence(expected, sequence);
    SimulationError::Refused(ChainError { codespace: "sdk".into(), code: 6, raw_log })
}

impl ModelState {
    /// The node answers the pending request of the signer, from `lag` blocks behind.
    pub(super) fn answer(&mut self, request: ModelRequest, lag: u64) {
        let effects = match request {
            ModelRequest::ReadAccount => {
                // While transactions are in flight, the check state answers.
                let sequence = match self.table.live().len() {
                    0 => self.chain.sequence_at(self.chain.height().saturating_sub(lag)),
                    _ => self.chain.expected_sequence(lag),
                };
                self.core.on_account(Ok(Some(sequence)), "", &self.table)
            }
            ModelRequest::Simulate { id, sequence } => {
                let expected = self.chain.expected_sequence(lag);
                let answer = if expected == sequence { Ok(1) } else { Err(simulation_refusal(expected, sequence)) };
                self.core.on_simulation(id, answer, &self.table)
            }
            ModelRequest::ConfirmSequence { id } => {
                let expected = self.chain.expected_sequence(lag);
                self.core.on_sequence_confirmation(id, Ok(expected), &self.table)
            }
            ModelRequest::WriteJournal { id, hash } => {
                self.journaled.insert(hash.clone());
                self.request = Some(ModelRequest::Broadcast { id, hash });
                Vec::new()
            }
            ModelRequest::Broadcast { id, hash } => {
                let answer = self.chain.check_tx(&hash, lag);
                self.core.on_broadcast(id, &hash, Ok(answer), &self.table)
            }
            ModelRequest::Rebroadcast { hash } => {
                let answer = hash.as_ref().map_or(BroadcastOutcome::Accepted, |hash| self.chain.check_tx(hash, lag));
                self.core.on_rebroadcast(hash.as_deref(), Ok(answer), &self.table)
            }
        };
        self.perform(effects);
    }

    /// The node lies in its answer. False when it has no such lie.
    pub(super) fn answer_with_lie(&mut self, request: ModelRequest, lie: NodeLie) -> bool {
        let expected = self.chain.expected_sequence(0) + LIE;
        let relayed = |world: &mut Self, hash: &String, code| {
            world.chain.other_mempools.insert(hash.clone());
            let raw_log =
                if code == 32 { wrong_sequence(expected, HashParts::of(hash).sequence) } else { String::new() };
            refused(code, raw_log)
        };
        let code = match lie {
            NodeLie::HighSequence | NodeLie::CommittedSequence => 32,
            NodeLie::RelayedRefusal(code) => code,
        };
        let effects = match (request, lie) {
            (ModelRequest::ReadAccount, NodeLie::HighSequence) => {
                let sequence = self.chain.sequence_at(self.chain.height()) + LIE;
                self.core.on_account(Ok(Some(sequence)), "", &self.table)
            }
            (ModelRequest::ReadAccount, NodeLie::CommittedSequence) => {
                let sequence = self.chain.sequence_at(self.chain.height());
                self.core.on_account(Ok(Some(sequence)), "", &self.table)
            }
            (_, NodeLie::CommittedSequence) => return false,
            (ModelRequest::Simulate { id, sequence }, NodeLie::HighSequence) => {
                self.core.on_simulation(id, Err(simulation_refusal(sequence + LIE, sequence)), &self.table)
            }
            (ModelRequest::ConfirmSequence { id }, NodeLie::HighSequence) => {
                self.core.on_sequence_confirmation(id, Ok(expected), &self.table)
            }
            (ModelRequest::Broadcast { id, hash }, _) => {
                let answer = relayed(self, &hash, code);
                self.core.on_broadcast(id, &hash, Ok(answer), &self.table)
            }
            (ModelRequest::Rebroadcast { hash: Some(hash) }, _) => {
                let answer = relayed(self, &hash, code);
                self.core.on_rebroadcast(Some(&hash), Ok(answer), &self.table)
            }
            _ => return false,
        };
        self.perform(effects);
        true
    }

    /// No byte is sent: no connection, or a journal that cannot be written. An earlier record of the journal stays.
    pub(super) fn send_nothing(&mut self, request: &ModelRequest) {
        let error =
            || NodeClientError::Upstream(UpstreamError::Paused { kind: UpstreamKind::Rpc, origin: String::new() });
        let effects = match request {
            ModelRequest::Broadcast { id, hash } => self.core.on_broadcast(*id, hash, Err(error()), &self.table),
            ModelRequest::Rebroadcast { hash } => self.core.on_rebroadcast(hash.as_deref(), Err(error()), &self.table),
            ModelRequest::ReadAccount
            | ModelRequest::Simulate { .. }
            | ModelRequest::ConfirmSequence { .. }
            | ModelRequest::WriteJournal { .. } => return,
        };
        self.perform(effects);
    }

    /// The answer is lost; the request may still reach the node.
    pub(super) fn lose_answer(&mut self, request: ModelRequest) {
        self.chain.delayed.extend(request.sent_hash().cloned());
        let effects = match request {
            ModelRequest::ReadAccount => self.core.on_account(Err(unreachable_error()), "", &self.table),
            ModelRequest::Simulate { id, .. } => {
                self.core.on_simulation(id, Err(SimulationError::NoAnswer(unreachable_error())), &self.table)
            }
            ModelRequest::ConfirmSequence { id } => {
                self.core.on_sequence_confirmation(id, Err(unreachable_error()), &self.table)
            }
            ModelRequest::WriteJournal { id, hash } => {
                self.table.retract(&hash);
                self.core.on_send_failure(id, SubmitError::Journal(String::new()), &self.table)
            }
            ModelRequest::Broadcast { id, hash } => {
                self.core.on_broadcast(id, &hash, Err(unreachable_error()), &self.table)
            }
            ModelRequest::Rebroadcast { hash } => {
                self.core.on_rebroadcast(hash.as_deref(), Err(unreachable_error()), &self.table)
            }
        };
        self.perform(effects);
    }
}
