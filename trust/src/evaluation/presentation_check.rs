//! Check of one presentation, and of the proofs of any document.

use serde_json::Value;

use super::{MAX_CREDENTIALS, TrustEvaluation, increment};
use crate::{
    RejectionCode, RejectionReason,
    did_document::{self, LinkedPresentation, ProofPurpose},
    documents::{credential::VerifiablePresentation, parse_document},
    evidence::MissingEvidence,
    proof::{self, DocumentProof},
    verdict::{AcceptedCredential, PresentationSummary},
};

/// Result of the check of a presentation.
pub(super) struct PresentationCheck {
    pub summary: PresentationSummary,
    pub accepted: Vec<AcceptedCredential>,
    pub reasons: Vec<RejectionReason>,
}

impl TrustEvaluation<'_> {
    pub(super) fn check_presentation(
        &self,
        did: &str,
        document: &Value,
        linked: &LinkedPresentation,
    ) -> PresentationCheck {
        let summary = PresentationSummary {
            id: linked.url.clone(),
            service: linked.service_id.clone(),
            credentials: Vec::new(),
            unresolvable: Vec::new(),
            invalid: Vec::new(),
        };
        let mut check = PresentationCheck { summary, accepted: Vec::new(), reasons: Vec::new() };
        if let Err(missing) = self.check_presented_credentials(did, document, linked, &mut check) {
            check.reasons.extend(missing.into_rejection().map(|reason| with_location(reason, linked, None)));
        }
        check
    }

    fn check_presented_credentials(
        &self,
        did: &str,
        document: &Value,
        linked: &LinkedPresentation,
        check: &mut PresentationCheck,
    ) -> Result<(), MissingEvidence> {
        let text = self.view.resource(&linked.url)?;
        let body =
            parse_document(text).map_err(|error| RejectionReason::new(RejectionCode::PresentationInvalid, error))?;
        let presentation = VerifiablePresentation::parse(&body)?;
        if let Some(id) = presentation.id {
            id.clone_into(&mut check.summary.id);
        }
        if let Some(holder) = presentation.holder.filter(|holder| *holder != did) {
            return Err(RejectionReason::new(RejectionCode::HolderMismatch, format!("{holder:?}")).into());
        }
        self.check_proof(&body, did, document, &[ProofPurpose::Authentication, ProofPurpose::AssertionMethod])?;
        for (index, credential) in presentation.credentials.iter().enumerate() {
            let id = credential["id"].as_str().map_or_else(|| format!("{}#{index}", linked.url), str::to_owned);
            let outcome = match increment(&self.credential_checks) {
                1..=MAX_CREDENTIALS => self.check_credential(did, &id, credential),
                _ => Err(RejectionReason::new(
                    RejectionCode::TooLarge,
                    format!("more than {MAX_CREDENTIALS} credentials to evaluate"),
                )
                .into()),
            };
            match outcome {
                Ok((accepted, not_essential)) => {
                    let reason = not_essential.map(|reason| with_location(reason, linked, Some(id.clone())));
                    check.reasons.extend(reason);
                    check.summary.credentials.push(id);
                    check.accepted.push(accepted);
                }
                Err(missing) => {
                    let Some(reason) = missing.into_rejection() else { continue };
                    let list = if reason.is_unresolvable() {
                        &mut check.summary.unresolvable
                    } else {
                        &mut check.summary.invalid
                    };
                    list.push(id.clone());
                    check.reasons.push(with_location(reason, linked, Some(id)));
                }
            }
        }
        Ok(())
    }

    /// Checks that the author of a document made one of its proofs, with a key that the author's DID Document allows for one of
    /// the purposes. Fails with the reason of the first proof when none of them verifies.
    pub(super) fn check_proof(
        &self,
        body: &Value,
        author: &str,
        document: &Value,
        allowed: &[ProofPurpose],
    ) -> Result<(), RejectionReason> {
        let check = |proof: &Result<DocumentProof, RejectionReason>| {
            let proof = proof.as_ref().map_err(Clone::clone)?;
            if proof.signer_did() != author {
                return Err(RejectionReason::new(
                    RejectionCode::WrongSigner,
                    format!("{} signed for {author}", proof.signer_did()),
                ));
            }
            if !allowed.contains(&proof.purpose) {
                let purpose = format!("the purpose of the proof is {:?}", proof.purpose.as_str());
                return Err(RejectionReason::new(RejectionCode::KeyNotForPurpose, purpose));
            }
            let method = did_document::absolute_did_url(author, &proof.verification_method);
            let key = did_document::verification_key(document, &method, proof.purpose, self.rules.now)
                .map_err(|code| RejectionReason::new(code, &method))?;
            let (text, document) = (proof.cache_text(), body.to_string());
            self.view.verify_once(&[b"proof", key.as_bytes(), text.as_bytes(), document.as_bytes()], || {
                proof.verify(body, &key, self.rules.now)
            })
        };
        let mut first = None;
        for proof in &proof::parse_proofs(body)? {
            match check(proof) {
                Ok(()) => return Ok(()),
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Err(first.unwrap_or_else(|| RejectionCode::ProofMissing.into()))
    }
}

fn with_location(reason: RejectionReason, linked: &LinkedPresentation, credential: Option<String>) -> RejectionReason {
    RejectionReason { presentation: Some(linked.url.clone()), credential, ..reason }
}
