//! The decisions of the trust evaluator: the DIDs to evaluate, their heights, and the end of each round. Pure.
//!
//! A round covers all heights up to the block checkpoint, usually one. It has three steps:
//!
//! 1. The triggers of its blocks are loaded.
//! 2. The triggered DIDs are evaluated as of the last height of the round, which waits for them up to a limit.
//! 3. The round is written with all verdicts that came in time.
//!
//! A late verdict is published in the next round as of the height of its evaluation, so a slow web server cannot
//! preserve an old verdict. If the registry changed in between, the DID is also evaluated again, from the evidence that
//! was fetched. The rounds do not wait again for a web server that was too slow until it has answered in time.

mod jobs;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    evaluation_queue::EvaluationQueue,
    round::{
        ActiveRound, Cascade, EvaluationEffect, HeightRange, RoundPhase, RunningEvaluation, UnsettledVerdict,
        VerdictImpact,
    },
};

/// Evaluations that run at once.
pub(super) const MAX_RUNNING: usize = 32;
/// Evaluations of DIDs on one host that run at once, so that one web server cannot block all others.
pub(super) const MAX_RUNNING_PER_HOST: usize = 4;
/// Most heights of a round.
const MAX_ROUND_HEIGHTS: u64 = 256;
/// Steps that a new verdict cascades to its dependents: more than the longest chain of services that may vouch for each
/// other, and a bound for services in a circle.
const MAX_CASCADE_HOPS: u8 = 5;

/// The decisions of the trust evaluator; `V` is a verdict.
#[derive(Debug)]
pub struct EvaluationRounds<V> {
    closed_height: u64,
    tip: u64,
    /// Last height of the current round.
    round_height: u64,
    /// First height at which DIDs are evaluated.
    live_height: u64,
    /// Last height that changed state on which a verdict could depend.
    last_change_height: u64,
    phase: RoundPhase,
    queue: EvaluationQueue,
    /// Orders the starts of evaluations and the publications of verdicts.
    logical_clock: u64,
    running: HashMap<String, RunningEvaluation>,
    verdicts: BTreeMap<String, V>,
    /// Parents of the verdicts of this round.
    parents: BTreeMap<String, Vec<String>>,
    /// Parents of the verdicts of the previous round.
    previous_parents: BTreeMap<String, Vec<String>>,
    /// DIDs with a new verdict that was published but not final.
    provisional_dids: BTreeSet<String>,
    /// Time of the last new final verdict of a DID, by the logical clock; kept while older evaluations run.
    published_at: HashMap<String, u64>,
    unsettled: BTreeMap<String, UnsettledVerdict<V>>,
    slow_dids: BTreeSet<String>,
}

impl<V: Clone> EvaluationRounds<V> {
    /// Continues after `height` with the pending DIDs, each with whether its evidence must be fetched again. No DID is
    /// evaluated at a height before `live_height`: web servers do not serve the state of the past.
    pub fn new(height: u64, live_height: u64, pending: BTreeMap<String, bool>) -> Self {
        let mut rounds = Self {
            closed_height: height,
            tip: height,
            round_height: height,
            live_height,
            last_change_height: 0,
            phase: RoundPhase::Idle,
            queue: EvaluationQueue::default(),
            logical_clock: 0,
            running: HashMap::new(),
            verdicts: BTreeMap::new(),
            parents: BTreeMap::new(),
            previous_parents: BTreeMap::new(),
            provisional_dids: BTreeSet::new(),
            published_at: HashMap::new(),
            unsettled: BTreeMap::new(),
            slow_dids: BTreeSet::new(),
        };
        for (did, is_fresh) in pending {
            rounds.queue.enqueue(&did, is_fresh.then_some(height), 0);
        }
        rounds
    }

    /// Newest height with written verdicts.
    pub fn closed_height(&self) -> u64 {
        self.closed_height
    }

    /// Newest height of the block checkpoint.
    pub fn tip(&self) -> u64 {
        self.tip
    }

    /// DIDs that are still to be evaluated, each with whether its evidence must be fetched again.
    pub fn pending_dids(&self) -> BTreeMap<String, bool> {
        self.queue.pending()
    }

    /// Number of running evaluations.
    pub fn running_count(&self) -> usize {
        self.running.len()
    }

    /// Records that a block is in the store.
    pub fn tip_seen(&mut self, height: u64) -> Vec<EvaluationEffect> {
        self.tip = self.tip.max(height);
        self.advance()
    }

    /// Continues after a failure: repeats the load of triggers or the write that failed.
    pub fn resume(&mut self) -> Vec<EvaluationEffect> {
        match self.phase {
            RoundPhase::CloseFailed => vec![self.close_round()],
            _ => self.advance(),
        }
    }

    /// Records that the write of the round failed; [`Self::resume`] repeats it.
    pub fn write_failed(&mut self) {
        if matches!(self.phase, RoundPhase::Closing) {
            self.phase = RoundPhase::CloseFailed;
        }
    }

    fn advance(&mut self) -> Vec<EvaluationEffect> {
        match self.phase {
            // Below the live height nothing is evaluated: a whole round costs as much as a small one.
            RoundPhase::Idle
                if self.tip >= self.closed_height + MAX_ROUND_HEIGHTS
                    || (self.tip > self.closed_height && self.tip >= self.live_height) =>
            {
                self.phase = RoundPhase::Opening;
                self.round_height = self.tip.min(self.closed_height + MAX_ROUND_HEIGHTS);
                vec![EvaluationEffect::LoadTriggers(self.heights())]
            }
            _ => Vec::new(),
        }
    }

    fn heights(&self) -> HeightRange {
        HeightRange { first: self.closed_height + 1, last: self.round_height }
    }

    /// Begins the evaluation of the triggered DIDs, each with whether its evidence must be fetched again. `last_change`
    /// is the last height of the round whose block changed the registry.
    pub fn triggers_loaded(
        &mut self,
        triggered: impl IntoIterator<Item = (String, bool)>,
        last_change: Option<u64>,
    ) -> Vec<EvaluationEffect> {
        if !matches!(self.phase, RoundPhase::Opening) {
            return Vec::new();
        }
        let height = self.round_height;
        self.last_change_height = self.last_change_height.max(last_change.unwrap_or(0));
        for (did, is_fresh) in triggered {
            self.queue.enqueue(&did, is_fresh.then_some(height), 0);
        }
        self.phase = RoundPhase::Evaluating(ActiveRound::default());
        if height < self.live_height || self.tip >= self.closed_height + MAX_ROUND_HEIGHTS {
            return vec![self.close_round()];
        }
        let unpublished: Vec<String> =
            self.unsettled.iter().filter(|(_, late)| !late.is_published).map(|(did, _)| did.clone()).collect();
        for did in unpublished {
            self.publish_verdict(&did);
        }
        for did in self.queue.dids() {
            self.await_did(&did);
        }
        let effects = self.continue_round();
        match self.phase {
            RoundPhase::Evaluating(_) => effects.into_iter().chain([EvaluationEffect::StartTimer(height)]).collect(),
            _ => effects,
        }
    }

    /// Records that the triggers could not be loaded; [`Self::resume`] repeats the load.
    pub fn load_failed(&mut self) {
        if matches!(self.phase, RoundPhase::Opening) {
            self.phase = RoundPhase::Idle;
        }
    }

    /// Records the verdict on a DID.
    pub fn did_evaluated(&mut self, did: &str, verdict: V, impact: VerdictImpact) -> Vec<EvaluationEffect> {
        let Some(run) = self.running.remove(did) else { return Vec::new() };
        let is_in_time = run.height == self.round_height && matches!(self.phase, RoundPhase::Evaluating(_));
        self.queue.record_evaluation(did, run.height, run.is_refresh);
        if is_in_time && (run.is_refresh || run.is_slow) {
            self.slow_dids.remove(did);
        }
        let is_later = |parent: &String| self.published_at.get(parent).is_some_and(|at| *at > run.started_at);
        let is_outdated = impact.parents.iter().any(is_later);
        let (height, hops) = (run.height, run.hops);
        self.unsettled.insert(
            did.to_owned(),
            UnsettledVerdict { height, is_outdated, verdict, impact, hops, is_published: false },
        );
        if let RoundPhase::Evaluating(round) = &mut self.phase {
            round.awaited_dids.remove(did);
        }
        self.publish_at_once(did)
    }

    /// Records the verdict of an evaluation that waited for a web server since `height`. A newer evaluation of the DID replaces it.
    pub fn open_evaluation_closed(
        &mut self,
        did: &str,
        height: u64,
        verdict: V,
        impact: VerdictImpact,
    ) -> Vec<EvaluationEffect> {
        if self.queue.get(did).is_some() {
            return Vec::new();
        }
        self.queue.enqueue(did, None, 0);
        let late = UnsettledVerdict { height, is_outdated: false, verdict, impact, hops: 0, is_published: false };
        self.unsettled.insert(did.to_owned(), late);
        self.publish_at_once(did)
    }

    /// Publishes a verdict in the round that is evaluated. Without such a round the next one publishes it.
    fn publish_at_once(&mut self, did: &str) -> Vec<EvaluationEffect> {
        if !matches!(self.phase, RoundPhase::Evaluating(_)) {
            return Vec::new();
        }
        self.publish_verdict(did);
        self.await_did(did);
        self.continue_round()
    }

    /// Records that an evaluation failed because of the indexer itself; the next round repeats it.
    pub fn evaluation_failed(&mut self, did: &str) -> Vec<EvaluationEffect> {
        self.running.remove(did);
        let RoundPhase::Evaluating(round) = &mut self.phase else { return Vec::new() };
        round.awaited_dids.remove(did);
        round.failed_dids.insert(did.to_owned());
        self.continue_round()
    }

    /// Closes the round of a height: its time is over.
    pub fn wait_expired(&mut self, height: u64) -> Vec<EvaluationEffect> {
        match &mut self.phase {
            RoundPhase::Evaluating(round) if height == self.round_height => {
                // Without a running evaluation a DID is not slow.
                let late =
                    std::mem::take(&mut round.awaited_dids).into_iter().filter(|did| self.running.contains_key(did));
                self.slow_dids.extend(late);
                vec![self.close_round()]
            }
            _ => Vec::new(),
        }
    }

    /// Verdicts of the round being closed.
    pub fn verdicts(&self) -> &BTreeMap<String, V> {
        &self.verdicts
    }

    /// Records that the round is written, and opens the next one.
    pub fn round_written(&mut self) -> Vec<EvaluationEffect> {
        if !matches!(self.phase, RoundPhase::Closing) {
            return Vec::new();
        }
        self.closed_height = self.round_height;
        self.verdicts.clear();
        // An evaluation that ran during the write did not find these dependencies in the store.
        self.previous_parents = std::mem::take(&mut self.parents);
        let oldest = self.running.values().map(|run| run.started_at).min().unwrap_or(u64::MAX);
        self.published_at.retain(|_, at| *at > oldest);
        self.phase = RoundPhase::Idle;
        self.advance()
    }

    /// Takes the verdict of a DID that must be evaluated again, for its evidence. `None` if the evidence is outdated.
    pub fn take_unsettled(&mut self, did: &str) -> Option<V> {
        self.unsettled.remove(did).filter(|late| !late.is_outdated).map(|late| late.verdict)
    }

    /// Publishes a verdict in the current round. It is final if the registry did not change since its height and no
    /// evidence is requested.
    fn publish_verdict(&mut self, did: &str) {
        self.logical_clock += 1;
        let is_fresh = self.queue.is_fresh(did);
        let Some(late) = self.unsettled.get_mut(did) else { return };
        late.is_published = true;
        let (impact, hops) = (late.impact.clone(), late.hops);
        let is_final = !is_fresh && !late.is_outdated && late.height >= self.last_change_height;
        self.verdicts.insert(did.to_owned(), late.verdict.clone());
        self.parents.insert(did.to_owned(), impact.parents);
        if is_final {
            self.unsettled.remove(did);
            self.queue.remove(did);
        } else {
            self.queue.enqueue(did, None, hops);
            if self.unsettled.len() > MAX_RUNNING {
                // The evidence in memory is bounded: this evidence is fetched again.
                self.unsettled.remove(did);
            }
        }
        let was_new = is_final && self.provisional_dids.remove(did);
        if !impact.is_new && !was_new {
            return;
        }
        // Only final verdicts outdate others: two DIDs that depend on each other would outdate each other without end.
        if is_final {
            self.published_at.insert(did.to_owned(), self.logical_clock);
        } else {
            self.provisional_dids.insert(did.to_owned());
        }
        if hops < MAX_CASCADE_HOPS {
            self.requeue_dependents(did, is_final, impact.dependents, hops + 1);
        }
    }

    /// Queues the DIDs whose verdicts depend on a DID: `written` ones, and those that are not written yet. A running
    /// evaluation is checked when it ends.
    fn requeue_dependents(&mut self, did: &str, is_final: bool, written: Vec<String>, hops: u8) {
        let RoundPhase::Evaluating(round) = &mut self.phase else { return };
        if !round.completed_cascades.insert(Cascade { did: did.to_owned(), is_final }) {
            return;
        }
        let depends_on_did = |parents: &[String]| parents.iter().any(|parent| parent == did);
        let published = self
            .parents
            .iter()
            .chain(&self.previous_parents)
            .filter(|(_, parents)| depends_on_did(parents))
            .map(|(name, _)| name.clone());
        let late = self.unsettled.iter().filter(|(_, late)| depends_on_did(&late.impact.parents));
        let late = late.map(|(name, _)| name.clone());
        let dependents: BTreeSet<String> = written.into_iter().chain(published).chain(late).collect();
        for dependent in dependents.iter().filter(|dependent| *dependent != did) {
            self.queue.enqueue(dependent, None, hops);
            if let Some(late) = self.unsettled.get_mut(dependent) {
                late.is_outdated = true;
            }
            self.await_did(dependent);
        }
    }

    fn continue_round(&mut self) -> Vec<EvaluationEffect> {
        let mut effects = self.start_jobs();
        if matches!(&self.phase, RoundPhase::Evaluating(round) if round.awaited_dids.is_empty()) {
            effects.push(self.close_round());
        }
        effects
    }

    fn close_round(&mut self) -> EvaluationEffect {
        self.phase = RoundPhase::Closing;
        EvaluationEffect::WriteRound(self.heights())
    }
}
