//! The chain that does the worst it may, and the code that ships in the middle of it.

use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use svc_net::upstream::{BroadcastOutcome, NodeClientError, UpstreamError, UpstreamKind};
use svc_wire::{chain_error::ChainError, comet_rpc::ExecTxResult};

use crate::{
    chain::simulation::SimulationError,
    confirmer::core::{
        AbsenceVerdict, BlockEvidence, NodeFacts, PendingTx, SequenceFact, decisive_heights, judge_evidence,
    },
    signer::{
        core::{SignerCore, WithdrawalOutcome},
        effects::SignerEffect,
        queue::QueuedWrite,
        window::WindowBound,
    },
    write::{
        error::SubmitError,
        fee::FeePolicy,
        in_flight::{InFlightTable, InFlightTx},
        intent::WriteIntent,
        outcome::WriteOutcome,
        submission::SubmissionId,
    },
};

/// Blocks a transaction is given.
const TX_LIFETIME: u64 = 1;
/// Height at which exploration ends; the calls that are open then continue without faults.
const MAX_HEIGHT: u64 = 9;
/// Blocks a node that is behind is behind.
const NODE_LAG: u64 = 2;
/// Sequence at the beginning.
const FIRST_SEQUENCE: u64 = 5;
const FOREIGN_TX: &str = "foreign";

/// A request of the signer that has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ModelRequest {
    ReadAccount,
    Simulate {
        id: SubmissionId,
        sequence: u64,
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

/// A lookup of a transaction.
#[derive(Default)]
struct ModelLookup {
    /// Blocks that the stated height is behind.
    lag: u64,
    /// Blocks that the stated account is behind.
    account_lag: u64,
    /// The index answers, and its answer decides alone.
    is_indexed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ModelCaller {
    Waiting,
    Following(String),
    Answered(CallerAnswer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CallerAnswer {
    Refused,
    Included,
    NotExecuted,
}

#[derive(Clone)]
pub struct ModelState {
    core: SignerCore,
    table: InFlightTable,
    request: Option<ModelRequest>,
    callers: Vec<ModelCaller>,
    signed_count: u32,
    /// On disk.
    journaled: BTreeSet<String>,
    /// Left without an answer, and may arrive yet.
    delayed_txs: BTreeSet<String>,
    mempool: Vec<String>,
    /// In the mempools of others.
    other_mempools: BTreeSet<String>,
    blocks: Vec<Vec<String>>,
    faults_left: u32,
}

fn unreachable_error() -> NodeClientError {
    NodeClientError::Upstream(UpstreamError::Unreachable {
        kind: UpstreamKind::Rpc,
        origin: String::new(),
        reason: String::new(),
    })
}

/// A hash contains all that the model needs of a transaction: call, sequence, timeout height, number of earlier signatures.
fn hash_of(id: SubmissionId, sequence: u64, timeout: u64, number: u32) -> String {
    format!("{}/{sequence}/{timeout}/{number}", id.0)
}

fn hash_parts(hash: &str) -> (u64, u64, u64, u64) {
    let mut numbers = hash.split('/').map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next(), next())
}

impl ModelState {
    pub fn new(callers: usize, faults: u32, window: usize) -> Self {
        let mut world = Self {
            core: SignerCore::new(FeePolicy::at_price(0), WindowBound::Fixed(window), false),
            table: InFlightTable::default(),
            request: None,
            callers: vec![ModelCaller::Waiting; callers],
            signed_count: 0,
            journaled: BTreeSet::new(),
            delayed_txs: BTreeSet::new(),
            mempool: Vec::new(),
            other_mempools: BTreeSet::new(),
            blocks: vec![Vec::new()],
            faults_left: faults,
        };
        world.submit_waiting();
        world
    }

    fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn sequence_at(&self, height: u64) -> u64 {
        FIRST_SEQUENCE
            + self.blocks.iter().take(usize::try_from(height).unwrap_or(0)).map(|block| block.len() as u64).sum::<u64>()
    }

    /// Results of a transaction in the blocks up to a height.
    fn results_in(&self, hash: &str, height: u64) -> Vec<(u64, Box<ExecTxResult>)> {
        let seen = self.blocks.iter().take(usize::try_from(height).unwrap_or(0));
        let containing = seen.zip(1..).filter(|(block, _)| block.iter().any(|known| known == hash));
        containing.map(|(_, height)| (height, Box::default())).collect()
    }

    /// Callers without an answer call, or repeat their call; the signer finds an earlier submission.
    fn submit_waiting(&mut self) {
        for index in 0..self.callers.len() {
            if self.callers[index] != ModelCaller::Waiting {
                continue;
            }
            let id = SubmissionId(index as u64 + 1);
            if let Some(entry) = self.table.find_by_submission(id) {
                self.callers[index] = ModelCaller::Following(entry.hash.clone());
            } else {
                let effects = self.core.submit(QueuedWrite::new(id, "s".into(), None), &self.table);
                self.perform(effects);
            }
        }
    }

    fn perform(&mut self, effects: Vec<SignerEffect>) {
        for effect in effects {
            match effect {
                SignerEffect::ReadAccount => self.request = Some(ModelRequest::ReadAccount),
                SignerEffect::Simulate { id, sequence, .. } => {
                    self.request = Some(ModelRequest::Simulate { id, sequence })
                }
                SignerEffect::SignAndBroadcast { id, sequence, .. } => {
                    let timeout_height = self.height() + TX_LIFETIME;
                    self.signed_count += 1;
                    let hash = hash_of(id, sequence, timeout_height, self.signed_count);
                    let entry = InFlightTx {
                        submission_id: id,
                        hash: hash.clone(),
                        bytes: Vec::new(),
                        sequence,
                        timeout_height,
                        signed_height: self.height(),
                        intent: WriteIntent::sample(),
                        has_granter: false,
                        outcome: None,
                        missing_blocks: Vec::new(),
                    };
                    self.table.add(entry);
                    self.request = Some(ModelRequest::WriteJournal { id, hash });
                }
                SignerEffect::Rebroadcast { sequence } => {
                    let hash = self.table.live_at(sequence).map(|entry| entry.hash.clone());
                    self.journaled.extend(hash.clone());
                    self.request = Some(ModelRequest::Rebroadcast { hash });
                }
                SignerEffect::Retract { hash } => {
                    self.table.retract(&hash);
                    self.journaled.remove(&hash);
                }
                SignerEffect::ChooseNode => {}
                SignerEffect::Answer { id, outcome } => {
                    let caller = &mut self.callers[usize::try_from(id.0).unwrap_or(1) - 1];
                    assert_eq!(*caller, ModelCaller::Waiting, "a caller is answered once");
                    *caller = match outcome {
                        Ok(hash) => ModelCaller::Following(hash),
                        Err(_) => ModelCaller::Answered(CallerAnswer::Refused),
                    };
                }
            }
        }
    }

    /// CheckTx of a node that is `lag` blocks behind.
    fn check_tx(&mut self, hash: &str, lag: u64) -> BroadcastOutcome {
        let (_, sequence, timeout, _) = hash_parts(hash);
        let seen = self.height().saturating_sub(lag);
        if lag == 0 && self.mempool.iter().any(|known| known == hash) {
            return BroadcastOutcome::Accepted;
        }
        let waiting = if lag == 0 { self.mempool.len() as u64 } else { 0 };
        let expected = self.sequence_at(seen) + waiting;
        let refuse = |code, raw_log| BroadcastOutcome::Refused(ChainError { codespace: "sdk".into(), code, raw_log });
        if seen > timeout {
            return refuse(30, String::new());
        }
        if sequence != expected {
            return refuse(32, format!("account sequence mismatch, expected {expected}, got {sequence}"));
        }
        if lag == 0 {
            self.mempool.push(hash.to_owned());
        } else {
            self.other_mempools.insert(hash.to_owned());
        }
        BroadcastOutcome::Accepted
    }

    /// The node answers the pending request of the signer.
    fn answer(&mut self, request: ModelRequest, lag: u64) {
        let seen = self.height().saturating_sub(lag);
        let effects = match request {
            ModelRequest::ReadAccount => self.core.on_account(Ok(Some(self.sequence_at(seen))), "", &self.table),
            ModelRequest::Simulate { id, sequence } => {
                let waiting = if lag == 0 { self.mempool.len() as u64 } else { 0 };
                let expected = self.sequence_at(seen) + waiting;
                let raw_log = format!("account sequence mismatch, expected {expected}, got {sequence}");
                let error = ChainError { codespace: "sdk".into(), code: 6, raw_log };
                let answer = if expected == sequence { Ok(1) } else { Err(SimulationError::Refused(error)) };
                self.core.on_simulation(id, answer, &self.table)
            }
            ModelRequest::WriteJournal { id, hash } => {
                self.journaled.insert(hash.clone());
                self.request = Some(ModelRequest::Broadcast { id, hash });
                Vec::new()
            }
            ModelRequest::Broadcast { id, hash } => {
                let answer = self.check_tx(&hash, lag);
                self.core.on_broadcast(id, &hash, Ok(answer), &self.table)
            }
            ModelRequest::Rebroadcast { hash } => {
                let answer = hash.map_or(BroadcastOutcome::Accepted, |hash| self.check_tx(&hash, lag));
                self.core.on_rebroadcast(Ok(answer), &self.table)
            }
        };
        self.perform(effects);
    }

    /// The answer is lost; the request may still reach the node.
    fn lose_answer(&mut self, request: ModelRequest) {
        let effects = match request {
            ModelRequest::ReadAccount => self.core.on_account(Err(unreachable_error()), "", &self.table),
            ModelRequest::Simulate { id, .. } => {
                self.core.on_simulation(id, Err(SimulationError::NoAnswer(unreachable_error())), &self.table)
            }
            ModelRequest::WriteJournal { id, hash } => {
                self.table.retract(&hash);
                self.core.on_send_failure(id, SubmitError::Journal(String::new()), &self.table)
            }
            ModelRequest::Broadcast { id, hash } => {
                self.delayed_txs.insert(hash.clone());
                self.core.on_broadcast(id, &hash, Err(unreachable_error()), &self.table)
            }
            ModelRequest::Rebroadcast { hash } => {
                self.delayed_txs.extend(hash);
                self.core.on_rebroadcast(Err(unreachable_error()), &self.table)
            }
        };
        self.perform(effects);
    }

    fn produce_block(&mut self, is_full: bool) {
        let (height, mut next, mut txs) = (self.height() + 1, self.sequence_at(self.height()), Vec::new());
        let waiting: BTreeSet<String> = self.mempool.iter().cloned().chain(self.other_mempools.clone()).collect();
        let fits = |hash: &&String, next: u64| {
            let (_, sequence, timeout, _) = hash_parts(hash);
            is_full && sequence == next && height <= timeout
        };
        while let Some(hash) = waiting.iter().find(|hash| fits(hash, next)) {
            txs.push(hash.clone());
            next += 1;
        }
        self.append_block(txs);
    }

    fn append_block(&mut self, txs: Vec<String>) {
        self.blocks.push(txs);
        // The recheck removes the transactions that no longer pass, in order.
        let mut next = self.sequence_at(self.height());
        let height = self.height();
        self.mempool.retain(|hash| {
            let (_, sequence, timeout, _) = hash_parts(hash);
            let passes = sequence == next && height < timeout;
            next += u64::from(passes);
            passes
        });
        let effects = self.core.on_block(&self.table);
        self.perform(effects);
    }

    /// The confirmer looks at a transaction, at a node that is behind, whose account is newer than its height, and whose index may
    /// lack any block for good.
    fn look_up(&mut self, hash: &str, lookup: ModelLookup) {
        let ModelLookup { lag, account_lag, is_indexed } = lookup;
        let (seen, account_height) = (self.height().saturating_sub(lag), self.height().saturating_sub(account_lag));
        let sequence = SequenceFact { sequence: self.sequence_at(account_height), height: account_height };
        let facts = NodeFacts { height: seen, sequence: Some(sequence) };
        let Some(pending) = self.table.get(hash).filter(|entry| entry.outcome.is_none()).map(PendingTx::from) else {
            return;
        };
        let decisive = decisive_heights(&pending, &facts).filter(|_| !is_indexed);
        let (searched_through, results) = match decisive {
            Some(heights) => (*heights.end().max(&pending.signed_height), self.results_in(hash, *heights.end())),
            None if is_indexed => (pending.signed_height, self.results_in(hash, seen)),
            None => (pending.signed_height, Vec::new()),
        };
        let evidence = BlockEvidence { results, searched_through, missing: Vec::new() };
        let effects = match judge_evidence(&pending, &facts, &evidence) {
            Ok(outcome) => {
                let uses_sequence = outcome.uses_sequence(pending.sequence);
                self.table.decide(hash, outcome);
                self.journaled.remove(hash);
                self.core.on_tx_decided(uses_sequence, &self.table)
            }
            Err(AbsenceVerdict::Missing) => self.core.recheck_in_flight(&self.table),
            Err(_) => return,
        };
        self.perform(effects);
    }

    /// A caller takes its write back. One that is being handed over is answered for by that.
    fn withdraw_caller(&mut self, index: usize) {
        let (withdrawal, effects) = self.core.withdraw(SubmissionId(index as u64 + 1), &self.table);
        if withdrawal == WithdrawalOutcome::Withdrawn {
            self.callers[index] = ModelCaller::Answered(CallerAnswer::Refused);
            let id = SubmissionId(index as u64 + 1);
            self.request.take_if(|request| matches!(request, ModelRequest::Simulate { id: asked, .. } if *asked == id));
        }
        self.perform(effects);
    }

    /// Nothing waits for the answer any more, and a broadcast may still arrive.
    fn abandon_request(&mut self) {
        if let Some(ModelRequest::Broadcast { hash, .. } | ModelRequest::Rebroadcast { hash: Some(hash) }) =
            self.request.take()
        {
            self.delayed_txs.insert(hash);
        }
    }

    fn start_signer(&mut self) {
        self.core = SignerCore::new(
            FeePolicy::at_price(0),
            WindowBound::Fixed(self.core.window_size()),
            self.table.live().len() > 0,
        );
        let effects = self.core.on_tick(&self.table);
        self.perform(effects);
        self.submit_waiting();
    }

    fn crash_signer(&mut self) {
        self.abandon_request();
        self.start_signer();
    }

    /// The process crashes, and a new one starts from the journal. Callers repeat their calls under the same keys.
    fn crash_process(&mut self) {
        self.abandon_request();
        let mut table = InFlightTable::with_sequence_floor(self.table.sequence_floor());
        let mut known: Vec<&InFlightTx> = self.table.all().collect();
        known.retain(|entry| entry.outcome.is_some() || self.journaled.contains(&entry.hash));
        // In the order in which they were written down: the last of a call counts.
        known.sort_by_key(|entry| hash_parts(&entry.hash).3);
        for entry in known {
            let outcome = entry.outcome.clone();
            table.add(InFlightTx { outcome: None, ..entry.clone() });
            if let Some(outcome) = outcome {
                table.decide(&entry.hash, outcome);
            }
        }
        self.table = table;
        for caller in &mut self.callers {
            if matches!(caller, ModelCaller::Following(_)) {
                *caller = ModelCaller::Waiting;
            }
        }
        self.start_signer();
    }

    /// Answers the callers whose transaction has an outcome.
    fn answer_callers(&mut self) {
        for caller in &mut self.callers {
            let decided = match caller {
                ModelCaller::Following(hash) => self.table.get(hash).and_then(|entry| entry.outcome.clone()),
                ModelCaller::Waiting | ModelCaller::Answered(_) => None,
            };
            if let Some(outcome) = decided {
                let is_included = matches!(outcome, WriteOutcome::Included { .. });
                *caller =
                    ModelCaller::Answered(if is_included { CallerAnswer::Included } else { CallerAnswer::NotExecuted });
            }
        }
    }

    /// Everything that can happen next.
    pub fn successors(&self) -> Vec<(String, Self)> {
        let mut all: Vec<(String, Self)> = Vec::new();
        let mut add = |label: String, cost: u32, act: &dyn Fn(&mut Self)| {
            if cost <= self.faults_left {
                let mut next = self.clone();
                next.faults_left -= cost;
                act(&mut next);
                next.answer_callers();
                all.push((label, next));
            }
        };
        if let Some(request) = &self.request {
            let take = |world: &mut Self| world.request.take().unwrap_or(ModelRequest::ReadAccount);
            add(format!("answer {request:?}"), 0, &|world| {
                let request = take(world);
                world.answer(request, 0);
            });
            add(format!("answer from behind {request:?}"), 1, &|world| {
                let request = take(world);
                world.answer(request, NODE_LAG);
            });
            add(format!("lose {request:?}"), 1, &|world| {
                let request = take(world);
                world.lose_answer(request);
            });
        }
        for hash in &self.delayed_txs {
            add(format!("late arrival {hash}"), 0, &|world| {
                world.delayed_txs.remove(hash);
                world.check_tx(hash, 0);
            });
        }
        if self.height() < MAX_HEIGHT {
            add("block".to_owned(), 0, &|world| world.produce_block(true));
            if !self.mempool.is_empty() || !self.other_mempools.is_empty() {
                add("empty block".to_owned(), 0, &|world| world.produce_block(false));
            }
            add("foreign transaction".to_owned(), 1, &|world| world.append_block(vec![FOREIGN_TX.to_owned()]));
        }
        let live: Vec<String> = self.table.live().map(|entry| entry.hash.clone()).collect();
        for hash in &live {
            add(format!("look {hash}"), 0, &|world| world.look_up(hash, ModelLookup::default()));
            add(format!("look between two blocks {hash}"), 0, &|world| {
                world.look_up(hash, ModelLookup { lag: 1, ..ModelLookup::default() });
            });
            add(format!("look in the index {hash}"), 0, &|world| {
                world.look_up(hash, ModelLookup { is_indexed: true, ..ModelLookup::default() });
            });
            add(format!("look behind {hash}"), 1, &|world| {
                world.look_up(hash, ModelLookup { lag: NODE_LAG, account_lag: NODE_LAG, is_indexed: false });
            });
        }
        if !self.mempool.is_empty() {
            add("the node forgets".to_owned(), 1, &|world| {
                let lost = std::mem::take(&mut world.mempool);
                world.other_mempools.extend(lost);
                let effects = world.core.recheck_in_flight(&world.table);
                world.perform(effects);
            });
        }
        for (index, caller) in self.callers.iter().enumerate() {
            if *caller == ModelCaller::Waiting {
                add(format!("caller {} gives up", index + 1), 1, &|world| world.withdraw_caller(index));
            }
        }
        add("the signer dies".to_owned(), 1, &Self::crash_signer);
        add("the process dies".to_owned(), 1, &Self::crash_process);
        all
    }

    /// The invariants of every state.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (index, caller) in self.callers.iter().enumerate() {
            let id = index as u64 + 1;
            let executed =
                self.blocks.iter().flatten().filter(|hash| *hash != FOREIGN_TX && hash_parts(hash).0 == id).count();
            match caller {
                _ if executed > 1 => return Err(format!("id {id} was executed {executed} times")),
                ModelCaller::Answered(CallerAnswer::Included) if executed == 0 => {
                    return Err(format!("id {id}: told included, is not"));
                }
                ModelCaller::Answered(CallerAnswer::NotExecuted | CallerAnswer::Refused) if executed > 0 => {
                    return Err(format!("id {id}: told {caller:?}, and was executed"));
                }
                _ => {}
            }
        }
        let mut last = None;
        for entry in self.table.live() {
            if last == Some(entry.sequence) {
                return Err(format!("two transactions may execute at sequence {}", entry.sequence));
            }
            last = Some(entry.sequence);
        }
        Ok(())
    }

    /// Without further faults every caller gets an answer.
    pub fn check_termination(&self) -> Result<(), String> {
        let mut world = self.clone();
        for _ in 0..400 {
            if world.callers.iter().all(|caller| matches!(caller, ModelCaller::Answered(_))) {
                return world.check_invariants();
            }
            if let Some(request) = world.request.take() {
                world.answer(request, 0);
                world.answer_callers();
                continue;
            }
            world.produce_block(true);
            let live: Vec<String> = world.table.live().map(|entry| entry.hash.clone()).collect();
            live.iter().for_each(|hash| world.look_up(hash, ModelLookup::default()));
            world.answer_callers();
            world.check_invariants()?;
        }
        Err(format!("no answer: {:?} {:?}", world.callers, world.core))
    }

    pub fn state_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let entries: Vec<_> =
            self.table.all().map(|entry| (&entry.hash, entry.outcome.as_ref().map(WriteOutcome::label))).collect();
        (&self.core, &self.request, &self.callers, &self.delayed_txs, &self.mempool, &self.other_mempools)
            .hash(&mut hasher);
        (&self.blocks, self.faults_left, self.signed_count, &self.journaled, entries, self.table.sequence_floor())
            .hash(&mut hasher);
        hasher.finish()
    }
}
