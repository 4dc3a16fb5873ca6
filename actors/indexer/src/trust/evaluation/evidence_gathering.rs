//! The evidence of one evaluation, from the store and from web servers.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use serde_json::Value;
use svc_net::evidence::{EvidenceBudget, FetchedEvidence, insert_evidence};
use svc_trust::{Evidence, EvidenceFailure, EvidenceRequest, RegistryParticipant, RegistrySchema};
use svc_wire::{participant_state::ParticipantInstants, timestamp::parse_instant};
use tokio::time::Instant;

use super::{
    did_evaluator::{DidEvaluator, EvaluationError, EvaluationPoint},
    shared_answers::SharedAnswers,
    verdict_record::{self, evidence_key},
};
use crate::store::{EntityFilter, EntityKind, IndexStoreError};

/// Longest time for the evidence of the last verdict, which is gathered before it is needed.
const FORMER_INPUT_TIME: Duration = Duration::from_secs(2);

/// The evidence that is fetched although the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefreshScope {
    /// The evidence of these requests: earlier fetches failed.
    Only(BTreeSet<EvidenceRequest>),
    All,
}

impl RefreshScope {
    /// Nothing that the store has.
    pub const NOTHING: Self = Self::Only(BTreeSet::new());

    fn contains(&self, request: &EvidenceRequest) -> bool {
        match self {
            Self::Only(requests) => requests.contains(request),
            Self::All => true,
        }
    }
}

/// The evidence of one evaluation, and its limits.
#[derive(Debug)]
pub(super) struct EvidenceGathering<'a> {
    pub did: &'a str,
    pub at: EvaluationPoint,
    pub refresh: RefreshScope,
    pub known: Evidence,
    pub budget: EvidenceBudget,
    /// Requests of the last verdict that failed for a reason that may pass, before they were needed.
    pub failed_before_use: BTreeMap<EvidenceRequest, EvidenceFailure>,
    /// First failure that the evaluation inherited from an open one, milliseconds since the epoch.
    pub inherited_since: Option<i64>,
    /// Answers of the group of tries that the evaluation belongs to.
    pub shared: Option<&'a SharedAnswers>,
}

impl<'a> EvidenceGathering<'a> {
    /// Begins with evidence that was fetched earlier.
    pub fn new(did: &'a str, at: EvaluationPoint, refresh: RefreshScope, known: Evidence) -> Self {
        let budget = EvidenceBudget::new(&known);
        let failed_before_use = BTreeMap::new();
        Self { did, at, refresh, known, budget, failed_before_use, inherited_since: None, shared: None }
    }

    /// Returns the requests that failed for a reason that may pass.
    pub fn failed(&self) -> BTreeMap<EvidenceRequest, EvidenceFailure> {
        let mut failed = self.failed_before_use.clone();
        failed.retain(|request, _| match request {
            EvidenceRequest::Document(did) => !self.known.documents.contains_key(did),
            EvidenceRequest::Resource(url) => !self.known.resources.contains_key(url),
            EvidenceRequest::Participants(_) | EvidenceRequest::Schema(_) | EvidenceRequest::Digest(_) => false,
        });
        failed.extend(transient_failures(&self.known));
        failed
    }
}

/// Returns the failures in evidence that may pass.
fn transient_failures(evidence: &Evidence) -> impl Iterator<Item = (EvidenceRequest, EvidenceFailure)> {
    let documents = evidence
        .documents
        .iter()
        .filter_map(|(did, document)| Some((EvidenceRequest::Document(did.clone()), document.as_ref().err()?.clone())));
    let resources = evidence
        .resources
        .iter()
        .filter_map(|(url, resource)| Some((EvidenceRequest::Resource(url.clone()), resource.as_ref().err()?.clone())));
    documents.chain(resources).filter(|(_, failure)| failure.transient.is_some())
}

/// Makes the failures in evidence definitive: the evaluation is closed.
pub(super) fn settle_failures(evidence: &mut Evidence) {
    let documents = evidence.documents.values_mut().filter_map(|document| document.as_mut().err());
    let resources = evidence.resources.values_mut().filter_map(|resource| resource.as_mut().err());
    documents.chain(resources).for_each(|failure| failure.transient = None);
}

impl DidEvaluator {
    /// Gathers the evidence of the last verdict at once, since most of it is needed again. A server that does not answer soon is asked
    /// when the evaluation needs it, with all of the time that one DID has.
    pub(super) async fn gather_former_inputs(
        &self,
        gathering: &mut EvidenceGathering<'_>,
    ) -> Result<(), EvaluationError> {
        let former = self.store().list_inputs(gathering.did).await?;
        let requests: BTreeSet<EvidenceRequest> =
            former.iter().filter_map(|key| verdict_record::parse_evidence_key(key)).collect();
        let time_left = std::mem::replace(&mut gathering.budget.fetch_time_left, FORMER_INPUT_TIME);
        let gathered = self.gather_evidence(&requests, gathering).await;
        let spent = FORMER_INPUT_TIME.saturating_sub(gathering.budget.fetch_time_left);
        gathering.budget.fetch_time_left = time_left.saturating_sub(spent);
        gathering.budget.is_exhausted = false;
        gathering.failed_before_use = transient_failures(&gathering.known).collect();
        gathering.known.documents.retain(|_, document| document.is_ok());
        gathering.known.resources.retain(|_, resource| resource.is_ok());
        gathered
    }

    pub(super) async fn gather_evidence(
        &self,
        requests: &BTreeSet<EvidenceRequest>,
        gathering: &mut EvidenceGathering<'_>,
    ) -> Result<(), EvaluationError> {
        let (at, known) = (gathering.at, &mut gathering.known);
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
                    let found = self.digests().find(digest, at.height, at.time).await?;
                    let anchored_at = found.and_then(|body| parse_instant(&body, "created"));
                    known.digest_anchors.insert(digest.clone(), anchored_at);
                }
            }
        }
        let mut missing = BTreeMap::new();
        for request in remote {
            let stored = self.store().find_evidence(&evidence_key(request)).await?;
            if let Some(found) = self.find_without_server(request, stored.as_ref(), gathering) {
                let found = found.and_then(|body| gathering.budget.charge(body));
                insert_evidence(&mut gathering.known, request, found);
            } else {
                missing.insert(request.clone(), stored);
            }
        }
        Ok(self.fetch_missing(missing, gathering).await?)
    }

    /// Returns the evidence that no server is asked for: stored, shared by the tries of a group, or in doubt already.
    fn find_without_server(
        &self,
        request: &EvidenceRequest,
        stored: Option<&Value>,
        gathering: &mut EvidenceGathering<'_>,
    ) -> Option<Result<Value, EvidenceFailure>> {
        if gathering.refresh.contains(request) {
            return gathering.shared.and_then(|shared| shared.find(request));
        }
        if let Some(inherited) = self.find_doubt(gathering.did, request) {
            gathering.inherited_since = gathering.inherited_since.into_iter().chain(inherited.since).min();
            return Some(Err(inherited.failure));
        }
        stored.cloned().map(Ok)
    }

    async fn fetch_missing(
        &self,
        mut stored: BTreeMap<EvidenceRequest, Option<Value>>,
        gathering: &mut EvidenceGathering<'_>,
    ) -> Result<(), IndexStoreError> {
        let started = Instant::now();
        let requests = stored.keys().cloned().collect();
        let mut fetches = pin!(self.fetcher().fetch_all(requests, &mut gathering.budget));
        while let Some((request, fetched)) = fetches.next().await {
            // A definitive failure of the web server deletes the stored evidence, so the next evaluation that needs it fetches again.
            // A failure that may pass does not, and neither do the limits of this DID: other evaluations may use the evidence.
            let before = stored.remove(&request).flatten();
            if let FetchedEvidence::Answered(answer) = &fetched {
                let may_pass = answer.as_ref().is_err_and(|failure| failure.transient.is_some());
                if !may_pass {
                    self.record_answer(&request);
                    if answer.as_ref().ok() != before.as_ref() {
                        self.store().save_evidence(&evidence_key(&request), answer.as_ref().ok()).await?;
                    }
                }
                if let Some(shared) = gathering.shared {
                    shared.record(&request, answer);
                }
            }
            let accepted = gathering.budget.accept(fetched);
            insert_evidence(&mut gathering.known, &request, accepted);
        }
        gathering.budget.spend(started.elapsed());
        Ok(())
    }

    async fn load_participants(
        &self,
        did: &str,
        at: EvaluationPoint,
    ) -> Result<Vec<RegistryParticipant>, IndexStoreError> {
        let filter = EntityFilter { did: Some(did.to_owned()), ..EntityFilter::default() };
        let found = self.store().list_all(EntityKind::Participant, at.height, &filter).await?;
        Ok(found.into_iter().map(|stored| participant_evidence(&stored.body, at.time)).collect())
    }

    async fn load_schema(&self, id: u64, height: u64) -> Result<Option<RegistrySchema>, IndexStoreError> {
        let Some(body) = self.store().entity(EntityKind::Schema, id, height).await? else { return Ok(None) };
        let ecosystem_id = body["ecosystem_id"].as_u64().unwrap_or(0);
        let ecosystem = self.store().entity(EntityKind::Ecosystem, ecosystem_id, height).await?.unwrap_or_default();
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
    let role = (body["role"].as_str().unwrap_or_default(), number("schema_id"));
    RegistryParticipant::at(now, number("id"), role, &ParticipantInstants::of_json(body))
}
