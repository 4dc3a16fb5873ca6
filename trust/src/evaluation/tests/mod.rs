//! Tests of the evaluation: the verdicts and the bounds.

mod first_generation;
mod fixture;
mod rejections;
mod unanswered;

use proptest::prelude::*;
use serde_json::{Value, json};
use svc_wire::participant_state::ParticipantState;

use super::*;
use crate::{
    did_document::ProofPurpose,
    proof::{self, ProofSuite},
};
use fixture::{
    DESK, HARBOR, ORGANIZATION, REGISTRAR, SERVICE, TrustFixture, at, credential, document, presentation, prover,
    schema_url, sign, text, url,
};

/// The fixture of a trusted service with a change.
fn with(change: impl FnOnce(&mut TrustFixture)) -> TrustFixture {
    let mut fixture = TrustFixture::harbor();
    change(&mut fixture);
    fixture
}

#[test]
fn one_good_proof_among_others_is_enough() {
    let fixture = with(|fixture| {
        let mut changed = fixture.credential_of(HARBOR, SERVICE);
        let mut unknown = changed["proof"].clone();
        unknown["cryptosuite"] = "bbs-2023".into();
        changed["proof"] = json!([unknown, changed["proof"]]);
        fixture.present_credential(HARBOR, SERVICE, changed);
    });
    assert!(fixture.evaluate(HARBOR).is_trusted());
}

#[test]
fn the_earlier_of_both_anchors_of_a_credential_is_its_issuance() {
    let mut fixture = TrustFixture::harbor();
    let credential = fixture.credential_of(HARBOR, SERVICE);
    let anchor = crate::digest::anchored_digest(&credential, crate::digest::DigestAlgorithm::Sha384).expect("a digest");
    let bare = anchor.trim_start_matches("sha384-").to_owned();
    let issued_at = |fixture: &TrustFixture| {
        let verdict = fixture.evaluate(HARBOR);
        let held = verdict.credentials.iter().find(|held| held.digest_jcs == bare).expect("accepted");
        (verdict.is_trusted(), held.issued_at)
    };
    let (_, before) = issued_at(&fixture);
    fixture.digests.insert(bare.clone(), before - 5);
    assert_eq!(issued_at(&fixture), (true, before - 5));
    fixture.digests.insert(bare.clone(), before + 5);
    assert_eq!(issued_at(&fixture), (true, before));
    fixture.digests.remove(&anchor);
    assert_eq!(issued_at(&fixture), (true, before + 5), "agents of the first generation write the bare form alone");
}

#[test]
fn the_evaluation_of_many_connected_services_is_bounded() {
    let dids: Vec<String> = (0..20).map(|index| format!("did:web:s{index}")).collect();
    let mut fixture = TrustFixture::new();
    for did in &dids {
        fixture.documents.insert(did.clone(), document(did, &["service"]));
        fixture.add_participant(did, "ISSUER", SERVICE, 0, None);
        fixture.add_participant(did, "HOLDER", SERVICE, 0, None);
        let issued_by =
            |issuer: &String| sign(credential(issuer, did, SERVICE), &prover(issuer), ProofPurpose::AssertionMethod);
        let credentials: Vec<Value> = dids.iter().filter(|issuer| *issuer != did).map(issued_by).collect();
        credentials.iter().for_each(|credential| fixture.anchor(credential, 100));
        let shown = sign(presentation(did, &credentials), &prover(did), ProofPurpose::Authentication);
        fixture.put_presentation(did, SERVICE, &shown);
    }
    let verdict = fixture.evaluate(&dids[0]);
    assert!(!verdict.is_trusted() && verdict.consulted.len() < dids.len());
    assert_eq!(verdict.reasons.len(), MAX_REASONS + 1);
    assert_eq!(verdict.reasons.last().map(|reason| reason.code), Some(RejectionCode::TooLarge));
    assert_eq!(verdict.presentations[0].credentials.len(), dids.len() - 1, "the first credentials count");
}

#[test]
fn a_service_that_vouches_for_itself_is_trusted_until_its_earliest_end() {
    let verdict = TrustFixture::harbor().evaluate(HARBOR);
    assert_eq!((verdict.pattern, verdict.reasons.as_slice()), (Some(TrustPattern::SelfVouched), &[][..]));
    assert_eq!(
        verdict.expires_at,
        Some(at(4_000)),
        "the end of the HOLDER participant for the organisation credential"
    );
    assert_eq!(
        verdict.services,
        [json!({"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://service.example/mcp"})]
    );
    let kinds: Vec<_> = verdict.credentials.iter().map(|held| held.essential.clone().expect("essential").0).collect();
    assert_eq!(kinds, [EssentialCredential::Service, EssentialCredential::Organization]);
    assert_eq!(verdict.credentials[0].issued_at, at(100), "the time of anchoring, not a date of the issuer");
    for (boundary, change) in [
        (
            3_000,
            Box::new(|fixture: &mut TrustFixture| {
                fixture.participant(HARBOR, "HOLDER", SERVICE).effective_until = Some(at(3_000))
            }) as Box<dyn Fn(&mut TrustFixture)>,
        ),
        (
            9_000,
            Box::new(|fixture| {
                fixture.participant(HARBOR, "HOLDER", SERVICE).effective_until = None;
                fixture.participant(HARBOR, "HOLDER", ORGANIZATION).effective_until = None;
            }),
        ),
    ] {
        assert_eq!(with(change).evaluate(HARBOR).expires_at, Some(at(boundary)));
    }
    let endless = with(|fixture| {
        fixture.participant(HARBOR, "HOLDER", SERVICE).effective_until = None;
        fixture.participant(HARBOR, "HOLDER", ORGANIZATION).effective_until = None;
        for (issuer, schema) in [(HARBOR, SERVICE), (REGISTRAR, ORGANIZATION)] {
            let mut body = credential(issuer, HARBOR, schema);
            body.as_object_mut().expect("an object").remove("validUntil");
            fixture.present_credential(HARBOR, schema, sign(body, &prover(issuer), ProofPurpose::AssertionMethod));
        }
    });
    assert_eq!(endless.evaluate(HARBOR).expires_at, None, "no end anywhere gives no end");
}

#[test]
fn a_verdict_ends_no_later_than_that_of_the_parent() {
    let fixture = TrustFixture::desk();
    let verdict = fixture.evaluate(DESK);
    assert_eq!((verdict.pattern, verdict.reasons.as_slice()), (Some(TrustPattern::Parent), &[][..]));
    assert_eq!(verdict.parents, [HARBOR]);
    assert_eq!(verdict.expires_at, Some(at(4_000)), "the end of the harbor");
    let mut sooner = TrustFixture::desk();
    sooner.participant(DESK, "HOLDER", SERVICE).effective_until = Some(at(2_000));
    assert_eq!(sooner.evaluate(DESK).expires_at, Some(at(2_000)));
    let depends_on = |need| verdict.inputs.contains(&need);
    assert!(
        depends_on(EvidenceRequest::Document(HARBOR.into()))
            && depends_on(EvidenceRequest::Participants(REGISTRAR.into()))
    );
}

#[test]
fn a_credential_of_vc_1_1_with_an_older_proof_is_accepted() {
    let fixture = with(|fixture| {
        let mut body = credential(HARBOR, HARBOR, SERVICE);
        body["@context"] = json!([
            "https://www.w3.org/2018/credentials/v1", "https://w3id.org/security/suites/ed25519-2020/v1",
            {"@vocab": "https://vocabulary.example/"},
        ]);
        let members = body.as_object_mut().expect("an object");
        members.remove("validFrom");
        members.remove("validUntil");
        body["issuanceDate"] = text(0).into();
        body["expirationDate"] = text(2_500).into();
        proof::add_proof(
            &mut body,
            &prover(HARBOR),
            ProofSuite::Ed25519Signature2020,
            ProofPurpose::AssertionMethod,
            &text(10),
        )
        .expect("proved");
        fixture.present_credential(HARBOR, SERVICE, body);
    });
    let verdict = fixture.evaluate(HARBOR);
    assert_eq!(
        (verdict.pattern, verdict.expires_at),
        (Some(TrustPattern::SelfVouched), Some(at(2_500))),
        "{:?}",
        verdict.reasons
    );
}

#[test]
fn a_service_with_an_untrusted_parent_is_not_trusted() {
    let mut fixture = TrustFixture::desk();
    fixture.participant(REGISTRAR, "ISSUER", ORGANIZATION).state = ParticipantState::Revoked;
    let verdict = fixture.evaluate(DESK);
    assert_eq!(verdict.pattern, None);
    let found: Vec<_> = verdict.reasons.iter().map(|reason| (reason.code, reason.did.as_deref())).collect();
    assert!(found.contains(&(RejectionCode::ParentNotTrusted, Some(HARBOR))), "{found:?}");
    assert!(
        found.contains(&(RejectionCode::IssuerRevoked, Some(HARBOR))),
        "the verdict has the reason of the parent: {found:?}"
    );
    assert_eq!(verdict.consulted, [HARBOR.to_owned()].into(), "the next verdict of the parent matters too");
}

#[test]
fn services_that_vouch_for_each_other_are_not_trusted() {
    let mut fixture = TrustFixture::desk();
    fixture.add_participant(DESK, "ISSUER", SERVICE, 0, None);
    fixture.issue_credential(DESK, HARBOR, SERVICE);
    for did in [DESK, HARBOR] {
        let verdict = fixture.evaluate(did);
        assert_eq!(verdict.pattern, None);
        assert!(verdict.reasons.iter().any(|reason| reason.code == RejectionCode::TrustCycle), "{:?}", verdict.reasons);
    }
}

#[test]
fn a_chain_of_services_has_a_greatest_length() {
    let mut fixture = TrustFixture::harbor();
    let mut above = HARBOR.to_owned();
    let names: Vec<String> = (0..6).map(|index| format!("did:web:row{index}")).collect();
    for name in &names {
        fixture.documents.insert(name.clone(), document(name, &["service"]));
        fixture.add_participant(name, "ISSUER", SERVICE, 0, None);
        fixture.add_participant(name, "HOLDER", SERVICE, 0, None);
        fixture.issue_credential(&above, name, SERVICE);
        above.clone_from(name);
    }
    assert!(fixture.evaluate(&names[3]).is_trusted(), "four parents");
    let verdict = fixture.evaluate(&names[5]);
    assert!(
        verdict.reasons.iter().any(|reason| reason.code == RejectionCode::TrustChainTooLong),
        "{:?}",
        verdict.reasons
    );
}

#[test]
fn each_presentation_lists_its_accepted_unresolvable_and_invalid_credentials() {
    let mut fixture = TrustFixture::harbor();
    let good = fixture.credential_of(HARBOR, SERVICE);
    let mut wrong = good.clone();
    wrong["id"] = "urn:wrong".into();
    let mut lost = credential("did:web:gone", HARBOR, SERVICE);
    lost["id"] = "urn:lost".into();
    let lost = sign(lost, &prover("did:web:gone"), ProofPurpose::AssertionMethod);
    let shown = presentation(HARBOR, &[wrong, lost, good.clone()]);
    fixture.put_presentation(HARBOR, SERVICE, &sign(shown, &prover(HARBOR), ProofPurpose::Authentication));
    let verdict = fixture.evaluate(HARBOR);
    assert!(verdict.is_trusted(), "a rejected credential does not change the verdict");
    let presentation = &verdict.presentations[0];
    assert_eq!(presentation.credentials, [good["id"].as_str().expect("an id")]);
    assert_eq!(
        (presentation.unresolvable.as_slice(), presentation.invalid.as_slice()),
        (&["urn:lost".to_owned()][..], &["urn:wrong".to_owned()][..])
    );
    assert_eq!(presentation.service, format!("{HARBOR}#vpr-schemas-service-vtc-vp"));
    let reason =
        verdict.reasons.iter().find(|reason| reason.credential.as_deref() == Some("urn:wrong")).expect("a reason");
    assert_eq!((reason.code, reason.presentation.clone()), (RejectionCode::ProofInvalid, Some(url(HARBOR, "service"))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// A changed byte in an answer of a web server makes the verdict untrusted, unless the JSON value stays the same.
    #[test]
    fn a_tampered_byte_makes_the_verdict_untrusted(index in 0usize..4, position in any::<prop::sample::Index>(), byte in 0x20u8..0x7f) {
        let mut fixture = TrustFixture::harbor();
        let urls = [url(HARBOR, "service"), url(HARBOR, "org"), schema_url(SERVICE), schema_url(ORGANIZATION)];
        let original = fixture.resources[&urls[index]].clone();
        let mut bytes = original.clone().into_bytes();
        let at = position.index(bytes.len());
        bytes[at] = byte;
        let tampered = String::from_utf8(bytes).expect("ASCII");
        let is_same_value = serde_json::from_str::<Value>(&tampered).ok() == serde_json::from_str(&original).ok();
        fixture.resources.insert(urls[index].clone(), tampered);
        prop_assert_eq!(fixture.evaluate(HARBOR).is_trusted(), is_same_value);
    }
}
