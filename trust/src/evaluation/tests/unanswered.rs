//! Tests of failures that may pass: which of them the outcome depends on.

use std::collections::BTreeSet;

use serde_json::json;
use svc_wire::participant_state::ParticipantState;

use super::{
    fixture::{
        BADGE, DESK, ECOSYSTEM, HARBOR, ORGANIZATION, REGISTRAR, SERVICE, TrustFixture, USER_AGENT, credential,
        document, presentation_name, prover, sign, url,
    },
    with,
};
use crate::{
    EvidenceFailure, EvidenceRequest, RejectionCode, TransientCause, TrustVerdict, did_document::ProofPurpose,
};

fn document_of(did: &str) -> EvidenceRequest {
    EvidenceRequest::Document(did.into())
}

/// A fixture in which a server does not answer a request.
fn silent_about(request: &EvidenceRequest, mut fixture: TrustFixture) -> TrustFixture {
    let transient = Some(TransientCause { status: Some(503), ..TransientCause::default() });
    let failure = EvidenceFailure { transient, ..EvidenceFailure::new(RejectionCode::ResourceUnavailable, "503") };
    fixture.failures.insert(request.clone(), failure);
    fixture
}

fn unanswered(verdict: &TrustVerdict) -> Vec<&EvidenceRequest> {
    assert!(!verdict.is_trusted(), "{verdict:?}");
    verdict.unanswered.iter().collect()
}

#[test]
fn the_outcome_depends_on_a_server_that_does_not_answer() {
    let shown = EvidenceRequest::Resource(url(HARBOR, presentation_name(SERVICE)));
    for request in [document_of(HARBOR), document_of(REGISTRAR), document_of(ECOSYSTEM), shown] {
        let verdict = silent_about(&request, TrustFixture::harbor()).evaluate(HARBOR);
        assert_eq!(unanswered(&verdict), [&request]);
    }
    let verdict = silent_about(&document_of(HARBOR), TrustFixture::desk()).evaluate(DESK);
    assert_eq!(unanswered(&verdict), [&document_of(HARBOR)], "of a service that vouches for it");
}

#[test]
fn a_definitive_rejection_decides_before_a_server_that_does_not_answer() {
    let revoked = with(|fixture| {
        fixture.participant(HARBOR, "HOLDER", ORGANIZATION).state = ParticipantState::Revoked;
    });
    let verdict = silent_about(&document_of(REGISTRAR), revoked).evaluate(HARBOR);
    assert_eq!(unanswered(&verdict), Vec::<&EvidenceRequest>::new());
    let codes: BTreeSet<RejectionCode> = verdict.reasons.iter().map(|reason| reason.code).collect();
    assert!(codes.contains(&RejectionCode::HolderRevoked), "{codes:?}");
    let mut absent = TrustFixture::harbor();
    absent.documents.remove(HARBOR);
    assert_eq!(unanswered(&absent.evaluate(HARBOR)), Vec::<&EvidenceRequest>::new(), "404 is an answer");
}

#[test]
fn a_did_that_is_trusted_without_a_part_does_not_wait() {
    let mut fixture = TrustFixture::harbor();
    let more = document(HARBOR, &["service", "org", "more"]);
    fixture.documents.insert(HARBOR.into(), more);
    let request = EvidenceRequest::Resource(url(HARBOR, "more"));
    let verdict = silent_about(&request, fixture).evaluate(HARBOR);
    assert!(verdict.is_trusted() && verdict.unanswered.is_empty(), "{verdict:?}");
    assert_eq!(verdict.reasons.len(), 1, "the part is named: {:?}", verdict.reasons);
}

#[test]
fn a_credential_that_makes_nothing_trusted_does_not_keep_an_evaluation_open() {
    let list = "https://registrar.example/status/1";
    let requests = [document_of(REGISTRAR), EvidenceRequest::Resource(list.into())];
    for (schema, is_waited_for) in [(BADGE, false), (USER_AGENT, false), (ORGANIZATION, true)] {
        for request in &requests {
            let mut fixture = TrustFixture::harbor();
            let shown = presentation_name(schema);
            fixture.documents.insert(HARBOR.into(), document(HARBOR, &["service", shown]));
            fixture.add_participant(REGISTRAR, "ISSUER", schema, 0, None);
            fixture.add_participant(HARBOR, "HOLDER", schema, 0, None);
            let mut body = credential(REGISTRAR, HARBOR, schema);
            if *request != document_of(REGISTRAR) {
                body["credentialStatus"] = json!({"type": "BitstringStatusListEntry", "statusPurpose": "revocation",
                    "statusListIndex": "7", "statusListCredential": list});
            }
            let signed = sign(body, &prover(REGISTRAR), ProofPurpose::AssertionMethod);
            fixture.present_credential(HARBOR, schema, signed);
            let verdict = silent_about(request, fixture).evaluate(HARBOR);
            let expected = if is_waited_for { vec![request] } else { Vec::new() };
            assert_eq!(unanswered(&verdict), expected, "{shown} {request:?}: {:?}", verdict.reasons);
        }
    }
}
