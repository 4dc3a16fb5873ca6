//! The chain that does the worst it may, and the code that ships in the middle of it.

use std::{
    collections::{BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
};

use svc_kit::upstream::{BroadcastOutcome, Kind, NodeError, UpstreamError};
use svc_wire::{chain_error::ChainError, comet::Tx};

use crate::{
    confirmer::{Absence, Facts, Looks, Pending, judge},
    in_flight::{CallId, Entry, InFlight, Outcome},
    order::Order,
    signer::{
        SubmitError, WindowBound,
        core::{Core, Withdrawal},
        effect::Effect,
    },
};

/// Blocks a transaction is given.
const LIFETIME: u64 = 1;
/// Height at which exploration ends; what is still open there is let run out without faults.
const MAX_HEIGHT: u64 = 9;
/// Blocks a node that is behind is behind.
const LAG: u64 = 2;
/// Sequence at the beginning.
const FIRST: u64 = 5;
const FOREIGN: &str = "foreign";

/// What the signer waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Request {
    Learn,
    Simulate {
        call: CallId,
        sequence: u64,
    },
    /// To be on disk, and then to leave.
    WriteDown {
        call: CallId,
        hash: String,
    },
    Send {
        call: CallId,
        hash: String,
    },
    Resend {
        hash: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Caller {
    Asks,
    Follows(String),
    Told(Told),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Told {
    Refused,
    Included,
    Never,
}

#[derive(Clone)]
pub struct World {
    core: Core,
    table: InFlight,
    looks: Looks,
    request: Option<Request>,
    callers: Vec<Caller>,
    signed: u32,
    /// On disk.
    written: BTreeSet<String>,
    /// Left without an answer, and may arrive yet.
    strays: BTreeSet<String>,
    mempool: Vec<String>,
    /// In the mempools of others.
    elsewhere: BTreeSet<String>,
    blocks: Vec<Vec<String>>,
    faults: u32,
}

fn gone() -> NodeError {
    NodeError::Upstream(UpstreamError::Unreachable { kind: Kind::Rpc, origin: String::new(), reason: String::new() })
}

/// A hash says what the model has to know of a transaction: call, sequence, timeout height, how many were signed before.
fn hash_of(call: CallId, sequence: u64, timeout: u64, number: u32) -> String {
    format!("{}/{sequence}/{timeout}/{number}", call.0)
}

fn parts(hash: &str) -> (u64, u64, u64, u64) {
    let mut numbers = hash.split('/').map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next(), next())
}

impl World {
    pub fn new(callers: usize, faults: u32, window: usize) -> Self {
        let mut world = Self {
            core: Core::new(0, WindowBound::Fixed(window), false),
            table: InFlight::default(),
            looks: Looks::default(),
            request: None,
            callers: vec![Caller::Asks; callers],
            signed: 0,
            written: BTreeSet::new(),
            strays: BTreeSet::new(),
            mempool: Vec::new(),
            elsewhere: BTreeSet::new(),
            blocks: vec![Vec::new()],
            faults,
        };
        world.ask_all();
        world
    }

    fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn sequence_at(&self, height: u64) -> u64 {
        FIRST
            + self.blocks.iter().take(usize::try_from(height).unwrap_or(0)).map(|block| block.len() as u64).sum::<u64>()
    }

    fn included_by(&self, hash: &str, height: u64) -> Option<u64> {
        let seen = self.blocks.iter().take(usize::try_from(height).unwrap_or(0));
        seen.zip(1..).find(|(block, _)| block.iter().any(|known| known == hash)).map(|(_, height)| height)
    }

    /// Callers without an answer ask, or ask again; what was submitted before is found.
    fn ask_all(&mut self) {
        for index in 0..self.callers.len() {
            if self.callers[index] != Caller::Asks {
                continue;
            }
            let call = CallId(index as u64 + 1);
            if let Some(entry) = self.table.of_call(call) {
                self.callers[index] = Caller::Follows(entry.hash.clone());
            } else {
                let effects = self.core.submit(call, Arc::from("s"), None, &self.table);
                self.perform(effects);
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Learn => self.request = Some(Request::Learn),
                Effect::Simulate { call, sequence, .. } => self.request = Some(Request::Simulate { call, sequence }),
                Effect::Send { call, sequence, .. } => {
                    let timeout_height = self.height() + LIFETIME;
                    self.signed += 1;
                    let hash = hash_of(call, sequence, timeout_height, self.signed);
                    let entry = Entry {
                        call,
                        hash: hash.clone(),
                        bytes: Vec::new(),
                        sequence,
                        timeout_height,
                        signed_height: self.height(),
                        order: Order::sample(),
                        has_granter: false,
                        outcome: None,
                    };
                    self.table.add(entry);
                    self.request = Some(Request::WriteDown { call, hash });
                }
                Effect::Resend { sequence } => {
                    let hash = self.table.live_at(sequence).map(|entry| entry.hash.clone());
                    self.written.extend(hash.clone());
                    self.request = Some(Request::Resend { hash });
                }
                Effect::Retract { hash } => {
                    self.table.retract(&hash);
                    self.written.remove(&hash);
                }
                Effect::ChooseNode => {}
                Effect::Answer { call, outcome } => {
                    let caller = &mut self.callers[usize::try_from(call.0).unwrap_or(1) - 1];
                    assert_eq!(*caller, Caller::Asks, "a caller is answered once");
                    *caller = match outcome {
                        Ok(hash) => Caller::Follows(hash),
                        Err(_) => Caller::Told(Told::Refused),
                    };
                }
            }
        }
    }

    /// CheckTx of a node that is `lag` blocks behind.
    fn check(&mut self, hash: &str, lag: u64) -> BroadcastOutcome {
        let (_, sequence, timeout, _) = parts(hash);
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
            self.elsewhere.insert(hash.to_owned());
        }
        BroadcastOutcome::Accepted
    }

    /// The node answers what the signer waits for.
    fn answer(&mut self, request: Request, lag: u64) {
        let seen = self.height().saturating_sub(lag);
        let effects = match request {
            Request::Learn => self.core.learned(Ok(Some(self.sequence_at(seen))), "", &self.table),
            Request::Simulate { call, sequence } => {
                let waiting = if lag == 0 { self.mempool.len() as u64 } else { 0 };
                let expected = self.sequence_at(seen) + waiting;
                let raw_log = format!("account sequence mismatch, expected {expected}, got {sequence}");
                let error = ChainError { codespace: "sdk".into(), code: 6, raw_log };
                let answer = if expected == sequence { Ok(1) } else { Err(Ok(error)) };
                self.core.simulated(call, answer, &self.table)
            }
            Request::WriteDown { call, hash } => {
                self.written.insert(hash.clone());
                self.request = Some(Request::Send { call, hash });
                Vec::new()
            }
            Request::Send { call, hash } => {
                let answer = self.check(&hash, lag);
                self.core.sent(call, &hash, Ok(answer), &self.table)
            }
            Request::Resend { hash } => {
                let answer = hash.map_or(BroadcastOutcome::Accepted, |hash| self.check(&hash, lag));
                self.core.resent(Ok(answer), &self.table)
            }
        };
        self.perform(effects);
    }

    /// There is no answer; what was asked may arrive yet.
    fn lose(&mut self, request: Request) {
        let effects = match request {
            Request::Learn => self.core.learned(Err(gone()), "", &self.table),
            Request::Simulate { call, .. } => self.core.simulated(call, Err(Err(gone())), &self.table),
            Request::WriteDown { call, hash } => {
                self.table.retract(&hash);
                self.core.unsent(call, SubmitError::Journal(String::new()), &self.table)
            }
            Request::Send { call, hash } => {
                self.strays.insert(hash.clone());
                self.core.sent(call, &hash, Err(gone()), &self.table)
            }
            Request::Resend { hash } => {
                self.strays.extend(hash);
                self.core.resent(Err(gone()), &self.table)
            }
        };
        self.perform(effects);
    }

    fn block(&mut self, is_full: bool) {
        let (height, mut next, mut txs) = (self.height() + 1, self.sequence_at(self.height()), Vec::new());
        let waiting: BTreeSet<String> = self.mempool.iter().cloned().chain(self.elsewhere.clone()).collect();
        let fits = |hash: &&String, next: u64| {
            let (_, sequence, timeout, _) = parts(hash);
            is_full && sequence == next && height <= timeout
        };
        while let Some(hash) = waiting.iter().find(|hash| fits(hash, next)) {
            txs.push(hash.clone());
            next += 1;
        }
        self.extend(txs);
    }

    fn extend(&mut self, txs: Vec<String>) {
        self.blocks.push(txs);
        // Recheck: what no longer passes leaves, in order.
        let mut next = self.sequence_at(self.height());
        let height = self.height();
        self.mempool.retain(|hash| {
            let (_, sequence, timeout, _) = parts(hash);
            let passes = sequence == next && height < timeout;
            next += u64::from(passes);
            passes
        });
        let effects = self.core.block_passed(&self.table);
        self.perform(effects);
    }

    /// The confirmer looks at a transaction, at a node that is behind, with an index that is late.
    fn look(&mut self, hash: &str, lag: u64, index_lag: u64) {
        let seen = self.height().saturating_sub(lag);
        let facts = Facts { height: seen, earliest: 1, sequence: Some(self.sequence_at(seen)) };
        let Some(pending) = self.table.get(hash).filter(|entry| entry.outcome.is_none()).map(Pending::from) else {
            return;
        };
        let found = self.included_by(hash, seen.saturating_sub(index_lag));
        let found = found.map(|height| Box::new(Tx { height, ..Tx::default() }));
        let effects = match judge(&mut self.looks, &pending, &facts, found) {
            Ok(outcome) => {
                let uses_sequence = outcome.uses(pending.sequence);
                self.table.decide(hash, outcome);
                self.written.remove(hash);
                self.core.settled(uses_sequence, &self.table)
            }
            Err(Absence::Missing) => self.core.doubt(&self.table),
            Err(_) => return,
        };
        self.perform(effects);
    }

    /// A caller takes its write back. One that is being handed over is answered for by that.
    fn gives_up(&mut self, index: usize) {
        let (withdrawal, effects) = self.core.withdraw(CallId(index as u64 + 1), &self.table);
        if withdrawal == Withdrawal::Taken {
            self.callers[index] = Caller::Told(Told::Refused);
            let call = CallId(index as u64 + 1);
            self.request.take_if(|request| matches!(request, Request::Simulate { call: asked, .. } if *asked == call));
        }
        self.perform(effects);
    }

    fn signer_dies(&mut self) {
        if let Some(Request::Send { hash, .. } | Request::Resend { hash: Some(hash) }) = self.request.take() {
            self.strays.insert(hash);
        }
        self.core = Core::new(0, WindowBound::Fixed(self.core.window()), self.table.live().len() > 0);
        let effects = self.core.ticked(&self.table);
        self.perform(effects);
        self.ask_all();
    }

    /// The process dies, and another one begins with what is on disk. Callers ask again under their keys.
    fn process_dies(&mut self) {
        if let Some(Request::Send { hash, .. } | Request::Resend { hash: Some(hash) }) = self.request.take() {
            self.strays.insert(hash);
        }
        let mut table = InFlight::with_floor(self.table.floor());
        let mut known: Vec<&Entry> = self.table.all().collect();
        known.retain(|entry| entry.outcome.is_some() || self.written.contains(&entry.hash));
        // In the order in which they were written down: the last of a call counts.
        known.sort_by_key(|entry| parts(&entry.hash).3);
        for entry in known {
            let outcome = entry.outcome.clone();
            table.add(Entry { outcome: None, ..entry.clone() });
            if let Some(outcome) = outcome {
                table.decide(&entry.hash, outcome);
            }
        }
        self.table = table;
        self.looks = Looks::default();
        for caller in &mut self.callers {
            if matches!(caller, Caller::Follows(_)) {
                *caller = Caller::Asks;
            }
        }
        self.core = Core::new(0, WindowBound::Fixed(self.core.window()), self.table.live().len() > 0);
        let effects = self.core.ticked(&self.table);
        self.perform(effects);
        self.ask_all();
    }

    /// Callers whose transaction is decided are told.
    fn tell(&mut self) {
        for caller in &mut self.callers {
            let decided = match caller {
                Caller::Follows(hash) => self.table.get(hash).and_then(|entry| entry.outcome.clone()),
                Caller::Asks | Caller::Told(_) => None,
            };
            if let Some(outcome) = decided {
                let is_included = matches!(outcome, Outcome::Included { .. });
                *caller = Caller::Told(if is_included { Told::Included } else { Told::Never });
            }
        }
    }

    /// Everything that can happen next.
    pub fn successors(&self) -> Vec<(String, Self)> {
        let mut all: Vec<(String, Self)> = Vec::new();
        let mut add = |label: String, cost: u32, act: &dyn Fn(&mut Self)| {
            if cost <= self.faults {
                let mut next = self.clone();
                next.faults -= cost;
                act(&mut next);
                next.tell();
                all.push((label, next));
            }
        };
        if let Some(request) = &self.request {
            let take = |world: &mut Self| world.request.take().unwrap_or(Request::Learn);
            add(format!("answer {request:?}"), 0, &|world| {
                let request = take(world);
                world.answer(request, 0);
            });
            add(format!("answer from behind {request:?}"), 1, &|world| {
                let request = take(world);
                world.answer(request, LAG);
            });
            add(format!("lose {request:?}"), 1, &|world| {
                let request = take(world);
                world.lose(request);
            });
        }
        for hash in &self.strays {
            add(format!("late arrival {hash}"), 0, &|world| {
                world.strays.remove(hash);
                world.check(hash, 0);
            });
        }
        if self.height() < MAX_HEIGHT {
            add("block".to_owned(), 0, &|world| world.block(true));
            if !self.mempool.is_empty() || !self.elsewhere.is_empty() {
                add("empty block".to_owned(), 0, &|world| world.block(false));
            }
            add("foreign transaction".to_owned(), 1, &|world| world.extend(vec![FOREIGN.to_owned()]));
        }
        let live: Vec<String> = self.table.live().map(|entry| entry.hash.clone()).collect();
        for hash in &live {
            add(format!("look {hash}"), 0, &|world| world.look(hash, 0, 0));
            add(format!("look with a late index {hash}"), 1, &|world| world.look(hash, 0, 1));
            add(format!("look behind {hash}"), 1, &|world| world.look(hash, LAG, 0));
        }
        if !self.mempool.is_empty() {
            add("the node forgets".to_owned(), 1, &|world| {
                let lost = std::mem::take(&mut world.mempool);
                world.elsewhere.extend(lost);
                let effects = world.core.doubt(&world.table);
                world.perform(effects);
            });
        }
        for (index, caller) in self.callers.iter().enumerate() {
            if *caller == Caller::Asks {
                add(format!("caller {} gives up", index + 1), 1, &|world| world.gives_up(index));
            }
        }
        add("the signer dies".to_owned(), 1, &Self::signer_dies);
        add("the process dies".to_owned(), 1, &Self::process_dies);
        all
    }

    /// What must hold in every state.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (index, caller) in self.callers.iter().enumerate() {
            let call = index as u64 + 1;
            let executed =
                self.blocks.iter().flatten().filter(|hash| *hash != FOREIGN && parts(hash).0 == call).count();
            match caller {
                _ if executed > 1 => return Err(format!("call {call} was executed {executed} times")),
                Caller::Told(Told::Included) if executed == 0 => {
                    return Err(format!("call {call}: told included, is not"));
                }
                Caller::Told(Told::Never | Told::Refused) if executed > 0 => {
                    return Err(format!("call {call}: told {caller:?}, and was executed"));
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

    /// Without further faults everybody gets an answer.
    pub fn runs_out(&self) -> Result<(), String> {
        let mut world = self.clone();
        for _ in 0..400 {
            if world.callers.iter().all(|caller| matches!(caller, Caller::Told(_))) {
                return world.check_invariants();
            }
            if let Some(request) = world.request.take() {
                world.answer(request, 0);
                world.tell();
                continue;
            }
            world.block(true);
            let live: Vec<String> = world.table.live().map(|entry| entry.hash.clone()).collect();
            live.iter().for_each(|hash| world.look(hash, 0, 0));
            world.tell();
            world.check_invariants()?;
        }
        Err(format!("no answer: {:?} {:?}", world.callers, world.core))
    }

    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let entries: Vec<_> =
            self.table.all().map(|entry| (&entry.hash, entry.outcome.as_ref().map(Outcome::word))).collect();
        (&self.core, &self.request, &self.callers, &self.strays, &self.mempool, &self.elsewhere).hash(&mut hasher);
        (&self.blocks, self.faults, self.signed, &self.written, entries, self.table.floor()).hash(&mut hasher);
        self.looks.fingerprint().hash(&mut hasher);
        hasher.finish()
    }
}
