//! The end of an evaluation: it is finished, or it waits for a web server.

use std::collections::{BTreeMap, BTreeSet};

use svc_net::evidence::insert_evidence;
use svc_trust::{Evidence, EvidenceFailure, EvidenceRequest, TrustVerdict};

use super::{
    did_evaluator::{DidEvaluation, DidEvaluator, EvaluationError, UnfinishedVerdict},
    evidence_gathering::{EvidenceGathering, RefreshScope, settle_failures},
    verdict_record::{self, evidence_key},
};
use crate::{
    store::IndexStoreError,
    trust::patience::{
        decision::{EvaluationFacts, FormerVerdict, PatienceDecision, decide},
        doubts::GivenUpRequest,
        open_evaluation::{EarlierTries, OpenEvaluation, UnfinishedEvaluation},
    },
};

/// A verdict with the stored evidence in the place of requests that failed.
struct Refutation<'a> {
    verdict: TrustVerdict,
    gathering: EvidenceGathering<'a>,
}

impl DidEvaluator {
    /// Decides whether a verdict is finished, and makes the evaluation of it. Fails when the store fails.
    pub(super) async fn finish(
        &self,
        verdict: TrustVerdict,
        gathering: EvidenceGathering<'_>,
        earlier: Option<EarlierTries>,
    ) -> Result<DidEvaluation, EvaluationError> {
        if verdict.unanswered.is_empty() {
            return self.build_evaluation(&verdict, gathering, None).await;
        }
        let (did, height) = (gathering.did, gathering.at.height);
        let failed = gathering.failed();
        let mut refutation = None;
        let former = match self.former_trust(did, height).await? {
            None => FormerVerdict::Absent,
            Some(false) => FormerVerdict::NotTrusted,
            Some(true) => {
                refutation = self.refute_former(&gathering, &failed).await?;
                FormerVerdict::Trusted { is_refuted: refutation.is_some() }
            }
        };
        let now = self.now();
        let first = EarlierTries { since: gathering.inherited_since.unwrap_or(now), tries: 0 };
        let earlier = earlier.unwrap_or(first);
        let is_registered = self.store().find_owner(did, height).await?.is_some();
        let limit = self.patience_millis();
        let facts = EvaluationFacts { is_registered, former, since: earlier.since, now, limit };
        let keeps_former = match decide(&facts) {
            PatienceDecision::KeepOpen { keeps_former } => keeps_former,
            decision => {
                let is_refuted = decision == PatienceDecision::CloseAsRefuted;
                let refutation = refutation.filter(|_| is_refuted);
                return self.close(verdict, gathering, failed, refutation).await;
            }
        };
        let unfinished = UnfinishedEvaluation {
            did,
            height,
            block_time: gathering.at.time,
            failed: &failed,
            unanswered: &verdict.unanswered,
            earlier,
        };
        let evaluation = OpenEvaluation::after_try(&unfinished, now, limit, fastrand::i64(-100..=100));
        let open = UnfinishedVerdict { evaluation, keeps_former };
        self.build_evaluation(&verdict, gathering, Some(open)).await
    }

    /// Finishes a verdict although servers did not answer. The next evaluation that needs their evidence fetches again; the
    /// evaluations that follow from this one do not wait a second time.
    async fn close(
        &self,
        verdict: TrustVerdict,
        mut gathering: EvidenceGathering<'_>,
        failed: BTreeMap<EvidenceRequest, EvidenceFailure>,
        refutation: Option<Refutation<'_>>,
    ) -> Result<DidEvaluation, EvaluationError> {
        let dependents = self.store().list_dependents(&[verdict_record::parent_key(gathering.did)]).await?;
        let dependents: BTreeSet<String> = dependents.into_iter().collect();
        for (request, failure) in failed {
            self.store().save_evidence(&evidence_key(&request), None).await?;
            let failure = EvidenceFailure { transient: None, ..failure };
            self.record_given_up(GivenUpRequest { request, failure, dependents: dependents.clone(), at: self.now() });
        }
        if let Some(Refutation { verdict, mut gathering }) = refutation {
            settle_failures(&mut gathering.known);
            return self.build_evaluation(&verdict, gathering, None).await;
        }
        settle_failures(&mut gathering.known);
        self.build_evaluation(&verdict, gathering, None).await
    }

    /// Whether the last finished verdict trusts the DID. `None` without one.
    async fn former_trust(&self, did: &str, height: u64) -> Result<Option<bool>, IndexStoreError> {
        // A late verdict is stored above the height of its evaluation.
        let newest = self.store().trust_checkpoint().await?.height.max(height);
        let former = self.store().verdict(did, newest).await?;
        let finished = former.filter(|body| !verdict_record::is_unfinished(body));
        Ok(finished.map(|body| verdict_record::trust_state(&body).trusted))
    }

    /// Evaluates a DID with the stored evidence in the place of requests that failed: the registry alone may decide. Returns the
    /// verdict if no answer of a server can make the DID trusted.
    async fn refute_former<'a>(
        &self,
        gathering: &EvidenceGathering<'a>,
        failed: &BTreeMap<EvidenceRequest, EvidenceFailure>,
    ) -> Result<Option<Refutation<'a>>, EvaluationError> {
        let Evidence { documents, resources, .. } = gathering.known.clone();
        let mut known = Evidence { documents, resources, ..Evidence::default() };
        for (request, failure) in failed {
            let stored = self.store().find_evidence(&evidence_key(request)).await?;
            insert_evidence(&mut known, request, stored.ok_or_else(|| failure.clone()));
        }
        let former = EvidenceGathering::new(gathering.did, gathering.at, RefreshScope::NOTHING, known);
        let mut former = EvidenceGathering { shared: gathering.shared, ..former };
        former.budget.fetch_time_left = gathering.budget.fetch_time_left;
        let verdict = self.reach_verdict(&mut former).await?;
        let is_refuted = !verdict.is_trusted() && verdict.unanswered.is_empty();
        Ok(is_refuted.then_some(Refutation { verdict, gathering: former }))
    }
}
