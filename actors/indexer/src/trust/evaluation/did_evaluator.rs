//! The evaluation of one DID. The pure evaluation runs repeatedly: each run returns a verdict or requests evidence,
//! which is gathered before the next run.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use moka::future::Cache;
use serde_json::Value;
use svc_net::{
    evidence::{EvidenceBudget, EvidenceFetcher, FetchedEvidence, insert_evidence},
    fetch::{BoundedFetcher, FetchLimits, HttpClientError},
};
use svc_trust::{
    EssentialSchemas, EvaluationRules, Evidence, EvidenceRequest, RegistryParticipant, RegistrySchema, TrustVerdict,
    evaluate_did,
};
use tokio::{sync::Semaphore, time::Instant};

use super::verdict_record::{self, VerdictOccasion, evidence_key};
use crate::{
    store::{EntityFilter, EntityKind, IndexStore, IndexStoreError},
    trust::{config::TrustConfig, round::VerdictImpact},
};
use svc_wire::{participant_state::ParticipantState, timestamp::parse_instant};

/// Longest processor time of one evaluation.
const MAX_CPU_TIME: Duration = Duration::from_secs(60);
/// Longest time for the evidence of the last verdict, which is gathered before it is needed.
const FORMER_INPUT_TIME: Duration = Duration::from_secs(2);
/// Most runs of one evaluation: the longest path from a DID to the digests of its last parent.
const MAX_EVALUATION_ATTEMPTS: usize = 48;

/// Evaluates DIDs with the state of the store and with evidence from web servers.
pub struct DidEvaluator {
    store: IndexStore,
    fetcher: EvidenceFetcher,
    rules: EvaluationRules,
    /// One permit for each processor: verification of signatures runs on blocking threads.
    cpu_permits: Arc<Semaphore>,
    /// Digest of the evidence of the last evaluation, by DID.
    judged_evidence: Cache<String, [u8; 32]>,
}

/// DIDs whose last evidence is remembered. Of any other, evidence that was fetched counts as new.
const MAX_REMEMBERED_DIDS: u64 = 100_000;

impl DidEvaluator {
    /// Creates an evaluator for the schemas of one registry, whose references begin with `schema_prefix`. Fails when
    /// the HTTP client cannot be created.
    pub fn new(config: &TrustConfig, schema_prefix: String, store: IndexStore) -> Result<Self, HttpClientError> {
        let fetcher = BoundedFetcher::new(config.hosts, FetchLimits::default())?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            store,
            fetcher: EvidenceFetcher::new(fetcher),
            rules: EvaluationRules { schema_prefix, essential_schemas: config.essential_schemas.clone(), now: 0 },
            cpu_permits: Arc::new(Semaphore::new(cores)),
            judged_evidence: Cache::new(MAX_REMEMBERED_DIDS),
        })
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
}

/// The height of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationPoint {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    /// Whether all evidence is fetched again.
    pub is_refresh: bool,
}

/// The result of one run of the pure evaluation. `duration` excludes the wait for a processor.
struct EvaluationAttempt {
    evidence: Evidence,
    outcome: Result<TrustVerdict, BTreeSet<EvidenceRequest>>,
    duration: Duration,
}

impl DidEvaluator {
    /// Evaluates a DID, beginning with evidence that was fetched for it before. Fails when the store fails.
    pub async fn evaluate_did(
        &self,
        did: &str,
        at: EvaluationPoint,
        evidence: Evidence,
    ) -> Result<DidEvaluation, IndexStoreError> {
        if at.is_refresh {
            let (mut known, mut budget) = (evidence.clone(), EvidenceBudget::new(&evidence));
            self.gather_former_inputs(did, at, &mut known, &mut budget).await?;
            let evaluation = self.evaluate_with(did, at, known, &mut budget).await?;
            // Former evidence that is needed no longer must not take from the limits of this evaluation.
            if !budget.is_exhausted {
                return Ok(evaluation);
            }
        }
        let mut budget = EvidenceBudget::new(&evidence);
        self.evaluate_with(did, at, evidence, &mut budget).await
    }

    async fn evaluate_with(
        &self,
        did: &str,
        at: EvaluationPoint,
        mut known: Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<DidEvaluation, IndexStoreError> {
        let rules = EvaluationRules { now: at.time, ..self.rules.clone() };
        let mut cpu_time = Duration::ZERO;
        for _ in 0..MAX_EVALUATION_ATTEMPTS {
            let answered = known.answered_requests();
            let Some(EvaluationAttempt { evidence, outcome, duration }) =
                self.run_evaluation(did, known, rules.clone()).await
            else {
                let verdict = TrustVerdict::abandoned(did, answered, "it breaks the evaluation");
                return self.build_evaluation(did, at, &verdict, Evidence::default(), budget).await;
            };
            known = evidence;
            cpu_time += duration;
            match outcome {
                Ok(verdict) => {
                    let evidence =
                        Evidence { documents: known.documents, resources: known.resources, ..Evidence::default() };
                    return self.build_evaluation(did, at, &verdict, evidence, budget).await;
                }
                Err(_) if cpu_time > MAX_CPU_TIME => break,
                Err(requests) => self.gather_evidence(&requests, at, &mut known, budget).await?,
            }
        }
        let verdict =
            TrustVerdict::abandoned(did, known.answered_requests(), format!("it was not judged within {cpu_time:?}"));
        self.build_evaluation(did, at, &verdict, Evidence::default(), budget).await
    }

    async fn build_evaluation(
        &self,
        did: &str,
        EvaluationPoint { height, time, .. }: EvaluationPoint,
        verdict: &TrustVerdict,
        evidence: Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<DidEvaluation, IndexStoreError> {
        let corporation_id = self.store.find_owner(did, height).await?;
        let occasion = VerdictOccasion { height, time, corporation_id: corporation_id.unwrap_or(0) };
        let body = verdict_record::verdict_body(did, verdict, occasion);
        let before = self.store.verdict(did, height).await?;
        // Other evidence can change the verdicts on dependents even when this verdict stays the same. It is compared with that of the
        // last evaluation of this DID: the store's can come from the evaluation of another one.
        let digest = verdict_record::evidence_digest(verdict, &evidence);
        let former = self.judged_evidence.get(did).await;
        let has_other_evidence = former.map_or(!budget.requested.is_empty(), |former| former != digest);
        self.judged_evidence.insert(did.to_owned(), digest).await;
        let is_new = has_other_evidence || before.is_none_or(|before| !verdict_record::is_same_verdict(&before, &body));
        let impact = VerdictImpact {
            is_new,
            dependents: self.store.list_dependents(&[verdict_record::parent_key(did)]).await?,
            parents: verdict.consulted.iter().cloned().collect(),
        };
        Ok(DidEvaluation {
            body,
            corporation_id,
            evidence_keys: verdict_record::evidence_keys(verdict),
            fetched_keys: std::mem::take(&mut budget.requested).iter().map(evidence_key).collect(),
            impact,
            evidence,
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

    /// Gathers the evidence of the last verdict at once, since most of it is needed again. A server that does not answer soon is asked
    /// when the evaluation needs it, with all of the time that one DID has.
    async fn gather_former_inputs(
        &self,
        did: &str,
        at: EvaluationPoint,
        known: &mut Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<(), IndexStoreError> {
        let former = self.store.list_inputs(did).await?;
        let requests: BTreeSet<EvidenceRequest> =
            former.iter().filter_map(|key| verdict_record::parse_evidence_key(key)).collect();
        let time_left = std::mem::replace(&mut budget.fetch_time_left, FORMER_INPUT_TIME);
        let gathered = self.gather_evidence(&requests, at, known, budget).await;
        let spent = FORMER_INPUT_TIME.saturating_sub(budget.fetch_time_left);
        budget.fetch_time_left = time_left.saturating_sub(spent);
        budget.is_exhausted = false;
        known.documents.retain(|_, document| document.is_ok());
        known.resources.retain(|_, resource| resource.is_ok());
        gathered
    }

    async fn gather_evidence(
        &self,
        requests: &BTreeSet<EvidenceRequest>,
        at: EvaluationPoint,
        known: &mut Evidence,
        budget: &mut EvidenceBudget,
    ) -> Result<(), IndexStoreError> {
        let mut remote = Vec::new();
        for request in requests {
            match request {
                EvidenceRequest::Document(_) | EvidenceRequest::Resource(_) => remote.push(request),
                EvidenceRequest::Participants(did) => {
                    let found = self.load_participants(did, at).await?;
                    known.participants.insert(did.clone(), found.into());
                }
                EvidenceRequest::Schema(id) => {
                    known.schemas.insert(*id, self.load_schema(*id, at.height).await?.map(Arc::new));
                }
                EvidenceRequest::Digest(digest) => {
                    let filter = EntityFilter { name: Some(digest.clone()), ..EntityFilter::default() };
                    let found = self.store.find_entity(EntityKind::Digest, &filter, at.height).await?;
                    known
                        .digest_anchors
                        .insert(digest.clone(), found.and_then(|stored| parse_instant(&stored.body, "created")));
                }
            }
        }
        let mut missing = Vec::new();
        for request in remote {
            let stored = self.store.find_evidence(&evidence_key(request)).await?;
            match stored {
                Some(body) if !at.is_refresh => insert_evidence(known, request, budget.charge(body)),
                stored => missing.push((request.clone(), stored)),
            }
        }
        let mut stored: BTreeMap<EvidenceRequest, Option<Value>> = missing.into_iter().collect();
        let started = Instant::now();
        let mut fetches = pin!(self.fetcher.fetch_all(stored.keys().cloned().collect(), budget));
        while let Some((request, fetched)) = fetches.next().await {
            // A failure of the web server deletes the stored evidence, so the next evaluation that needs it fetches
            // again. The limits of this DID do not change stored evidence: other DIDs may use it.
            let before = stored.remove(&request).flatten();
            if let FetchedEvidence::Answered(answer) = &fetched
                && answer.as_ref().ok() != before.as_ref()
            {
                self.store.save_evidence(&evidence_key(&request), answer.as_ref().ok()).await?;
            }
            insert_evidence(known, &request, budget.accept(fetched));
        }
        budget.spend(started.elapsed());
        Ok(())
    }

    async fn load_participants(
        &self,
        did: &str,
        at: EvaluationPoint,
    ) -> Result<Vec<RegistryParticipant>, IndexStoreError> {
        let filter = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        let found = self.store.list_all(EntityKind::Participant, at.height, &filter).await?;
        Ok(found.into_iter().map(|stored| participant_evidence(&stored.body, at.time)).collect())
    }

    async fn load_schema(&self, id: u64, height: u64) -> Result<Option<RegistrySchema>, IndexStoreError> {
        let Some(body) = self.store.entity(EntityKind::Schema, id, height).await? else { return Ok(None) };
        let ecosystem_id = body["ecosystem_id"].as_u64().unwrap_or(0);
        let ecosystem = self.store.entity(EntityKind::Ecosystem, ecosystem_id, height).await?.unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Some(RegistrySchema {
            id,
            ecosystem_id,
            ecosystem_did: text(&ecosystem["did"]),
            json_schema: text(&body["json_schema"]),
            digest_algorithm: text(&body["digest_algorithm"]),
            is_open_to_holders: body["holder_onboarding_mode"] == "PERMISSIONLESS",
        }))
    }
}

fn participant_evidence(body: &Value, now: i128) -> RegistryParticipant {
    let number = |key: &str| body[key].as_u64().unwrap_or(0);
    RegistryParticipant {
        id: number("id"),
        role: body["role"].as_str().unwrap_or_default().to_owned(),
        schema_id: number("schema_id"),
        effective_from: parse_instant(body, "effective_from"),
        effective_until: parse_instant(body, "effective_until"),
        state: ParticipantState::derive_at(body, now),
    }
}
