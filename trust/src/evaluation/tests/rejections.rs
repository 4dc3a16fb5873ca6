//! Tests of the evaluation: one fixture for each code of a rejection. The codes are one table, which is compared with all codes: the file is
//! longer than others.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_wire::participant_state::ParticipantState;

use super::{
    fixture::{
        ECOSYSTEM, HARBOR, ORGANIZATION, REGISTRAR, SERVICE, TrustFixture, at, credential, document, presentation,
        prover, schema_credential, schema_url, sign, text, url,
    },
    with,
};
use crate::{
    EssentialSchemas, EvidenceFailure, EvidenceRequest, RejectionCode, did_document::ProofPurpose,
    documents::status_list::tests::encoded_list, proof,
};

/// The fixture with a changed service credential of the harbor, signed after the change.
fn with_credential(change: impl Fn(&mut Value)) -> TrustFixture {
    let mut fixture = TrustFixture::harbor();
    let mut changed = credential(HARBOR, HARBOR, SERVICE);
    change(&mut changed);
    fixture.present_credential(HARBOR, SERVICE, sign(changed, &prover(HARBOR), ProofPurpose::AssertionMethod));
    fixture
}

const STATUS_LIST: &str = "https://harbor.example/status/1";

fn status_entry(purpose: &str) -> Value {
    json!({"type": "BitstringStatusListEntry", "statusPurpose": purpose, "statusListIndex": "7",
        "statusListCredential": STATUS_LIST})
}

/// The fixture with a status of the service credential, and a list that its issuer signed after the change.
fn with_status(purpose: &str, set: &[usize], change: impl Fn(&mut Value)) -> TrustFixture {
    let mut fixture = with_credential(|body| body["credentialStatus"] = status_entry(purpose));
    let mut list = json!({
        "@context": ["https://www.w3.org/ns/credentials/v2"], "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "id": STATUS_LIST, "issuer": HARBOR, "credentialSubject": {"id": format!("{STATUS_LIST}#list"),
            "type": "BitstringStatusList", "statusPurpose": purpose, "encodedList": encoded_list(131_072, set)},
    });
    change(&mut list);
    let signed = sign(list, &prover(HARBOR), ProofPurpose::AssertionMethod);
    fixture.resources.insert(STATUS_LIST.to_owned(), signed.to_string());
    fixture
}

#[test]
fn a_credential_of_a_copied_schema_is_accepted_and_is_not_essential() {
    for ecosystems in [&["did:web:other"][..], &[]] {
        let mut fixture = TrustFixture::harbor();
        fixture.rules.essential_schemas = EssentialSchemas::default().in_ecosystems(ecosystems.iter().copied());
        let verdict = fixture.evaluate(HARBOR);
        assert!(!verdict.is_trusted());
        assert!(verdict.credentials.len() == 2 && verdict.credentials.iter().all(|one| one.essential.is_none()));
        assert!(verdict.presentations.iter().all(|one| one.invalid.is_empty() && !one.credentials.is_empty()));
        let told = verdict.reasons.iter().filter(|reason| reason.code == RejectionCode::EcosystemNotAllowed);
        let told: Vec<&str> = told.map(|reason| reason.message.as_str()).collect();
        assert_eq!(told.len(), 2);
        assert!(told.iter().all(|text| text.contains(ECOSYSTEM)), "{told:?}");
        assert_eq!(told.iter().all(|text| text.ends_with("no ecosystem is relied on")), ecosystems.is_empty());
    }
}

#[test]
fn a_credential_whose_bit_is_not_set_counts() {
    assert!(with_status("revocation", &[6, 8], |_| {}).evaluate(HARBOR).is_trusted());
}

/// The fixture with a changed credential of the service schema, signed by its ecosystem after the change.
fn with_schema_credential(change: impl Fn(&mut Value)) -> TrustFixture {
    let mut fixture = TrustFixture::harbor();
    let mut changed = schema_credential(ECOSYSTEM, SERVICE);
    change(&mut changed);
    let signed = sign(changed, &prover(ECOSYSTEM), ProofPurpose::AssertionMethod);
    fixture.resources.insert(schema_url(SERVICE), signed.to_string());
    fixture
}

/// The fixture with one participant in another state.
fn in_state(did: &'static str, role: &'static str, schema: u64, state: ParticipantState) -> TrustFixture {
    with(|fixture| fixture.participant(did, role, schema).state = state)
}

fn unresolved(code: RejectionCode) -> TrustFixture {
    with(|fixture| {
        let failure = EvidenceFailure::new(code, "as the resolver says");
        fixture.failures.insert(EvidenceRequest::Document(HARBOR.into()), failure);
    })
}

#[test]
fn every_cause_has_its_code() {
    let stranger = || prover("did:web:stranger");
    let cases: Vec<(RejectionCode, TrustFixture)> = vec![
        // The document.
        (RejectionCode::DidUnresolvable, unresolved(RejectionCode::DidUnresolvable)),
        (RejectionCode::DidMethodUnsupported, unresolved(RejectionCode::DidMethodUnsupported)),
        (RejectionCode::DidDocumentInvalid, unresolved(RejectionCode::DidDocumentInvalid)),
        (RejectionCode::DidLogInvalid, unresolved(RejectionCode::DidLogInvalid)),
        (RejectionCode::DidScidMismatch, unresolved(RejectionCode::DidScidMismatch)),
        (RejectionCode::DidDeactivated, unresolved(RejectionCode::DidDeactivated)),
        (RejectionCode::HostRefused, unresolved(RejectionCode::HostRefused)),
        (
            RejectionCode::NoPresentation,
            with(|fixture| {
                fixture.documents.insert(HARBOR.into(), document(HARBOR, &[]));
            }),
        ),
        (
            RejectionCode::ResourceUnavailable,
            with(|fixture| {
                fixture.resources.remove(&url(HARBOR, "service"));
            }),
        ),
        (
            RejectionCode::TooLarge,
            with(|fixture| {
                let many = vec![fixture.credential_of(HARBOR, SERVICE); 65];
                let shown = sign(presentation(HARBOR, &many), &prover(HARBOR), ProofPurpose::Authentication);
                fixture.put_presentation(HARBOR, SERVICE, &shown);
            }),
        ),
        // The presentation.
        (
            RejectionCode::PresentationInvalid,
            with(|fixture| fixture.put_presentation(HARBOR, SERVICE, &json!({"type": "VerifiablePresentation"}))),
        ),
        (
            RejectionCode::PresentationInvalid,
            with(|fixture| {
                fixture.resources.insert(url(HARBOR, "service"), "[".repeat(5_000));
            }),
        ),
        (
            RejectionCode::HolderMismatch,
            with(|fixture| {
                let shown = presentation("did:web:other", &[fixture.credential_of(HARBOR, SERVICE)]);
                fixture.put_presentation(HARBOR, SERVICE, &sign(shown, &prover(HARBOR), ProofPurpose::Authentication));
            }),
        ),
        (
            RejectionCode::WrongSigner,
            with(|fixture| {
                let shown = presentation(HARBOR, &[fixture.credential_of(HARBOR, SERVICE)]);
                fixture.put_presentation(HARBOR, SERVICE, &sign(shown, &stranger(), ProofPurpose::Authentication));
            }),
        ),
        (
            RejectionCode::KeyNotForPurpose,
            with(|fixture| {
                fixture.documents.get_mut(HARBOR).expect("a document")["authentication"] = json!([]);
            }),
        ),
        // Proofs of credentials.
        (
            RejectionCode::WrongSigner,
            with(|fixture| {
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &stranger(), ProofPurpose::AssertionMethod);
                fixture.present_credential(HARBOR, SERVICE, signed);
            }),
        ),
        (
            RejectionCode::WrongSigner,
            with(|fixture| {
                // A key of the registrar, for a credential with the harbor as the issuer.
                let signed =
                    sign(credential(HARBOR, HARBOR, SERVICE), &prover(REGISTRAR), ProofPurpose::AssertionMethod);
                fixture.present_credential(HARBOR, SERVICE, signed);
            }),
        ),
        (
            RejectionCode::KeyNotForPurpose,
            with(|fixture| {
                fixture.documents.get_mut(HARBOR).expect("a document")["assertionMethod"] = json!([]);
            }),
        ),
        (
            RejectionCode::KeyNotForPurpose,
            with(|fixture| {
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &prover(HARBOR), ProofPurpose::Authentication);
                fixture.present_credential(HARBOR, SERVICE, signed);
            }),
        ),
        (
            RejectionCode::KeyUnknown,
            with(|fixture| {
                let other = proof::ProofKey { verification_method: format!("{HARBOR}#other"), ..prover(HARBOR) };
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &other, ProofPurpose::AssertionMethod);
                fixture.present_credential(HARBOR, SERVICE, signed);
            }),
        ),
        (
            RejectionCode::KeyRevoked,
            with(|fixture| {
                let document = fixture.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["revoked"] = text(1).into();
            }),
        ),
        (
            RejectionCode::KeyRevoked,
            with(|fixture| {
                let document = fixture.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["expires"] = text(1_000).into();
            }),
        ),
        (
            RejectionCode::IssuerNotEffective,
            with(|fixture| fixture.unset_beginning(REGISTRAR, "ISSUER", ORGANIZATION, None)),
        ),
        (
            RejectionCode::IssuerNotEffective,
            with(|fixture| fixture.unset_beginning(REGISTRAR, "ISSUER", ORGANIZATION, Some(500))),
        ),
        (
            RejectionCode::HolderNotEffective,
            with(|fixture| fixture.unset_beginning(HARBOR, "HOLDER", SERVICE, Some(5_000))),
        ),
        (RejectionCode::IssuerNotEffective, with(|fixture| fixture.unset_beginning(HARBOR, "ISSUER", SERVICE, None))),
        (
            RejectionCode::KeyUnusable,
            with(|fixture| {
                let document = fixture.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["publicKeyMultibase"] = "z7".into();
            }),
        ),
        (
            RejectionCode::ProofInvalid,
            with(|fixture| {
                let mut changed = fixture.credential_of(HARBOR, SERVICE);
                changed["credentialSubject"]["name"] = "Another".into();
                fixture.present_credential(HARBOR, SERVICE, changed);
            }),
        ),
        (
            RejectionCode::ProofMissing,
            with(|fixture| fixture.present_credential(HARBOR, SERVICE, credential(HARBOR, HARBOR, SERVICE))),
        ),
        (
            RejectionCode::ProofUnsupported,
            with(|fixture| {
                let mut changed = fixture.credential_of(HARBOR, SERVICE);
                changed["proof"]["cryptosuite"] = "bbs-2023".into();
                fixture.present_credential(HARBOR, SERVICE, changed);
            }),
        ),
        (
            RejectionCode::ProofExpired,
            with(|fixture| {
                let mut changed = fixture.credential_of(HARBOR, SERVICE);
                changed["proof"]["expires"] = text(999).into();
                fixture.present_credential(HARBOR, SERVICE, changed);
            }),
        ),
        (
            RejectionCode::ProofOfFuture,
            with(|fixture| {
                let mut changed = fixture.credential_of(HARBOR, SERVICE);
                changed["proof"]["created"] = text(1_301).into();
                fixture.present_credential(HARBOR, SERVICE, changed);
            }),
        ),
        (
            RejectionCode::ProofInvalid,
            with(|fixture| {
                let mut changed = fixture.credential_of(HARBOR, SERVICE);
                changed["proof"]["created"] = json!([text(10)]);
                fixture.present_credential(HARBOR, SERVICE, changed);
            }),
        ),
        (
            RejectionCode::PresentationInvalid,
            with(|fixture| {
                let shown = fixture.resources.get_mut(&url(HARBOR, "service")).expect("a presentation");
                *shown = shown.replacen("\"holder\":", &format!("\"holder\":\"{HARBOR}\",\"holder\":"), 1);
            }),
        ),
        // Its status.
        (RejectionCode::CredentialRevoked, with_status("revocation", &[7], |_| {})),
        (RejectionCode::CredentialSuspended, with_status("suspension", &[7], |_| {})),
        (RejectionCode::StatusUnsupported, with_credential(|body| body["credentialStatus"] = json!({"type": "Other"}))),
        (RejectionCode::StatusListInvalid, with_status("revocation", &[], |list| list["issuer"] = REGISTRAR.into())),
        (
            RejectionCode::StatusListInvalid,
            with_status("revocation", &[], |list| list["validUntil"] = text(1_000).into()),
        ),
        (
            RejectionCode::StatusListInvalid,
            with_status("revocation", &[], |list| list["credentialSubject"]["statusPurpose"] = "suspension".into()),
        ),
        (
            RejectionCode::ResourceUnavailable,
            with_credential(|body| body["credentialStatus"] = status_entry("revocation")),
        ),
        // The credential.
        (RejectionCode::CredentialInvalid, with_credential(|body| body["type"] = json!(["Other"]))),
        (RejectionCode::CredentialInvalid, with_credential(|body| body["validUntil"] = "soon".into())),
        (RejectionCode::CredentialInvalid, with_credential(|body| body["issuer"] = "https://issuer.example".into())),
        (RejectionCode::SubjectMismatch, with_credential(|body| body["credentialSubject"]["id"] = REGISTRAR.into())),
        (RejectionCode::CredentialNotYetValid, with_credential(|body| body["validFrom"] = text(1_001).into())),
        (RejectionCode::CredentialExpired, with_credential(|body| body["validUntil"] = text(1_000).into())),
        // Its schema.
        (
            RejectionCode::SchemaUnsupported,
            with_credential(|body| body["credentialSchema"]["type"] = "JsonSchema".into()),
        ),
        (
            RejectionCode::SchemaUnsupported,
            with_schema_credential(|body| {
                body["credentialSubject"]["jsonSchema"]["$ref"] = "vpr:svc:other:cs:1".into();
            }),
        ),
        (
            RejectionCode::SchemaUnknown,
            with_schema_credential(|body| {
                body["credentialSubject"]["jsonSchema"]["$ref"] = "vpr:svc:net:cs:9".into();
            }),
        ),
        (
            RejectionCode::SchemaCredentialInvalid,
            with_schema_credential(|body| body["type"] = json!(["VerifiableCredential"])),
        ),
        (
            RejectionCode::SchemaCredentialIssuer,
            with(|fixture| {
                let signed =
                    sign(schema_credential(REGISTRAR, SERVICE), &prover(REGISTRAR), ProofPurpose::AssertionMethod);
                fixture.resources.insert(schema_url(SERVICE), signed.to_string());
            }),
        ),
        (
            RejectionCode::WrongSigner,
            with(|fixture| {
                let signed = sign(schema_credential(ECOSYSTEM, SERVICE), &stranger(), ProofPurpose::AssertionMethod);
                fixture.resources.insert(schema_url(SERVICE), signed.to_string());
            }),
        ),
        (
            RejectionCode::CredentialInvalid,
            with_credential(|body| body["credentialSchema"]["digestSRI"] = json!(["sha384-x"])),
        ),
        (
            RejectionCode::SchemaCredentialInvalid,
            with_schema_credential(|body| body["credentialSubject"]["digestSRI"] = json!(["sha384-x"])),
        ),
        (
            RejectionCode::SchemaDigestMismatch,
            with_credential(|body| body["credentialSchema"]["digestSRI"] = "sha384-x".into()),
        ),
        (
            RejectionCode::SchemaDigestMismatch,
            with_schema_credential(|body| body["credentialSubject"]["digestSRI"] = "sha384-x".into()),
        ),
        (
            RejectionCode::SchemaMismatch,
            with_credential(|body| body["credentialSubject"]["minimumAgeRequired"] = (-1).into()),
        ),
        // The registry.
        (RejectionCode::DigestNotAnchored, with(|fixture| fixture.digests.clear())),
        (
            RejectionCode::AnchoredTooEarly,
            with(|fixture| {
                fixture.participant(REGISTRAR, "ISSUER", ORGANIZATION).effective_from = Some(at(101));
            }),
        ),
        (
            RejectionCode::AnchoredTooLate,
            with(|fixture| {
                let issuer = fixture.participant(REGISTRAR, "ISSUER", ORGANIZATION);
                issuer.effective_until = Some(at(100));
                issuer.state = ParticipantState::Expired;
            }),
        ),
        (
            RejectionCode::IssuerNeverAuthorised,
            with(|fixture| {
                fixture.participants.remove(REGISTRAR);
            }),
        ),
        (
            RejectionCode::IssuerNeverAuthorised,
            with(|fixture| {
                fixture.participant(REGISTRAR, "ISSUER", ORGANIZATION).role = "VERIFIER".into();
            }),
        ),
        (
            RejectionCode::IssuerNeverAuthorised,
            with(|fixture| {
                fixture.participant(REGISTRAR, "ISSUER", ORGANIZATION).schema_id = SERVICE;
            }),
        ),
        (RejectionCode::IssuerRevoked, in_state(REGISTRAR, "ISSUER", ORGANIZATION, ParticipantState::Revoked)),
        (RejectionCode::IssuerSlashed, in_state(REGISTRAR, "ISSUER", ORGANIZATION, ParticipantState::Slashed)),
        (RejectionCode::IssuerSlashed, in_state(REGISTRAR, "ISSUER", ORGANIZATION, ParticipantState::Repaid)),
        (RejectionCode::IssuerNotEffective, in_state(REGISTRAR, "ISSUER", ORGANIZATION, ParticipantState::Future)),
        (RejectionCode::IssuerNotEffective, in_state(REGISTRAR, "ISSUER", ORGANIZATION, ParticipantState::Inactive)),
        (
            RejectionCode::HolderNeverAuthorised,
            with(|fixture| {
                fixture.participant(HARBOR, "HOLDER", ORGANIZATION).schema_id = SERVICE;
            }),
        ),
        (RejectionCode::HolderRevoked, in_state(HARBOR, "HOLDER", ORGANIZATION, ParticipantState::Revoked)),
        (RejectionCode::HolderSlashed, in_state(HARBOR, "HOLDER", ORGANIZATION, ParticipantState::Slashed)),
        (RejectionCode::HolderExpired, in_state(HARBOR, "HOLDER", ORGANIZATION, ParticipantState::Expired)),
        (RejectionCode::HolderNotEffective, in_state(HARBOR, "HOLDER", ORGANIZATION, ParticipantState::Future)),
        (
            RejectionCode::EcosystemNotAllowed,
            with(|fixture| {
                fixture.rules.essential_schemas = EssentialSchemas::default().in_ecosystems(["did:web:other"]);
            }),
        ),
        // The decision.
        (
            RejectionCode::NoServiceCredential,
            with(|fixture| {
                fixture.documents.insert(HARBOR.into(), document(HARBOR, &["org"]));
            }),
        ),
        (
            RejectionCode::NoOperatorCredential,
            with(|fixture| {
                fixture.documents.insert(HARBOR.into(), document(HARBOR, &["service"]));
            }),
        ),
    ];
    let mut found_codes = BTreeSet::new();
    for (code, fixture) in cases {
        let verdict = fixture.evaluate(HARBOR);
        assert_eq!((verdict.pattern, verdict.expires_at), (None, None), "{code:?}");
        let codes: Vec<_> = verdict.reasons.iter().map(|reason| reason.code).collect();
        assert!(codes.contains(&code), "{code:?}: {:?}", verdict.reasons);
        found_codes.insert(code);
    }
    let elsewhere = [
        RejectionCode::ParentNotTrusted,
        RejectionCode::TrustCycle,
        RejectionCode::TrustChainTooLong,
        RejectionCode::SchemaUnusable,
        RejectionCode::EvaluationAbandoned,
    ];
    let all: BTreeSet<_> = RejectionCode::ALL.iter().copied().filter(|code| !elsewhere.contains(code)).collect();
    assert_eq!(found_codes, all, "every code is tested here or in a test of its own");
}
