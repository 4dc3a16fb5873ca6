//! The evaluations that a round starts and waits for.

use std::collections::HashMap;

use super::{
    super::round::{EvaluationEffect, EvaluationStart, RoundPhase, RunningEvaluation, host_of},
    EvaluationRounds, MAX_RUNNING, MAX_RUNNING_PER_HOST,
};

/// Evaluations that run at once of DIDs whose web servers were too slow before.
const MAX_RUNNING_SLOW: usize = 16;

impl<V: Clone> EvaluationRounds<V> {
    /// Whether the evaluation needs a web server that was too slow before.
    pub(super) fn is_slow(&self, did: &str, is_fresh: bool) -> bool {
        self.slow_dids.contains(did) && (is_fresh || self.unsettled.get(did).is_none_or(|late| late.is_outdated))
    }

    /// Makes the round wait for a queued DID, unless its web server is slow or its evaluation belongs to an earlier
    /// round.
    pub(super) fn await_did(&mut self, did: &str) {
        let Some(job) = self.queue.get(did) else { return };
        let is_of_earlier_round = self.running.get(did).is_some_and(|run| run.height < self.round_height);
        let is_slow = self.is_slow(did, job.refresh_height.is_some());
        if let (RoundPhase::Evaluating(round), false) = (&mut self.phase, is_of_earlier_round || is_slow)
            && !round.failed_dids.contains(did)
        {
            round.awaited_dids.insert(did.to_owned());
        }
    }

    /// Starts evaluations up to the limits.
    pub(super) fn start_jobs(&mut self) -> Vec<EvaluationEffect> {
        let height = self.round_height;
        let mut hosts: HashMap<String, usize> = HashMap::new();
        for run in self.running.values() {
            *hosts.entry(run.host.clone()).or_default() += 1;
        }
        let mut slow = self.running.values().filter(|run| run.is_slow).count();
        let mut chosen = Vec::new();
        for did in self.queue.in_order() {
            if self.running.len() + chosen.len() >= MAX_RUNNING {
                break;
            }
            let is_fresh = self.queue.is_fresh(did);
            let has_failed = matches!(&self.phase, RoundPhase::Evaluating(round) if round.failed_dids.contains(did));
            let running_at_host = hosts.entry(host_of(did).to_owned()).or_default();
            let is_slow = self.is_slow(did, is_fresh);
            if has_failed
                || self.running.contains_key(did)
                || *running_at_host >= MAX_RUNNING_PER_HOST
                || (is_slow && slow >= MAX_RUNNING_SLOW)
            {
                continue;
            }
            *running_at_host += 1;
            slow += usize::from(is_slow);
            chosen.push(EvaluationStart { did: did.clone(), is_fresh, is_slow });
        }
        chosen.into_iter().map(|start| self.start_job(start, height)).collect()
    }

    fn start_job(&mut self, start: EvaluationStart, height: u64) -> EvaluationEffect {
        let EvaluationStart { did, is_fresh, is_slow } = start;
        self.logical_clock += 1;
        let hops = self.queue.get(&did).map_or(0, |job| job.hops);
        let run = RunningEvaluation {
            height,
            is_refresh: is_fresh,
            is_slow,
            host: host_of(&did).to_owned(),
            started_at: self.logical_clock,
            hops,
        };
        self.running.insert(did.clone(), run);
        EvaluationEffect::EvaluateDid { did, height, is_fresh }
    }
}
