//! Evidence of an evaluation: the requests for it, the answers, and the view that notes which of them were used.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_wire::participant_state::{ParticipantInstants, ParticipantState};

use crate::{
    evidence_request::EvidenceRequest,
    rejection::{RejectionCode, RejectionReason},
};

/// Evidence that could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceFailure {
    /// The step that failed.
    pub code: RejectionCode,
    /// The cause, as one sentence.
    pub message: String,
    /// Set when a later fetch may succeed. `None` for a definitive failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transient: Option<TransientCause>,
}

impl EvidenceFailure {
    /// A definitive failure.
    pub fn new(code: RejectionCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), transient: None }
    }
}

/// A fetch failed for a reason that may pass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransientCause {
    /// Requested URL. `None` when no server was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// HTTP status. `None` when the server did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Seconds after which the server asks for the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl From<&EvidenceFailure> for RejectionReason {
    fn from(failure: &EvidenceFailure) -> Self {
        // It quotes the server.
        Self::new(failure.code, failure.message.clone())
    }
}

/// A participant of a DID in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryParticipant {
    /// Id.
    pub id: u64,
    /// Role, such as ISSUER or HOLDER.
    pub role: String,
    /// Id of its schema.
    pub schema_id: u64,
    /// Start, nanoseconds since the epoch.
    pub effective_from: Option<i128>,
    /// End, nanoseconds since the epoch.
    pub effective_until: Option<i128>,
    /// State at the evaluated block, as the chain judges it.
    pub state: ParticipantState,
}

impl RegistryParticipant {
    /// A participant at the time of the evaluated block, in nanoseconds since the epoch.
    pub fn at(now: i128, id: u64, (role, schema_id): (impl Into<String>, u64), instants: &ParticipantInstants) -> Self {
        Self {
            id,
            role: role.into(),
            schema_id,
            effective_from: instants.from,
            effective_until: instants.until,
            state: instants.chain_state_at(now),
        }
    }
}

/// A credential schema of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySchema {
    /// Id.
    pub id: u64,
    /// Id of its ecosystem.
    pub ecosystem_id: u64,
    /// DID of its ecosystem.
    pub ecosystem_did: String,
    /// Text of the JSON Schema, byte for byte as on the chain.
    pub json_schema: String,
    /// `sha384` or `sha512`.
    pub digest_algorithm: String,
    /// Whether a DID without a HOLDER participant may hold its credentials.
    pub is_open_to_holders: bool,
}

/// Collected evidence. An entry can say that the evidence could not be fetched, or does not exist.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// DID Documents by DID.
    pub documents: HashMap<String, Result<Arc<Value>, EvidenceFailure>>,
    /// Texts by URL.
    pub resources: HashMap<String, Result<Arc<str>, EvidenceFailure>>,
    /// Participants by DID.
    pub participants: HashMap<String, Arc<[RegistryParticipant]>>,
    /// Schemas by id.
    pub schemas: HashMap<u64, Option<Arc<RegistrySchema>>>,
    /// Times of anchoring by digest, nanoseconds since the epoch.
    pub digest_anchors: HashMap<String, Option<i128>>,
    /// Results of proof and schema checks. An evaluation starts again each time evidence was added, and these checks are slow.
    pub verifications: VerificationCache,
}

impl Evidence {
    /// The requests that have an answer.
    pub fn answered_requests(&self) -> Vec<EvidenceRequest> {
        let documents = self.documents.keys().cloned().map(EvidenceRequest::Document);
        let resources = self.resources.keys().cloned().map(EvidenceRequest::Resource);
        let participants = self.participants.keys().cloned().map(EvidenceRequest::Participants);
        let schemas = self.schemas.keys().copied().map(EvidenceRequest::Schema);
        let digests = self.digest_anchors.keys().cloned().map(EvidenceRequest::Digest);
        documents.chain(resources).chain(participants).chain(schemas).chain(digests).collect()
    }
}

/// Results of slow checks, valid for one instant of evaluation. Clones share the results.
#[derive(Debug, Clone, Default)]
pub struct VerificationCache(Arc<Mutex<VerificationOutcomes>>);

/// Results by the digest of all inputs of the check.
type VerificationOutcomes = HashMap<[u8; 32], Result<(), RejectionReason>>;

/// An evaluation, or a part of it, cannot go on.
#[derive(Debug, Clone)]
pub(crate) enum MissingEvidence {
    /// The evidence has no answer to a request.
    NotYetKnown,
    /// The evidence is complete, and a check rejects it.
    Rejected(RejectionReason),
}

impl MissingEvidence {
    /// The rejection; none while an answer is missing.
    pub(crate) fn into_rejection(self) -> Option<RejectionReason> {
        match self {
            Self::NotYetKnown => None,
            Self::Rejected(reason) => Some(reason),
        }
    }
}

impl<R: Into<RejectionReason>> From<R> for MissingEvidence {
    fn from(reason: R) -> Self {
        Self::Rejected(reason.into())
    }
}

fn rejection(failure: &EvidenceFailure, request: EvidenceRequest) -> RejectionReason {
    let unanswered = failure.transient.is_some().then(|| Box::new(request));
    RejectionReason { unanswered, ..RejectionReason::from(failure) }
}

/// View of the evidence that notes each used request, and each request without an answer.
pub(crate) struct EvidenceView<'a> {
    evidence: &'a Evidence,
    inputs: RefCell<BTreeSet<EvidenceRequest>>,
    missing: RefCell<BTreeSet<EvidenceRequest>>,
}

impl<'a> EvidenceView<'a> {
    pub fn new(evidence: &'a Evidence) -> Self {
        Self { evidence, inputs: RefCell::default(), missing: RefCell::default() }
    }

    fn record_input<T>(&self, request: EvidenceRequest, found: Option<&'a T>) -> Result<&'a T, MissingEvidence> {
        if found.is_none() {
            self.missing.borrow_mut().insert(request.clone());
        }
        self.inputs.borrow_mut().insert(request);
        found.ok_or(MissingEvidence::NotYetKnown)
    }

    pub fn document(&self, did: &str) -> Result<&'a Value, MissingEvidence> {
        let request = EvidenceRequest::Document(did.to_owned());
        let found = self.record_input(request.clone(), self.evidence.documents.get(did))?;
        found
            .as_deref()
            .map_err(|failure| RejectionReason { did: Some(did.to_owned()), ..rejection(failure, request) }.into())
    }

    pub fn resource(&self, url: &str) -> Result<&'a str, MissingEvidence> {
        let request = EvidenceRequest::Resource(url.to_owned());
        let found = self.record_input(request.clone(), self.evidence.resources.get(url))?;
        found.as_deref().map_err(|failure| rejection(failure, request).into())
    }

    /// Result of a check with these inputs, from the cache when it ran before.
    pub fn verify_once(
        &self,
        inputs: &[&[u8]],
        check: impl FnOnce() -> Result<(), RejectionReason>,
    ) -> Result<(), RejectionReason> {
        let mut hash = Sha256::new();
        for input in inputs {
            hash = hash.chain_update((input.len() as u64).to_be_bytes()).chain_update(input);
        }
        let key: [u8; 32] = hash.finalize().into();
        let outcomes = || self.evidence.verifications.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = outcomes().get(&key).cloned();
        cached.unwrap_or_else(|| {
            let outcome = check();
            outcomes().insert(key, outcome.clone());
            outcome
        })
    }

    pub fn participants(&self, did: &str) -> Result<&'a [RegistryParticipant], MissingEvidence> {
        self.record_input(EvidenceRequest::Participants(did.to_owned()), self.evidence.participants.get(did))
            .map(|found| &**found)
    }

    pub fn schema(&self, id: u64) -> Result<&'a RegistrySchema, MissingEvidence> {
        let found = self.record_input(EvidenceRequest::Schema(id), self.evidence.schemas.get(&id))?;
        found
            .as_deref()
            .ok_or_else(|| RejectionReason::new(RejectionCode::SchemaUnknown, format!("schema {id}")).into())
    }

    pub fn digest(&self, digest: &str) -> Result<Option<i128>, MissingEvidence> {
        self.record_input(EvidenceRequest::Digest(digest.to_owned()), self.evidence.digest_anchors.get(digest)).copied()
    }

    /// The used requests, or the requests without an answer.
    pub fn finish(self) -> Result<BTreeSet<EvidenceRequest>, BTreeSet<EvidenceRequest>> {
        let missing = self.missing.into_inner();
        if missing.is_empty() { Ok(self.inputs.into_inner()) } else { Err(missing) }
    }
}
