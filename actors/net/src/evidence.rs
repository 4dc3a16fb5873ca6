//! Evidence that an evaluation of trust needs from web servers, fetched within the limits of one evaluation.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use serde_json::Value;
use svc_trust::{Evidence, EvidenceFailure, EvidenceRequest, RejectionCode, TransientCause};
use tokio::time::{Instant, timeout_at};

use crate::{
    did::{DidError, DidResolver},
    fetch::{BoundedFetcher, FetchError},
    json_memory,
};

/// Longest time that all web servers of one evaluation may take.
pub const FETCH_TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most fetches of one evaluation.
const MAX_FETCHES: usize = 128;
/// Most memory of the evidence of one evaluation, in bytes.
const MAX_EVIDENCE_BYTES: usize = 8 * 1024 * 1024;
/// Fetches of one evaluation that run at once.
const FETCH_CONCURRENCY: usize = 8;

/// The resources that one evaluation has used.
#[derive(Debug)]
pub struct EvidenceBudget {
    /// Time that is left for web servers.
    pub fetch_time_left: Duration,
    /// Whether a limit refused evidence.
    pub is_exhausted: bool,
    /// Requests that went to a web server.
    pub requested: Vec<EvidenceRequest>,
    memory_bytes: usize,
}

impl EvidenceBudget {
    /// Starts with the memory of evidence that was fetched earlier.
    pub fn new(evidence: &Evidence) -> Self {
        let documents = evidence.documents.values().flatten().map(|document| json_memory::of_value(document));
        let texts = evidence.resources.values().flatten().map(|text| json_memory::of_text(text.as_bytes()));
        Self {
            fetch_time_left: FETCH_TIME_LIMIT,
            is_exhausted: false,
            requested: Vec::new(),
            memory_bytes: documents.chain(texts).sum(),
        }
    }

    /// Charges time for web servers.
    pub fn spend(&mut self, time: Duration) {
        self.fetch_time_left = self.fetch_time_left.saturating_sub(time);
    }

    /// The evidence of a fetch, with its memory charged.
    pub fn accept(&mut self, fetched: FetchedEvidence) -> Result<Value, EvidenceFailure> {
        match fetched {
            FetchedEvidence::Answered(answer) => answer.and_then(|body| self.charge(body)),
            FetchedEvidence::Limited(failure) => {
                self.is_exhausted = true;
                Err(failure)
            }
        }
    }

    /// Charges the memory of a body and returns the body. Fails when the evidence takes more memory than allowed.
    pub fn charge(&mut self, body: Value) -> Result<Value, EvidenceFailure> {
        self.memory_bytes +=
            body.as_str().map_or_else(|| json_memory::of_value(&body), |text| json_memory::of_text(text.as_bytes()));
        if self.memory_bytes > MAX_EVIDENCE_BYTES {
            self.is_exhausted = true;
            let message = format!("the material of one DID takes more than {MAX_EVIDENCE_BYTES} bytes of memory");
            Err(EvidenceFailure::new(RejectionCode::TooLarge, message))
        } else {
            Ok(body)
        }
    }
}

/// The end of one fetch.
#[derive(Debug)]
pub enum FetchedEvidence {
    /// The server's answer, or its failure.
    Answered(Result<Value, EvidenceFailure>),
    /// A limit of the evaluation, which says nothing about the server.
    Limited(EvidenceFailure),
}

/// Fetches DID Documents and resources. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EvidenceFetcher {
    resolver: DidResolver,
    fetcher: BoundedFetcher,
}

impl EvidenceFetcher {
    /// Makes a fetcher of evidence.
    pub fn new(fetcher: BoundedFetcher) -> Self {
        Self { resolver: DidResolver::with_fetcher(fetcher.clone()), fetcher }
    }

    /// Fetches documents and resources, several at once, in the time and number that are left. The caller charges the bodies, and the
    /// time to [`EvidenceBudget::spend`].
    pub fn fetch_all(
        &self,
        mut requests: BTreeSet<EvidenceRequest>,
        budget: &mut EvidenceBudget,
    ) -> impl Stream<Item = (EvidenceRequest, FetchedEvidence)> + Send + use<> {
        let end = Instant::now() + budget.fetch_time_left;
        let fetches_left = MAX_FETCHES.saturating_sub(budget.requested.len());
        let mut refused = Vec::new();
        while requests.len() > fetches_left {
            refused.extend(requests.pop_last());
        }
        budget.is_exhausted |= !refused.is_empty();
        budget.requested.extend(requests.iter().cloned());
        let refused = refused.into_iter().map(|request| {
            let message = format!("more than {MAX_FETCHES} fetches for one DID");
            (request, FetchedEvidence::Limited(EvidenceFailure::new(RejectionCode::TooLarge, message)))
        });
        let fetcher = self.clone();
        let fetches = stream::iter(requests).map(move |request| {
            let fetcher = fetcher.clone();
            async move {
                let fetched = timeout_at(end, fetcher.fetch(&request)).await.ok();
                (request, fetched.map_or_else(out_of_time, FetchedEvidence::Answered))
            }
        });
        stream::iter(refused).chain(fetches.buffer_unordered(FETCH_CONCURRENCY))
    }

    /// Fetches documents and resources, charges them, and adds them to the evidence.
    pub async fn add_all(
        &self,
        requests: BTreeSet<EvidenceRequest>,
        evidence: &mut Evidence,
        budget: &mut EvidenceBudget,
    ) {
        let started = Instant::now();
        let mut fetches = pin!(self.fetch_all(requests, budget));
        while let Some((request, fetched)) = fetches.next().await {
            insert_evidence(evidence, &request, budget.accept(fetched));
        }
        budget.spend(started.elapsed());
    }

    /// Fetches one document or resource as its server has it now.
    pub async fn fetch(&self, request: &EvidenceRequest) -> Result<Value, EvidenceFailure> {
        match request {
            EvidenceRequest::Document(did) => match self.resolver.resolve_fresh(did).await {
                Ok(document) => Ok((*document).clone()),
                Err(error) => Err(did_failure(&error)),
            },
            EvidenceRequest::Resource(url) => {
                let fetched = self.fetcher.get(url).await.map_err(|error| fetch_failure(&error))?;
                let text = String::from_utf8(fetched.body.to_vec());
                let not_utf8 =
                    |_| EvidenceFailure::new(RejectionCode::ResourceUnavailable, format!("{url} is no text in UTF-8"));
                text.map(Value::String).map_err(not_utf8)
            }
            EvidenceRequest::Participants(_) | EvidenceRequest::Schema(_) | EvidenceRequest::Digest(_) => {
                Err(EvidenceFailure::new(RejectionCode::ResourceUnavailable, "the registry knows it"))
            }
        }
    }
}

fn out_of_time() -> FetchedEvidence {
    let message = format!("the web servers of one DID took longer than {} s", FETCH_TIME_LIMIT.as_secs());
    let transient = Some(TransientCause::default());
    FetchedEvidence::Limited(EvidenceFailure { code: RejectionCode::ResourceUnavailable, message, transient })
}

/// Adds a document or a resource to the evidence.
pub fn insert_evidence(known: &mut Evidence, request: &EvidenceRequest, found: Result<Value, EvidenceFailure>) {
    match request {
        EvidenceRequest::Document(did) => {
            known.documents.insert(did.clone(), found.map(Arc::new));
        }
        EvidenceRequest::Resource(url) => {
            let text = found.map(|body| body.as_str().unwrap_or_default().into());
            known.resources.insert(url.clone(), text);
        }
        EvidenceRequest::Participants(_) | EvidenceRequest::Schema(_) | EvidenceRequest::Digest(_) => {}
    }
}

fn did_failure(error: &DidError) -> EvidenceFailure {
    let code = match error {
        DidError::MethodNotSupported { .. } => RejectionCode::DidMethodUnsupported,
        DidError::FetchFailed { error, .. } => match fetch_failure(error).code {
            RejectionCode::ResourceUnavailable => RejectionCode::DidUnresolvable,
            other => other,
        },
        DidError::InvalidDocument { .. } => RejectionCode::DidDocumentInvalid,
        DidError::LogTooLong { .. } => RejectionCode::TooLarge,
        DidError::ScidMismatch { .. } => RejectionCode::DidScidMismatch,
        DidError::InvalidLog { .. } | DidError::InvalidWitness { .. } | DidError::RolledBack { .. } => {
            RejectionCode::DidLogInvalid
        }
        DidError::Deactivated { .. } => RejectionCode::DidDeactivated,
        _ => RejectionCode::DidUnresolvable,
    };
    let transient = match error {
        DidError::FetchFailed { error, .. } => transient_cause(error),
        DidError::ResolverBusy { .. } | DidError::ResolverStopped => Some(TransientCause::default()),
        _ => None,
    };
    EvidenceFailure { code, message: error.to_string(), transient }
}

fn fetch_failure(error: &FetchError) -> EvidenceFailure {
    let code = match error {
        FetchError::NotAUrl { .. } | FetchError::HostRefused { .. } | FetchError::RedirectRefused { .. } => {
            RejectionCode::HostRefused
        }
        FetchError::BodyTooLong { .. } | FetchError::JsonTooLarge { .. } => RejectionCode::TooLarge,
        _ => RejectionCode::ResourceUnavailable,
    };
    EvidenceFailure { code, message: error.to_string(), transient: transient_cause(error) }
}

fn transient_cause(error: &FetchError) -> Option<TransientCause> {
    if !error.is_transient() {
        return None;
    }
    let (status, retry_after) = match error {
        FetchError::HttpStatus { status, retry_after, .. } => (Some(*status), retry_after.map(|time| time.as_secs())),
        _ => (None, None),
    };
    Some(TransientCause { url: Some(error.url().to_owned()), status, retry_after })
}
