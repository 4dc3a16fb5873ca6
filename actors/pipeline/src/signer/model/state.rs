//! A state of the model: the code that ships, between a chain and callers that do the worst they may.

use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    ops::RangeInclusive,
};

use super::{
    callers::{CallerAnswer, CallerPhase, CallerRequest, ModelCaller},
    chain::{BlockContent, HashParts, ModelChain, submission_number},
};
use crate::{
    confirmer::core::{
        BlockEvidence, NodeFacts, PendingTx, PendingVerdict, SequenceFact, decisive_heights, judge_evidence,
        wider_heights,
    },
    signer::{
        core::{SignerCore, WithdrawalOutcome},
        effects::SignerEffect,
        queue::QueuedWrite,
        window::WindowBound,
    },
    write::{
        error::SubmitError,
        fee::{FeeBudget, FeePolicy},
        in_flight::{InFlightTable, InFlightTx},
        submission::SubmissionId,
    },
};

/// Blocks a transaction is given.
const TX_LIFETIME: u64 = 1;
/// Height at which exploration ends; the calls that are open then continue without faults.
pub(super) const MAX_HEIGHT: u64 = 9;
/// Blocks a node that is behind is behind.
pub(super) const NODE_LAG: u64 = 2;
/// Heights and sequences that a lie adds.
pub(super) const LIE: u64 = 1;

/// A request of the signer that has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ModelRequest {
    ReadAccount,
    Simulate {
        id: SubmissionId,
        sequence: u64,
    },
    ConfirmSequence {
        id: SubmissionId,
    },
    /// To be on disk, and then to leave.
    WriteJournal {
        id: SubmissionId,
        hash: String,
    },
    Broadcast {
        id: SubmissionId,
        hash: String,
    },
    Rebroadcast {
        hash: Option<String>,
    },
}

impl ModelRequest {
    /// The transaction that it sends.
    pub(super) fn sent_hash(&self) -> Option<&String> {
        match self {
            Self::Broadcast { hash, .. } => Some(hash),
            Self::Rebroadcast { hash } => hash.as_ref(),
            Self::ReadAccount | Self::Simulate { .. } | Self::ConfirmSequence { .. } | Self::WriteJournal { .. } => {
                None
            }
        }
    }
}

/// A lookup of a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ModelLookup {
    /// Blocks that the stated height is behind.
    pub lag: u64,
    /// Blocks that the stated account is behind.
    pub account_lag: u64,
    /// The index answers, and its answer decides alone.
    pub is_indexed: bool,
    /// The node states too high a sequence and too high a height.
    pub is_lie: bool,
    /// The node states the account as that of an old height.
    pub has_low_state: bool,
}

#[derive(Clone)]
pub(super) struct ModelState {
    pub core: SignerCore,
    pub table: InFlightTable,
    pub request: Option<ModelRequest>,
    pub callers: Vec<ModelCaller>,
    signed_count: u64,
    /// On disk.
    pub journaled: BTreeSet<String>,
    pub chain: ModelChain,
    /// The next signature believes a height that is too high.
    pub is_clock_ahead: bool,
    pub faults_left: u32,
}

impl ModelState {
    pub(super) fn new(callers: usize, faults: u32, window: usize) -> Self {
        let mut world = Self {
            core: SignerCore::new(FeePolicy::at_price(0), WindowBound::Fixed(window), false),
            table: InFlightTable::default(),
            request: None,
            callers: vec![ModelCaller::new(); callers],
            signed_count: 0,
            journaled: BTreeSet::new(),
            chain: ModelChain::new(),
            is_clock_ahead: false,
            faults_left: faults,
        };
        world.submit_waiting();
        world
    }

    /// The caller hands its write to the signer once more.
    fn submit_new(&mut self, index: usize) {
        let caller = &mut self.callers[index];
        caller.phase = CallerPhase::Submitting;
        caller.submission_count += 1;
        caller.submissions.push(SubmissionId(submission_number(index as u64 + 1, caller.submission_count)));
        self.submit(index);
    }

    fn submit(&mut self, index: usize) {
        let caller = &self.callers[index];
        let Some(id) = caller.submissions.last().copied() else { return };
        let granter = (!caller.retry.pays_itself).then_some(FeeBudget::Unlimited);
        let write =
            QueuedWrite { required_sequence: caller.required_sequence, ..QueuedWrite::new(id, "s".into(), granter) };
        let effects = self.core.submit(write, &self.table);
        self.perform(effects);
    }

    /// Callers without an answer of the signer ask it, or the next incarnation; the signer finds an earlier submission.
    pub(super) fn submit_waiting(&mut self) {
        for index in 0..self.callers.len() {
            let caller = &mut self.callers[index];
            if caller.phase != CallerPhase::Submitting {
                continue;
            }
            match caller.submissions.last().copied() {
                Some(id) if self.table.find_by_submission(id).is_some() => caller.on_signed(),
                Some(_) => self.submit(index),
                None => self.submit_new(index),
            }
        }
    }

    /// Every caller goes on as far as it can.
    pub(super) fn advance_callers(&mut self) {
        for index in 0..self.callers.len() {
            while let CallerRequest::Submit = self.callers[index].advance(&self.table) {
                self.submit_new(index);
            }
        }
    }

    pub(super) fn perform(&mut self, effects: Vec<SignerEffect>) {
        for effect in effects {
            match effect {
                SignerEffect::ReadAccount => self.request = Some(ModelRequest::ReadAccount),
                SignerEffect::Simulate { id, sequence, .. } => {
                    self.request = Some(ModelRequest::Simulate { id, sequence })
                }
                SignerEffect::ConfirmSequence { id } => self.request = Some(ModelRequest::ConfirmSequence { id }),
                SignerEffect::ConfirmAllowance { id } => {
                    let effects = self.core.on_allowance_confirmation(id, Ok(false), &self.table);
                    self.perform(effects);
                }
                SignerEffect::SignAndBroadcast { id, sequence, offer } => self.sign(id, sequence, offer.with_granter),
                SignerEffect::Rebroadcast { sequence } => {
                    let hash = self.table.live_at(sequence).map(|entry| entry.hash.clone());
                    self.journaled.extend(hash.clone());
                    self.request = Some(ModelRequest::Rebroadcast { hash });
                }
                SignerEffect::Retract { hash } => {
                    self.table.retract(&hash);
                    self.journaled.remove(&hash);
                }
                SignerEffect::Refuse { hash, refusal } => {
                    self.table.refuse(&hash, refusal);
                }
                SignerEffect::ChooseNode => {}
                SignerEffect::AskPrice { id } => {
                    let effects = self.core.on_price(id, &self.table);
                    self.perform(effects);
                }
                SignerEffect::Answer { id, outcome } => {
                    let call = HashParts { submission: id.0, sequence: 0, timeout_height: 0, number: 0 }.call();
                    let caller = &mut self.callers[usize::try_from(call).unwrap_or(1) - 1];
                    assert_eq!(caller.phase, CallerPhase::Submitting, "the signer answers once");
                    match outcome {
                        Ok(_) => caller.on_signed(),
                        Err(SubmitError::SequenceMoved { .. }) => caller.on_not_signed(true, &self.table),
                        Err(_) => caller.on_not_signed(false, &self.table),
                    }
                }
            }
        }
    }

    fn sign(&mut self, id: SubmissionId, sequence: u64, has_granter: bool) {
        let lie = if std::mem::take(&mut self.is_clock_ahead) { LIE } else { 0 };
        let signed_height = self.chain.height() + lie;
        let timeout_height = signed_height + TX_LIFETIME;
        self.signed_count += 1;
        let hash = HashParts { submission: id.0, sequence, timeout_height, number: self.signed_count }.hash();
        self.table.add(InFlightTx {
            timeout_height,
            signed_height,
            has_granter,
            ..InFlightTx::sample(&hash, id, sequence)
        });
        self.request = Some(ModelRequest::WriteJournal { id, hash });
    }

    pub(super) fn append_block(&mut self, content: BlockContent) {
        self.chain.append_block(content);
        let effects = self.core.on_block(&self.table);
        self.perform(effects);
    }

    /// The confirmer looks at a transaction, at a node that is behind, whose account is newer than its height, whose index may lack
    /// any block for good, and that may lie about both.
    pub(super) fn look_up(&mut self, hash: &str, lookup: ModelLookup) {
        let ModelLookup { lag, account_lag, is_indexed, is_lie, has_low_state } = lookup;
        let lie = if is_lie { LIE } else { 0 };
        let seen = self.chain.height().saturating_sub(lag);
        let account_height = self.chain.height().saturating_sub(account_lag);
        let stated_height = if has_low_state { 1 } else { account_height + lie };
        let sequence = self.chain.sequence_at(account_height) + lie;
        let sequence = SequenceFact { sequence, height: stated_height, account_number: 1 };
        let facts = NodeFacts { height: seen + lie, sequence: Some(sequence) };
        let Some(entry) = self.table.get(hash).filter(|entry| entry.outcome.is_none()) else { return };
        // A clock ahead of the chain hides the blocks before this height.
        let pending = PendingTx { search_from: entry.signed_height + 1, ..PendingTx::from(entry) };
        let mut evidence = match decisive_heights(&pending, &facts).filter(|_| !is_indexed) {
            Some(heights) => self.search_blocks(&pending, &facts, heights),
            None => BlockEvidence {
                results: if is_indexed { self.chain.results_in(hash, 1, seen) } else { Vec::new() },
                searched_through: pending.search_from - 1,
                ..BlockEvidence::default()
            },
        };
        // As `search_wider`.
        for heights in wider_heights(&pending, &facts, &evidence).into_iter().filter(|_| !is_indexed) {
            let found = self.search_blocks(&pending, &facts, heights);
            if found.displaced_at.is_some() || !found.results.is_empty() {
                (evidence.displaced_at, evidence.results) = (found.displaced_at, found.results);
                break;
            }
        }
        let effects = match judge_evidence(&pending, &facts, &evidence) {
            Ok(outcome) => {
                let uses_sequence = outcome.uses_sequence(pending.sequence);
                self.table.decide(hash, outcome);
                self.core.on_tx_decided(uses_sequence, &self.table)
            }
            Err(PendingVerdict::AnteFailure(refusal)) if self.table.refuse(hash, refusal.clone()) => {
                self.core.on_tx_decided(false, &self.table)
            }
            Err(PendingVerdict::Missing) => self.core.recheck_in_flight(&self.table),
            Err(_) => return,
        };
        self.perform(effects);
    }

    /// The blocks of these heights. A block that the node claims to have and cannot show is missing.
    fn search_blocks(&self, pending: &PendingTx, facts: &NodeFacts, heights: RangeInclusive<u64>) -> BlockEvidence {
        let (first, last) = (*heights.start(), *heights.end());
        let is_used = facts.used_at(pending.sequence).is_some();
        BlockEvidence {
            results: self.chain.results_in(&pending.hash, first, last),
            searched_through: last.max(first - 1),
            missing: (first.max(self.chain.height() + 1)..=last).collect(),
            displaced_at: self.chain.displaced_at(&pending.hash, first, last).filter(|_| is_used),
            ..BlockEvidence::default()
        }
    }

    /// The node forgets its mempool; other nodes keep it.
    pub(super) fn forget_mempool(&mut self) {
        let lost = std::mem::take(&mut self.chain.mempool);
        self.chain.other_mempools.extend(lost);
        let effects = self.core.recheck_in_flight(&self.table);
        self.perform(effects);
    }

    /// A caller takes its write back. One that is being handed over is answered for by that.
    pub(super) fn withdraw_caller(&mut self, index: usize) {
        let Some(id) = self.callers[index].submissions.last().copied() else { return };
        let (withdrawal, effects) = self.core.withdraw(id, &self.table);
        if withdrawal == WithdrawalOutcome::Withdrawn {
            self.callers[index].on_not_signed(false, &self.table);
            let is_of_caller = |request: &mut ModelRequest| match request {
                ModelRequest::Simulate { id: asked, .. } | ModelRequest::ConfirmSequence { id: asked } => *asked == id,
                _ => false,
            };
            self.request.take_if(is_of_caller);
        }
        self.perform(effects);
    }

    fn start_signer(&mut self) {
        // No task waits for the answer any more, and a broadcast may still arrive.
        let abandoned = self.request.take();
        self.chain.delayed.extend(abandoned.as_ref().and_then(ModelRequest::sent_hash).cloned());
        let window = WindowBound::Fixed(self.core.window_size());
        self.core = SignerCore::new(FeePolicy::at_price(0), window, self.table.live().len() > 0);
        let effects = self.core.on_tick(&self.table);
        self.perform(effects);
    }

    pub(super) fn crash_signer(&mut self) {
        self.start_signer();
        self.submit_waiting();
    }

    /// The process crashes, and a new one starts from the journal. Callers repeat their calls under the same keys.
    pub(super) fn crash_process(&mut self) {
        let mut table = InFlightTable::with_sequence_floor(self.table.sequence_floor());
        let mut known: Vec<&InFlightTx> = self.table.all().collect();
        known.retain(|entry| entry.outcome.is_some() || self.journaled.contains(&entry.hash));
        // In the order in which they were written down: the last of a call counts.
        known.sort_by_key(|entry| HashParts::of(&entry.hash).number);
        for entry in known {
            let outcome = entry.outcome.clone();
            table.add(InFlightTx { outcome: None, ..entry.clone() });
            if let Some(outcome) = outcome {
                table.decide(&entry.hash, outcome);
            }
        }
        self.table = table;
        for caller in &mut self.callers {
            caller.on_process_death(&self.table);
        }
        self.start_signer();
        self.submit_waiting();
    }

    pub(super) fn repeat_call(&mut self, index: usize) {
        self.callers[index].repeat();
        self.submit_new(index);
    }

    /// The invariants of every state.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        for (index, caller) in self.callers.iter().enumerate() {
            let call = index as u64 + 1;
            let executed: Vec<HashParts> = self.chain.executed().filter(|parts| parts.call() == call).collect();
            let is_disclaimed =
                |parts: &&HashParts| caller.disclaimed.iter().any(|submission| submission.0 == parts.submission);
            if executed.len() > 1 {
                return Err(format!("call {call} was executed {} times", executed.len()));
            }
            if caller.answer == Some(CallerAnswer::Included) && executed.is_empty() {
                return Err(format!("call {call}: told included, is not"));
            }
            if let Some(parts) = executed.iter().find(is_disclaimed) {
                return Err(format!("call {call}: told {:?}, and {} was executed", caller.answer, parts.hash()));
            }
        }
        let mut last = None;
        for entry in self.table.live() {
            if last == Some(entry.sequence) {
                return Err(format!("two transactions are live at sequence {}", entry.sequence));
            }
            last = Some(entry.sequence);
        }
        Ok(())
    }

    /// Without further faults every caller gets an answer, and every transaction is decided.
    pub(super) fn check_termination(&self) -> Result<(), String> {
        let mut world = self.clone();
        for _ in 0..400 {
            if world.callers.iter().all(|caller| caller.answer.is_some() && caller.phase == CallerPhase::Ended) {
                return world.check_invariants();
            }
            if let Some(request) = world.request.take() {
                world.answer(request, 0);
                world.advance_callers();
                continue;
            }
            world.append_block(BlockContent::Full { prefers_last: false });
            let pending: Vec<String> =
                world.table.live().chain(world.table.refused()).map(|entry| entry.hash.clone()).collect();
            pending.iter().for_each(|hash| world.look_up(hash, ModelLookup::default()));
            world.advance_callers();
            world.check_invariants()?;
        }
        Err(format!("no answer: {:?} {:?}", world.callers, world.core))
    }

    pub(super) fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let entries: Vec<_> = self
            .table
            .all()
            .map(|entry| (&entry.hash, &entry.refusal, entry.outcome.as_ref().map(|o| o.label())))
            .collect();
        (&self.core, &self.request, &self.callers, &self.chain, self.is_clock_ahead).hash(&mut hasher);
        (self.faults_left, self.signed_count, &self.journaled, entries, self.table.sequence_floor()).hash(&mut hasher);
        hasher.finish()
    }
}
