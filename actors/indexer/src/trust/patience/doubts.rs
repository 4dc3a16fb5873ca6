//! Evidence that is in doubt for every evaluation, because an open evaluation waits for it or waited for it too long. Pure.

use std::collections::{BTreeSet, HashMap};

use svc_trust::{EvidenceFailure, EvidenceRequest};

use super::open_evaluations::OpenEvaluations;

/// Time for which the end of a patience counts for the evaluations of dependents, in milliseconds. They follow within a few rounds.
const GIVEN_UP_FOR: i64 = 60_000;

/// A failure that an evaluation inherits instead of asking the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InheritedFailure {
    pub failure: EvidenceFailure,
    /// First failure of the open evaluation that waits for it, milliseconds since the epoch. `None` if none waits.
    pub since: Option<i64>,
}

/// A failure for which an evaluation waited too long.
#[derive(Debug, Clone)]
pub struct GivenUpRequest {
    pub request: EvidenceRequest,
    pub failure: EvidenceFailure,
    /// DIDs whose verdicts depend on the evaluation.
    pub dependents: BTreeSet<String>,
    /// Milliseconds since the epoch.
    pub at: i64,
}

/// The evidence in doubt.
#[derive(Debug, Default)]
pub struct EvidenceDoubts {
    open: HashMap<EvidenceRequest, InheritedFailure>,
    given_up: HashMap<EvidenceRequest, GivenUpRequest>,
}

impl EvidenceDoubts {
    /// Takes over the failures of the open evaluations.
    pub fn follow(&mut self, evaluations: &OpenEvaluations) {
        self.open.clear();
        for (failed, since) in evaluations.own_failures() {
            let inherited = InheritedFailure { failure: failed.failure.clone(), since: Some(since) };
            let known = self.open.entry(failed.request.clone()).or_insert_with(|| inherited.clone());
            if known.since > Some(since) {
                *known = inherited;
            }
        }
    }

    /// Records that the patience with a request ended.
    pub fn give_up(&mut self, given_up: GivenUpRequest) {
        self.given_up.retain(|_, known| given_up.at - known.at < GIVEN_UP_FOR);
        self.given_up.insert(given_up.request.clone(), given_up);
    }

    /// Records that a server answered a request.
    pub fn answered(&mut self, request: &EvidenceRequest) {
        self.given_up.remove(request);
    }

    /// Returns the failure that the evaluation of a DID inherits for a request.
    pub fn find(&self, did: &str, request: &EvidenceRequest, now: i64) -> Option<InheritedFailure> {
        let given_up = || {
            let known = self.given_up.get(request)?;
            let counts = now - known.at < GIVEN_UP_FOR && known.dependents.contains(did);
            counts.then(|| InheritedFailure { failure: known.failure.clone(), since: None })
        };
        self.open.get(request).cloned().or_else(given_up)
    }
}

#[cfg(test)]
mod tests {
    use svc_trust::{RejectionCode, TransientCause};

    use super::*;
    use crate::trust::patience::open_evaluation::{FailedRequest, OpenEvaluation};

    #[test]
    fn dependents_inherit_the_failure_and_the_clock_of_an_open_evaluation() {
        let request = EvidenceRequest::Document("did:web:a".into());
        let transient = Some(TransientCause::default());
        let failure = EvidenceFailure { transient, ..EvidenceFailure::new(RejectionCode::DidUnresolvable, "no") };
        let of = |request: EvidenceRequest| FailedRequest { request, failure: failure.clone() };
        let issuer = EvidenceRequest::Document("did:web:issuer".into());
        let open = OpenEvaluation {
            did: "did:web:a".into(),
            height: 1,
            block_time: 0,
            since: 7,
            tries: 1,
            next_try_at: 9,
            failed: vec![of(request.clone()), of(issuer.clone())],
        };
        let child = "did:web:child";
        let mut doubts = EvidenceDoubts::default();
        doubts.follow(&OpenEvaluations::resume([open]));
        let inherited = InheritedFailure { failure: failure.clone(), since: Some(7) };
        assert_eq!(doubts.find(child, &request, 8), Some(inherited));
        assert_eq!(doubts.find(child, &issuer, 8), None, "the server of another party");
        doubts.follow(&OpenEvaluations::default());
        assert_eq!(doubts.find(child, &request, 8), None);

        let ended = EvidenceFailure { transient: None, ..failure };
        let dependents = BTreeSet::from([child.to_owned()]);
        let given_up = GivenUpRequest { request: request.clone(), failure: ended.clone(), dependents, at: 1_000 };
        doubts.give_up(given_up.clone());
        let inherited = InheritedFailure { failure: ended, since: None };
        assert_eq!(doubts.find(child, &request, 60_999), Some(inherited));
        assert_eq!(doubts.find(child, &request, 61_000), None, "later evaluations ask the server");
        assert_eq!(
            doubts.find("did:web:other", &request, 2_000),
            None,
            "evaluations of others have their own patience"
        );
        doubts.give_up(given_up);
        doubts.answered(&request);
        assert_eq!(doubts.find(child, &request, 1_000), None);
    }
}
