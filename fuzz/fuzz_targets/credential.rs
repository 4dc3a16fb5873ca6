//! Feeds random documents to an evaluation of trust: as the presentation of a DID, as a credential, as its schema credential, and as a
//! status list. The evaluation must not panic, and trusts nothing: no input has a signature.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use svc_trust::{
    CredentialError, EssentialSchemas, EvaluationRules, Evidence, EvidenceFailure, EvidenceRequest, RejectionCode,
    evaluate_credential, evaluate_did,
};

const DID: &str = "did:web:a.example";

static RULES: LazyLock<EvaluationRules> = LazyLock::new(|| EvaluationRules {
    schema_prefix: "vpr:svc:net:cs:".into(),
    essential_schemas: EssentialSchemas::default(),
    now: 1_800_000_000_000_000_000,
});

fn document() -> Value {
    json!({
        "id": DID, "verificationMethod": [{"id": "#k", "type": "Multikey", "controller": DID,
            "publicKeyMultibase": "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2"}],
        "assertionMethod": ["#k"], "authentication": ["#k"],
        "service": [{"id": "#vpr-schemas-x-vtc-vp", "type": "LinkedVerifiablePresentation", "serviceEndpoint": "https://a.example/vp"}],
    })
}

/// Answers every request: each resource is the random text.
fn answer(evidence: &mut Evidence, request: &EvidenceRequest, text: &str) {
    let missing = || EvidenceFailure::new(RejectionCode::ResourceUnavailable, "no answer");
    match request {
        EvidenceRequest::Document(did) => {
            let found = if did == DID { Ok(Arc::new(document())) } else { Err(missing()) };
            evidence.documents.insert(did.clone(), found);
        }
        EvidenceRequest::Resource(url) => {
            evidence.resources.insert(url.clone(), Ok(text.into()));
        }
        EvidenceRequest::Participants(did) => {
            evidence.participants.insert(did.clone(), [].into());
        }
        EvidenceRequest::Schema(id) => {
            evidence.schemas.insert(*id, None);
        }
        EvidenceRequest::Digest(digest) => {
            evidence.digest_anchors.insert(digest.clone(), Some(1));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut evidence = Evidence::default();
    for _ in 0..8 {
        match evaluate_did(DID, &evidence, &RULES) {
            Ok(verdict) => {
                assert!(!verdict.is_trusted());
                break;
            }
            Err(requests) => requests.iter().for_each(|request| answer(&mut evidence, request, text)),
        }
    }
    let Ok(credential) = serde_json::from_str::<Value>(text) else { return };
    for _ in 0..8 {
        match evaluate_credential(DID, &credential, &evidence, &RULES) {
            Ok(accepted) => panic!("a credential without a proof is accepted: {accepted:?}"),
            Err(CredentialError::Rejected(_)) => break,
            Err(CredentialError::MissingEvidence(requests)) => {
                requests.iter().for_each(|request| answer(&mut evidence, request, text));
            }
        }
    }
});
