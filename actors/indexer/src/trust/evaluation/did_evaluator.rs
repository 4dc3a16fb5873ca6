//! The evaluation of one DID. The pure evaluation runs repeatedly: each run returns a verdict or requests evidence,
//! which is gathered before the next run. A verdict whose outcome depends on a failure that may pass is not finished.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use moka::future::Cache;
use serde_json::Value;
use svc_kit::{RetainedState, wall_clock};
use svc_net::{
    evidence::EvidenceFetcher,
    fetch::{BoundedFetcher, FetchLimits, HttpClientError},
};
use svc_trust::{EssentialSchemas, EvaluationRules, Evidence, EvidenceRequest, TrustVerdict, evaluate_did};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    evidence_gathering::{EvidenceGathering, RefreshScope},
    shared_answers::SharedAnswers,
    verdict_record::{self, VerdictOccasion},
};
use crate::{
    ingest::{DigestLookup, DigestLookupError},
    store::{IndexStore, IndexStoreError},
    trust::{
        config::TrustConfig,
        patience::{
            WallClock,
            doubts::{EvidenceDoubts, GivenUpRequest, InheritedFailure},
            millis,
            open_evaluation::{EarlierTries, OpenEvaluation},
            open_evaluations::OpenEvaluations,
        },
        round::VerdictImpact,
    },
};

/// Longest processor time of one evaluation.
const MAX_CPU_TIME: Duration = Duration::from_secs(60);
/// Most runs of one evaluation: the longest path from a DID to the digests of its last parent.
const MAX_EVALUATION_ATTEMPTS: usize = 48;
/// Groups of tries that run at once.
const MAX_TRY_GROUPS: usize = 8;

/// Evaluates DIDs with the state of the store and with evidence from web servers.
pub struct DidEvaluator {
    store: IndexStore,
    digests: DigestLookup,
    fetcher: EvidenceFetcher,
    rules: EvaluationRules,
    /// Longest time that an evaluation stays open.
    patience: Duration,
    clock: WallClock,
    doubts: RetainedState<EvidenceDoubts>,
    /// One permit for each processor: verification of signatures runs on blocking threads.
    cpu_permits: Arc<Semaphore>,
    try_permits: Semaphore,
    /// Digest of the evidence of the last evaluation, by DID.
    judged_evidence: Cache<String, [u8; 32]>,
}

/// DIDs whose last evidence is remembered. Of any other, evidence that was fetched counts as new.
const MAX_REMEMBERED_DIDS: u64 = 100_000;

impl DidEvaluator {
    /// Creates an evaluator for the schemas of one registry, whose references begin with `schema_prefix`. Fails when
    /// the HTTP client cannot be created.
    pub fn new(config: &TrustConfig, schema_prefix: String, digests: DigestLookup) -> Result<Self, HttpClientError> {
        let fetcher = BoundedFetcher::new(config.hosts, FetchLimits::default())?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            store: digests.store().clone(),
            digests,
            fetcher: EvidenceFetcher::new(fetcher),
            rules: EvaluationRules { schema_prefix, essential_schemas: config.essential_schemas.clone(), now: 0 },
            patience: config.patience(),
            clock: Arc::new(wall_clock::now_millis),
            doubts: RetainedState::default(),
            cpu_permits: Arc::new(Semaphore::new(cores)),
            try_permits: Semaphore::new(MAX_TRY_GROUPS),
            judged_evidence: Cache::new(MAX_REMEMBERED_DIDS),
        })
    }

    /// Replaces the clock of open evaluations.
    #[cfg(test)]
    pub fn with_clock(self, clock: WallClock) -> Self {
        Self { clock, ..self }
    }

    /// Forgets the evidence of all evaluations: some of them may not have been written.
    pub fn forget_evidence(&self) {
        self.judged_evidence.invalidate_all();
    }

    /// The schemas that are essential.
    pub fn essential_schemas(&self) -> &EssentialSchemas {
        &self.rules.essential_schemas
    }

    /// Returns the store that the evaluations read.
    pub fn store(&self) -> &IndexStore {
        &self.store
    }

    /// Returns the time of the clock of open evaluations, milliseconds since the epoch.
    pub fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Takes over the failures of the open evaluations, for the services that depend on them.
    pub fn follow_open_evaluations(&self, evaluations: &OpenEvaluations) {
        self.doubts.with(|doubts| doubts.follow(evaluations));
    }

    pub(super) fn digests(&self) -> &DigestLookup {
        &self.digests
    }

    pub(super) fn fetcher(&self) -> &EvidenceFetcher {
        &self.fetcher
    }

    /// Longest time that an evaluation stays open, in milliseconds.
    pub(super) fn patience_millis(&self) -> i64 {
        millis(self.patience)
    }

    pub(super) fn find_doubt(&self, did: &str, request: &EvidenceRequest) -> Option<InheritedFailure> {
        self.doubts.with(|doubts| doubts.find(did, request, self.now()))
    }

    pub(super) fn record_answer(&self, request: &EvidenceRequest) {
        self.doubts.with(|doubts| doubts.answered(request));
    }

    pub(super) fn record_given_up(&self, given_up: GivenUpRequest) {
        self.doubts.with(|doubts| doubts.give_up(given_up));
    }
}

/// A verdict with the data that the store and the rounds need.
#[derive(Debug)]
pub struct DidEvaluation {
    /// The verdict as it is stored.
    pub body: Value,
    /// `None` for a DID that the registry does not contain.
    pub corporation_id: Option<u64>,
    /// Keys of the evidence that the verdict depends on.
    pub evidence_keys: Vec<String>,
    /// Keys of the evidence that was fetched for the verdict.
    pub fetched_keys: Vec<String>,
    /// Consequences for other DIDs.
    pub impact: VerdictImpact,
    /// Documents and resources of the verdict, with the failures; without the state of the registry.
    pub evidence: Evidence,
    /// Set while the evaluation is not finished.
    pub open: Option<UnfinishedVerdict>,
}

impl DidEvaluation {
    /// Whether the last finished verdict on the DID stays.
    pub fn keeps_former(&self) -> bool {
        self.open.as_ref().is_some_and(|unfinished| unfinished.keeps_former)
    }
}

/// The part of an evaluation that waits for a web server.
#[derive(Debug, Clone)]
pub struct UnfinishedVerdict {
    pub evaluation: OpenEvaluation,
    /// Whether the last finished verdict stays. Otherwise the DID has none, and this one is shown until it is finished.
    pub keeps_former: bool,
}

/// The height of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationPoint {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
}

/// An evaluation to perform.
#[derive(Debug)]
pub struct EvaluationTask {
    pub at: EvaluationPoint,
    pub refresh: RefreshScope,
    /// Evidence that was fetched for it before.
    pub evidence: Evidence,
    /// `None` for the first try.
    pub earlier: Option<EarlierTries>,
}

/// An evaluation was not performed; it is repeated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] IndexStoreError),
    /// It is not known whether a digest is anchored.
    #[error(transparent)]
    Digest(#[from] DigestLookupError),
}

/// The result of one run of the pure evaluation. `duration` excludes the wait for a processor.
struct EvaluationAttempt {
    evidence: Evidence,
    outcome: Result<TrustVerdict, BTreeSet<EvidenceRequest>>,
    duration: Duration,
}

impl DidEvaluator {
    /// Evaluates a DID. Fails when the store fails, or when the node does not tell whether an earlier digest is anchored.
    pub async fn evaluate_did(&self, did: &str, task: EvaluationTask) -> Result<DidEvaluation, EvaluationError> {
        let EvaluationTask { at, refresh, evidence, earlier } = task;
        if refresh == RefreshScope::All {
            let mut gathering = EvidenceGathering::new(did, at, RefreshScope::All, evidence.clone());
            self.gather_former_inputs(&mut gathering).await?;
            let verdict = self.reach_verdict(&mut gathering).await?;
            // Former evidence that is needed no longer must not take from the limits of this evaluation.
            if !gathering.budget.is_exhausted {
                return self.finish(verdict, gathering, earlier).await;
            }
        }
        let mut gathering = EvidenceGathering::new(did, at, refresh, evidence);
        let verdict = self.reach_verdict(&mut gathering).await?;
        self.finish(verdict, gathering, earlier).await
    }

    /// Tries the open evaluations of a group again, one after the other: only the requests that failed are repeated, and each server
    /// is asked once. Calls `ended` with each result.
    pub async fn try_again(
        &self,
        group: Vec<OpenEvaluation>,
        mut ended: impl FnMut(OpenEvaluation, Result<DidEvaluation, EvaluationError>),
    ) {
        let _permit = self.try_permits.acquire().await;
        let shared = SharedAnswers::default();
        for open in group {
            let at = EvaluationPoint { height: open.height, time: open.block_time.into() };
            let refresh = RefreshScope::Only(open.failed_requests());
            let mut gathering = EvidenceGathering {
                shared: Some(&shared),
                ..EvidenceGathering::new(&open.did, at, refresh, Evidence::default())
            };
            let earlier = EarlierTries { since: open.since, tries: open.tries };
            let result = match self.reach_verdict(&mut gathering).await {
                Ok(verdict) => self.finish(verdict, gathering, Some(earlier)).await,
                Err(error) => Err(error),
            };
            ended(open, result);
        }
    }

    /// Runs the evaluation until its evidence is complete.
    pub(super) async fn reach_verdict(
        &self,
        gathering: &mut EvidenceGathering<'_>,
    ) -> Result<TrustVerdict, EvaluationError> {
        let did = gathering.did;
        let rules = EvaluationRules { now: gathering.at.time, ..self.rules.clone() };
        let mut cpu_time = Duration::ZERO;
        for _ in 0..MAX_EVALUATION_ATTEMPTS {
            let answered = gathering.known.answered_requests();
            let known = std::mem::take(&mut gathering.known);
            let Some(EvaluationAttempt { evidence, outcome, duration }) =
                self.run_evaluation(did, known, rules.clone()).await
            else {
                return Ok(TrustVerdict::abandoned(did, answered, "it breaks the evaluation"));
            };
            gathering.known = evidence;
            cpu_time += duration;
            match outcome {
                Ok(verdict) => return Ok(verdict),
                Err(_) if cpu_time > MAX_CPU_TIME => break,
                Err(requests) => self.gather_evidence(&requests, gathering).await?,
            }
        }
        let answered = std::mem::take(&mut gathering.known).answered_requests();
        Ok(TrustVerdict::abandoned(did, answered, format!("it was not judged within {cpu_time:?}")))
    }

    pub(super) async fn build_evaluation(
        &self,
        verdict: &TrustVerdict,
        gathering: EvidenceGathering<'_>,
        unfinished: Option<UnfinishedVerdict>,
    ) -> Result<DidEvaluation, EvaluationError> {
        let (did, EvaluationPoint { height, time }) = (gathering.did, gathering.at);
        let Evidence { documents, resources, .. } = gathering.known;
        let evidence = Evidence { documents, resources, ..Evidence::default() };
        let corporation_id = self.store.find_owner(did, height).await?;
        let occasion = VerdictOccasion { height, time, corporation_id: corporation_id.unwrap_or(0) };
        let mut body = verdict_record::verdict_body(did, verdict, occasion);
        let is_new = if unfinished.is_some() {
            verdict_record::mark_unfinished(&mut body);
            false
        } else {
            let before = self.store.verdict(did, height).await?;
            // Other evidence can change the verdicts on dependents even when this verdict stays the same. It is compared with that of the
            // last evaluation of this DID: the store's can come from the evaluation of another one.
            let digest = verdict_record::evidence_digest(verdict, &evidence);
            let former = self.judged_evidence.get(did).await;
            let has_other_evidence = former.map_or(!gathering.budget.requested.is_empty(), |former| former != digest);
            self.judged_evidence.insert(did.to_owned(), digest).await;
            has_other_evidence || before.is_none_or(|before| !verdict_record::is_same_verdict(&before, &body))
        };
        let impact = VerdictImpact {
            is_new,
            dependents: self.store.list_dependents(&[verdict_record::parent_key(did)]).await?,
            parents: verdict.consulted.iter().cloned().collect(),
        };
        Ok(DidEvaluation {
            body,
            corporation_id,
            evidence_keys: verdict_record::evidence_keys(verdict),
            fetched_keys: gathering.budget.requested.iter().map(verdict_record::evidence_key).collect(),
            impact,
            evidence,
            open: unfinished,
        })
    }

    /// Runs the pure evaluation on a blocking thread. `None` if the evidence made it panic.
    async fn run_evaluation(&self, did: &str, known: Evidence, rules: EvaluationRules) -> Option<EvaluationAttempt> {
        let permit = Arc::clone(&self.cpu_permits).acquire_owned().await;
        let did = did.to_owned();
        let run = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let started = Instant::now();
            let outcome = evaluate_did(&did, &known, &rules);
            EvaluationAttempt { evidence: known, outcome, duration: started.elapsed() }
        });
        run.await.ok()
    }
}
