//! The evaluation: from documents, credentials and the registry to a verdict.
//!
//! An evaluation starts again from the beginning each time the caller has added evidence. It notes every request that the
//! evidence does not answer, goes on where it can, and reports all missing evidence at once.

mod authorization;
mod credential_check;
mod presentation_check;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
};

pub use self::authorization::{authorize_holder, authorize_issuer};
use serde_json::Value;

use crate::{
    AcceptedCredential, EssentialCredential, EssentialSchemas, Evidence, EvidenceRequest, RejectionCode,
    RejectionReason, TrustPattern, TrustVerdict, did_document, evidence::EvidenceView,
};

/// Rules of an evaluation.
#[derive(Debug, Clone)]
pub struct EvaluationRules {
    /// `vpr:<namespace>:<chain id>:cs:`, the beginning of every reference to a schema of this registry.
    pub schema_prefix: String,
    /// The essential schemas.
    pub essential_schemas: EssentialSchemas,
    /// Time of the evaluated block, nanoseconds since the epoch.
    pub now: i128,
}

/// Presentations of one DID that are evaluated.
const MAX_PRESENTATIONS: usize = 16;
/// Length of a chain of services of which each one vouches for the next.
const MAX_PARENT_DEPTH: usize = 4;
/// Checks of a parent in one evaluation. The number of chains can grow much faster than the number of services.
const MAX_PARENT_CHECKS: usize = 64;
/// Credentials of one evaluation, those of all services together.
const MAX_CREDENTIALS: usize = 256;
/// Reasons in a verdict.
const MAX_REASONS: usize = 128;

/// Evaluates a DID.
///
/// Fails with the evidence that is missing. The caller adds it to `evidence`, or adds that it cannot be fetched, and calls
/// again.
pub fn evaluate_did(
    did: &str,
    evidence: &Evidence,
    rules: &EvaluationRules,
) -> Result<TrustVerdict, BTreeSet<EvidenceRequest>> {
    let view = EvidenceView::new(evidence);
    let evaluation = TrustEvaluation::new(&view, rules);
    let mut verdict = evaluation.evaluate_service(did, &mut Vec::new());
    if !verdict.is_trusted() {
        let unanswered = verdict.reasons.iter().filter_map(|reason| reason.unanswered.as_deref().cloned());
        verdict.unanswered = unanswered.collect();
    }
    if let Some(omitted) = verdict.reasons.len().checked_sub(MAX_REASONS).filter(|omitted| *omitted > 0) {
        verdict.reasons.truncate(MAX_REASONS);
        verdict.reasons.push(RejectionReason::new(RejectionCode::TooLarge, format!("{omitted} further reasons")));
    }
    let consulted = evaluation.consulted.into_inner();
    let inputs = view.finish()?;
    Ok(TrustVerdict { inputs: inputs.into_iter().collect(), consulted, ..verdict })
}

/// Why a credential is not accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum CredentialError {
    /// Evidence is missing. The caller adds it, as for [`evaluate_did`], and calls again.
    MissingEvidence(BTreeSet<EvidenceRequest>),
    /// The evidence is complete, and a check rejects the credential.
    Rejected(RejectionReason),
}

/// Checks one credential as a presentation of the DID would be checked: everything but the presentation itself.
pub fn evaluate_credential(
    did: &str,
    credential: &Value,
    evidence: &Evidence,
    rules: &EvaluationRules,
) -> Result<AcceptedCredential, CredentialError> {
    let view = EvidenceView::new(evidence);
    let id = credential["id"].as_str().unwrap_or_default();
    let checked = TrustEvaluation::new(&view, rules).check_credential(did, id, credential);
    view.finish().map_err(CredentialError::MissingEvidence)?;
    // Without missing evidence a failure is a rejection.
    let (accepted, _) = checked.map_err(|missing| {
        CredentialError::Rejected(missing.into_rejection().unwrap_or_else(|| RejectionCode::EvaluationAbandoned.into()))
    })?;
    Ok(accepted)
}

/// One running evaluation.
struct TrustEvaluation<'a> {
    view: &'a EvidenceView<'a>,
    rules: &'a EvaluationRules,
    consulted: RefCell<BTreeSet<String>>,
    /// Presentations of each DID. They do not depend on the chain of services.
    presentation_cache: RefCell<HashMap<String, TrustVerdict>>,
    parent_checks: Cell<usize>,
    credential_checks: Cell<usize>,
}

/// The service or operator that a DID is trusted for.
struct TrustGrounds {
    pattern: TrustPattern,
    expires_at: Option<i128>,
    parents: Vec<String>,
    operator: Option<Box<AcceptedCredential>>,
}

impl<'a> TrustEvaluation<'a> {
    fn new(view: &'a EvidenceView<'a>, rules: &'a EvaluationRules) -> Self {
        Self {
            view,
            rules,
            consulted: RefCell::default(),
            presentation_cache: RefCell::default(),
            parent_checks: Cell::default(),
            credential_checks: Cell::default(),
        }
    }
}

impl TrustEvaluation<'_> {
    /// Evaluates one service of the chain. The verdict has no meaning while evidence is missing.
    fn evaluate_service(&self, did: &str, path: &mut Vec<String>) -> TrustVerdict {
        let cached = self.presentation_cache.borrow().get(did).cloned();
        let mut verdict = cached.unwrap_or_else(|| {
            let collected = self.collect_presentations(did);
            self.presentation_cache.borrow_mut().insert(did.to_owned(), collected.clone());
            collected
        });
        if self.view.document(did).is_ok() {
            path.push(did.to_owned());
            self.decide_trust(did, &mut verdict, path);
            path.pop();
        }
        verdict
    }

    /// A verdict with the services, presentations and credentials of a DID, and without a decision.
    fn collect_presentations(&self, did: &str) -> TrustVerdict {
        let mut verdict = TrustVerdict {
            pattern: None,
            expires_at: None,
            reasons: Vec::new(),
            credentials: Vec::new(),
            presentations: Vec::new(),
            services: Vec::new(),
            parents: Vec::new(),
            operator: None,
            consulted: BTreeSet::new(),
            inputs: Vec::new(),
            unanswered: BTreeSet::new(),
        };
        let document = match self.view.document(did) {
            Ok(document) => document,
            Err(missing) => {
                verdict.reasons.extend(missing.into_rejection());
                return verdict;
            }
        };
        verdict.services = did_document::offered_services(document);
        let linked = did_document::linked_presentations(document);
        if linked.is_empty() {
            verdict.reasons.push(RejectionCode::NoPresentation.into());
        }
        let counted = did_document::first_presentations(&linked, MAX_PRESENTATIONS);
        if counted.len() < linked.len() {
            let count = format!("{} presentations; the first {MAX_PRESENTATIONS} count", linked.len());
            verdict.reasons.push(RejectionReason::new(RejectionCode::TooLarge, count));
        }
        for linked in counted {
            let check = self.check_presentation(did, document, linked);
            verdict.presentations.push(check.summary);
            verdict.credentials.extend(check.accepted);
            verdict.reasons.extend(check.reasons);
        }
        verdict
    }

    /// Decides from the accepted credentials whether the DID is trusted.
    fn decide_trust(&self, did: &str, verdict: &mut TrustVerdict, path: &mut Vec<String>) {
        let accepted = verdict.credentials.clone();
        let of_kind = |is_wanted: fn(EssentialCredential) -> bool| {
            accepted
                .iter()
                .filter(move |one| one.essential.as_ref().is_some_and(|(essential, _)| is_wanted(*essential)))
        };
        let mut services = of_kind(|essential| essential == EssentialCredential::Service).peekable();
        if services.peek().is_none() {
            verdict.reasons.push(RejectionCode::NoServiceCredential.into());
        }
        for service in services {
            let found = if service.issuer == did {
                let operator = of_kind(EssentialCredential::names_operator).max_by_key(|operator| operator.issued_at);
                operator
                    .map(|operator| TrustGrounds {
                        pattern: TrustPattern::SelfVouched,
                        expires_at: operator.expires_at(),
                        parents: Vec::new(),
                        operator: Some(Box::new(operator.clone())),
                    })
                    .ok_or_else(|| vec![RejectionCode::NoOperatorCredential.into()])
            } else {
                self.check_parent(&service.issuer, path)
            };
            match found {
                Ok(grounds) => {
                    verdict.pattern = Some(grounds.pattern);
                    verdict.expires_at = service.expires_at().into_iter().chain(grounds.expires_at).min();
                    verdict.parents = grounds.parents;
                    verdict.operator = grounds.operator;
                    return;
                }
                Err(reasons) => verdict.reasons.extend(reasons),
            }
        }
    }

    /// Evaluates the service that issued a service credential.
    fn check_parent(&self, parent: &str, path: &mut Vec<String>) -> Result<TrustGrounds, Vec<RejectionReason>> {
        let about = |code: RejectionCode| RejectionReason {
            did: Some(parent.to_owned()),
            ..RejectionReason::new(code, parent)
        };
        if path.iter().any(|known| known == parent) {
            return Err(vec![about(RejectionCode::TrustCycle)]);
        }
        if path.len() > MAX_PARENT_DEPTH {
            return Err(vec![about(RejectionCode::TrustChainTooLong)]);
        }
        if increment(&self.parent_checks) > MAX_PARENT_CHECKS {
            let count = format!("more than {MAX_PARENT_CHECKS} parents to evaluate");
            return Err(vec![RejectionReason {
                did: Some(parent.to_owned()),
                ..RejectionReason::new(RejectionCode::TooLarge, count)
            }]);
        }
        self.consulted.borrow_mut().insert(parent.to_owned());
        let verdict = self.evaluate_service(parent, path);
        if verdict.is_trusted() {
            let parents = std::iter::once(parent.to_owned()).chain(verdict.parents).collect();
            return Ok(TrustGrounds {
                pattern: TrustPattern::Parent,
                expires_at: verdict.expires_at,
                parents,
                operator: verdict.operator,
            });
        }
        let inherited = verdict
            .reasons
            .into_iter()
            .map(|reason| RejectionReason { did: reason.did.or_else(|| Some(parent.to_owned())), ..reason });
        Err(std::iter::once(about(RejectionCode::ParentNotTrusted)).chain(inherited).collect())
    }
}

/// Adds one to a counter and returns the sum.
fn increment(counter: &Cell<usize>) -> usize {
    counter.set(counter.get() + 1);
    counter.get()
}
