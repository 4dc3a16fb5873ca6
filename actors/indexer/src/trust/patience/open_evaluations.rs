//! The evaluations that wait for web servers: which of them are tried together, and when. Pure.

use std::collections::{BTreeMap, BTreeSet};

use svc_trust::EvidenceRequest;

use super::open_evaluation::{FailedRequest, OpenEvaluation};
use crate::store::OpenRow;

/// The state of an open evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TryState {
    /// It waits for its next try.
    Waiting,
    /// A try runs.
    Trying,
    /// A new trigger evaluates the DID again. The evaluation is shown until that one ends.
    Replaced,
}

#[derive(Debug)]
struct OpenEntry {
    evaluation: OpenEvaluation,
    state: TryState,
}

/// The open evaluations by DID.
#[derive(Debug, Default)]
pub struct OpenEvaluations(BTreeMap<String, OpenEntry>);

impl OpenEvaluations {
    /// Resumes evaluations from the store.
    pub fn resume(evaluations: impl IntoIterator<Item = OpenEvaluation>) -> Self {
        let entry =
            |evaluation: OpenEvaluation| (evaluation.did.clone(), OpenEntry { evaluation, state: TryState::Waiting });
        Self(evaluations.into_iter().map(entry).collect())
    }

    /// Number of open evaluations.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Opens an evaluation, or keeps it open after a try. Returns whether the DID had none.
    pub fn keep(&mut self, evaluation: OpenEvaluation) -> bool {
        let entry = OpenEntry { evaluation, state: TryState::Waiting };
        self.0.insert(entry.evaluation.did.clone(), entry).is_none()
    }

    /// Closes the evaluation of a DID.
    pub fn close(&mut self, did: &str) -> Option<OpenEvaluation> {
        self.0.remove(did).map(|entry| entry.evaluation)
    }

    /// Ends the tries for a DID that is evaluated again. Returns the requests that failed: they are still to be fetched.
    pub fn replace(&mut self, did: &str) -> BTreeSet<EvidenceRequest> {
        let Some(entry) = self.0.get_mut(did) else { return BTreeSet::new() };
        entry.state = TryState::Replaced;
        entry.evaluation.failed_requests()
    }

    /// Postpones the next try of an evaluation whose try failed because of the indexer itself.
    pub fn postpone(&mut self, tried: &OpenEvaluation, next_try_at: i64) {
        if let Some(entry) = self.trying(tried) {
            entry.state = TryState::Waiting;
            entry.evaluation.next_try_at = next_try_at;
        }
    }

    /// Whether the result of a try still counts: no trigger has replaced the evaluation.
    pub fn is_tried(&mut self, tried: &OpenEvaluation) -> bool {
        self.trying(tried).is_some()
    }

    fn trying(&mut self, tried: &OpenEvaluation) -> Option<&mut OpenEntry> {
        self.0.get_mut(&tried.did).filter(|entry| entry.state == TryState::Trying && entry.evaluation == *tried)
    }

    /// Time of the next try, milliseconds since the epoch.
    pub fn next_try_at(&self) -> Option<i64> {
        let waiting = self.0.values().filter(|entry| entry.state == TryState::Waiting);
        waiting.map(|entry| entry.evaluation.next_try_at).min()
    }

    /// Begins the tries that are due. The evaluations that wait for the same server are tried together, so that it is asked once.
    pub fn take_due(&mut self, now: i64) -> Vec<Vec<OpenEvaluation>> {
        let mut groups = Vec::new();
        loop {
            let due = self.0.values_mut().filter(|entry| entry.state == TryState::Waiting);
            let due = due.min_by_key(|entry| entry.evaluation.next_try_at);
            let Some(first) = due.filter(|entry| entry.evaluation.next_try_at <= now) else { return groups };
            first.state = TryState::Trying;
            let mut group = vec![first.evaluation.clone()];
            let hosts = first.evaluation.hosts();
            for entry in self.0.values_mut() {
                if entry.state == TryState::Waiting && entry.evaluation.waits_for(&hosts) {
                    entry.state = TryState::Trying;
                    group.push(entry.evaluation.clone());
                }
            }
            groups.push(group);
        }
    }

    /// Returns the rows of the store.
    pub fn rows(&self) -> BTreeMap<String, OpenRow> {
        self.0.iter().map(|(did, entry)| (did.clone(), entry.evaluation.to_row())).collect()
    }

    /// Iterates over the failures of the DIDs' own web servers, each with the first failure of its evaluation. A service is in
    /// doubt with them for the services that it vouches for.
    pub fn own_failures(&self) -> impl Iterator<Item = (&FailedRequest, i64)> {
        let entries = self.0.values().filter(|entry| entry.state != TryState::Replaced);
        entries.flat_map(|entry| entry.evaluation.own_failures().map(move |failed| (failed, entry.evaluation.since)))
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::{EvidenceFailure, RejectionCode};

    use super::*;

    fn open(did: &str, next_try_at: i64) -> OpenEvaluation {
        let failure = EvidenceFailure::new(RejectionCode::DidUnresolvable, "no");
        let failed = vec![FailedRequest { request: EvidenceRequest::Document(did.to_owned()), failure }];
        OpenEvaluation { did: did.to_owned(), height: 1, block_time: 0, since: 0, tries: 1, next_try_at, failed }
    }

    fn dids(groups: &[Vec<OpenEvaluation>]) -> Vec<Vec<&str>> {
        groups.iter().map(|group| group.iter().map(|open| open.did.as_str()).collect()).collect()
    }

    #[test]
    fn evaluations_that_wait_for_one_server_are_tried_together() {
        let all = [open("did:web:a:1", 50), open("did:web:a:2", 10), open("did:web:b", 20), open("did:web:c", 30)];
        let mut evaluations = OpenEvaluations::resume(all);
        assert_eq!((evaluations.next_try_at(), evaluations.take_due(9).len()), (Some(10), 0));
        let groups = evaluations.take_due(20);
        assert_eq!(dids(&groups), [vec!["did:web:a:2", "did:web:a:1"], vec!["did:web:b"]]);
        assert_eq!((evaluations.next_try_at(), evaluations.take_due(20).len()), (Some(30), 0), "the tries run");
        assert!(!evaluations.keep(OpenEvaluation { next_try_at: 90, ..groups[0][0].clone() }));
        assert_eq!(evaluations.close("did:web:b").map(|open| open.did), Some("did:web:b".into()));
        assert_eq!(dids(&evaluations.take_due(100)), [vec!["did:web:c"], vec!["did:web:a:2"]]);
    }

    #[test]
    fn a_result_of_a_replaced_evaluation_does_not_count() {
        let mut evaluations = OpenEvaluations::default();
        assert!(evaluations.keep(open("did:web:a", 10)));
        let tried = evaluations.take_due(10).remove(0).remove(0);
        assert!(evaluations.is_tried(&tried));
        assert_eq!(evaluations.replace("did:web:a"), tried.failed_requests());
        assert!(!evaluations.is_tried(&tried) && evaluations.next_try_at().is_none());
        assert_eq!((evaluations.count(), evaluations.own_failures().count()), (1, 0), "it is shown meanwhile");
        evaluations.keep(OpenEvaluation { since: 5, ..open("did:web:a", 20) });
        assert!(!evaluations.is_tried(&tried), "of the earlier one");
        let tried = evaluations.take_due(20).remove(0).remove(0);
        evaluations.postpone(&tried, 25);
        assert_eq!((evaluations.next_try_at(), evaluations.own_failures().count()), (Some(25), 1));
        assert!(evaluations.replace("did:web:unknown").is_empty());
    }
}
