//! Every verdict there is, and the way to it.

mod world;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Essential, Failure, State, proof::Suite};
use world::{
    DESK, ECOSYSTEM, HARBOR, ORGANIZATION, REGISTRAR, SERVICE, World, at, credential, document, presentation, prover,
    schema_credential, schema_url, sign, text, url,
};

/// Changes the service credential of the harbor before it is signed.
fn with_credential(change: impl Fn(&mut Value)) -> World {
    let mut world = World::harbor();
    let mut changed = credential(HARBOR, HARBOR, SERVICE);
    change(&mut changed);
    world.show(HARBOR, SERVICE, sign(changed, &prover(HARBOR), Purpose::AssertionMethod));
    world
}

/// Changes the credential of the service schema before it is signed by its ecosystem.
fn with_schema_credential(change: impl Fn(&mut Value)) -> World {
    let mut world = World::harbor();
    let mut changed = schema_credential(ECOSYSTEM, SERVICE);
    change(&mut changed);
    let signed = sign(changed, &prover(ECOSYSTEM), Purpose::AssertionMethod);
    world.resources.insert(schema_url(SERVICE), signed.to_string());
    world
}

/// Changes the world of a trusted service.
fn with(change: impl FnOnce(&mut World)) -> World {
    let mut world = World::harbor();
    change(&mut world);
    world
}

/// A world in which the harbor is not trusted any more because its participant of a role is in a state.
fn in_state(did: &'static str, role: &'static str, schema: u64, state: State) -> World {
    with(|world| world.participant(did, role, schema).state = state)
}

fn unresolved(code: Code) -> World {
    with(|world| {
        let failure = Failure { code, message: "as the resolver says".into() };
        world.failures.insert(Need::Document(HARBOR.into()), failure);
    })
}

#[test]
fn one_good_proof_among_others_is_enough() {
    let world = with(|world| {
        let mut changed = world.credential_of(HARBOR, SERVICE);
        let mut unknown = changed["proof"].clone();
        unknown["cryptosuite"] = "bbs-2023".into();
        changed["proof"] = json!([unknown, changed["proof"]]);
        world.show(HARBOR, SERVICE, changed);
    });
    assert!(world.judge(HARBOR).is_trusted());
}

#[test]
fn what_many_services_say_of_each_other_is_looked_at_within_bounds() {
    let dids: Vec<String> = (0..20).map(|index| format!("did:web:s{index}")).collect();
    let mut world = World::new();
    for did in &dids {
        world.documents.insert(did.clone(), document(did, &["service"]));
        world.participate(did, "ISSUER", SERVICE, 0, None);
        world.participate(did, "HOLDER", SERVICE, 0, None);
        let issued_by =
            |issuer: &String| sign(credential(issuer, did, SERVICE), &prover(issuer), Purpose::AssertionMethod);
        let credentials: Vec<Value> = dids.iter().filter(|issuer| *issuer != did).map(issued_by).collect();
        credentials.iter().for_each(|credential| world.anchor(credential, 100));
        let shown = sign(presentation(did, &credentials), &prover(did), Purpose::Authentication);
        world.put(did, SERVICE, &shown);
    }
    let verdict = world.judge(&dids[0]);
    assert!(!verdict.is_trusted() && verdict.consulted.len() < dids.len());
    assert_eq!(verdict.reasons.len(), MOST_REASONS + 1);
    assert_eq!(verdict.reasons.last().map(|reason| reason.code), Some(Code::TooLarge));
    assert_eq!(verdict.presentations[0].credentials.len(), dids.len() - 1, "those that were looked at first count");
}

#[test]
fn a_service_that_vouches_for_itself_is_trusted_until_the_first_of_its_boundaries() {
    let verdict = World::harbor().judge(HARBOR);
    assert_eq!((verdict.pattern, verdict.reasons.as_slice()), (Some(Pattern::Own), &[][..]));
    assert_eq!(verdict.expires_at, Some(at(4_000)), "the participant that holds the organisation's credential");
    assert_eq!(
        verdict.services,
        [json!({"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://service.example/mcp"})]
    );
    let kinds: Vec<_> = verdict.credentials.iter().map(|held| held.essential.clone().expect("essential").0).collect();
    assert_eq!(kinds, [Essential::Service, Essential::Organization]);
    assert_eq!(verdict.credentials[0].issued_at, at(100), "when the digest was anchored, whatever the issuer wrote");
    for (boundary, change) in [
        (
            3_000,
            Box::new(|world: &mut World| world.participant(HARBOR, "HOLDER", SERVICE).effective_until = Some(at(3_000)))
                as Box<dyn Fn(&mut World)>,
        ),
        (
            9_000,
            Box::new(|world| {
                world.participant(HARBOR, "HOLDER", SERVICE).effective_until = None;
                world.participant(HARBOR, "HOLDER", ORGANIZATION).effective_until = None;
            }),
        ),
    ] {
        assert_eq!(with(change).judge(HARBOR).expires_at, Some(at(boundary)));
    }
    let endless = with(|world| {
        world.participant(HARBOR, "HOLDER", SERVICE).effective_until = None;
        world.participant(HARBOR, "HOLDER", ORGANIZATION).effective_until = None;
        for (issuer, schema) in [(HARBOR, SERVICE), (REGISTRAR, ORGANIZATION)] {
            let mut body = credential(issuer, HARBOR, schema);
            body.as_object_mut().expect("an object").remove("validUntil");
            world.show(HARBOR, schema, sign(body, &prover(issuer), Purpose::AssertionMethod));
        }
    });
    assert_eq!(endless.judge(HARBOR).expires_at, None, "never a time that nobody set");
}

#[test]
fn a_service_that_another_vouches_for_ends_no_later_than_that_one() {
    let world = World::desk();
    let verdict = world.judge(DESK);
    assert_eq!((verdict.pattern, verdict.reasons.as_slice()), (Some(Pattern::Parent), &[][..]));
    assert_eq!(verdict.parents, [HARBOR]);
    assert_eq!(verdict.expires_at, Some(at(4_000)), "the harbor's end");
    let mut sooner = World::desk();
    sooner.participant(DESK, "HOLDER", SERVICE).effective_until = Some(at(2_000));
    assert_eq!(sooner.judge(DESK).expires_at, Some(at(2_000)));
    let rests_on = |need| verdict.inputs.contains(&need);
    assert!(rests_on(Need::Document(HARBOR.into())) && rests_on(Need::Participants(REGISTRAR.into())));
}

#[test]
fn an_older_data_model_and_an_older_proof_count_as_much() {
    let world = with(|world| {
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
        proof::prove(&mut body, &prover(HARBOR), Suite::Ed25519Signature2020, Purpose::AssertionMethod, &text(10))
            .expect("proved");
        world.show(HARBOR, SERVICE, body);
    });
    let verdict = world.judge(HARBOR);
    assert_eq!((verdict.pattern, verdict.expires_at), (Some(Pattern::Own), Some(at(2_500))), "{:?}", verdict.reasons);
}

#[test]
fn every_cause_has_its_name() {
    let stranger = || prover("did:web:stranger");
    let cases: Vec<(Code, World)> = vec![
        // The document.
        (Code::DidUnresolvable, unresolved(Code::DidUnresolvable)),
        (Code::DidMethodUnsupported, unresolved(Code::DidMethodUnsupported)),
        (Code::DidDocumentInvalid, unresolved(Code::DidDocumentInvalid)),
        (Code::DidLogInvalid, unresolved(Code::DidLogInvalid)),
        (Code::DidScidMismatch, unresolved(Code::DidScidMismatch)),
        (Code::DidDeactivated, unresolved(Code::DidDeactivated)),
        (Code::HostRefused, unresolved(Code::HostRefused)),
        (
            Code::NoPresentation,
            with(|world| {
                world.documents.insert(HARBOR.into(), document(HARBOR, &[]));
            }),
        ),
        (
            Code::NotFetched,
            with(|world| {
                world.resources.remove(&url(HARBOR, "service"));
            }),
        ),
        (
            Code::TooLarge,
            with(|world| {
                let many = vec![world.credential_of(HARBOR, SERVICE); 65];
                let shown = sign(presentation(HARBOR, &many), &prover(HARBOR), Purpose::Authentication);
                world.put(HARBOR, SERVICE, &shown);
            }),
        ),
        // The presentation.
        (
            Code::PresentationInvalid,
            with(|world| world.put(HARBOR, SERVICE, &json!({"type": "VerifiablePresentation"}))),
        ),
        (
            Code::PresentationInvalid,
            with(|world| {
                world.resources.insert(url(HARBOR, "service"), "[".repeat(5_000));
            }),
        ),
        (
            Code::HolderDiffers,
            with(|world| {
                let shown = presentation("did:web:other", &[world.credential_of(HARBOR, SERVICE)]);
                world.put(HARBOR, SERVICE, &sign(shown, &prover(HARBOR), Purpose::Authentication));
            }),
        ),
        (
            Code::WrongSigner,
            with(|world| {
                let shown = presentation(HARBOR, &[world.credential_of(HARBOR, SERVICE)]);
                world.put(HARBOR, SERVICE, &sign(shown, &stranger(), Purpose::Authentication));
            }),
        ),
        (
            Code::KeyNotForPurpose,
            with(|world| {
                world.documents.get_mut(HARBOR).expect("a document")["authentication"] = json!([]);
            }),
        ),
        // Proofs of credentials.
        (
            Code::WrongSigner,
            with(|world| {
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &stranger(), Purpose::AssertionMethod);
                world.show(HARBOR, SERVICE, signed);
            }),
        ),
        (
            Code::WrongSigner,
            with(|world| {
                // A key of the registrar under its own name, for a credential the harbor is said to have issued.
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &prover(REGISTRAR), Purpose::AssertionMethod);
                world.show(HARBOR, SERVICE, signed);
            }),
        ),
        (
            Code::KeyNotForPurpose,
            with(|world| {
                world.documents.get_mut(HARBOR).expect("a document")["assertionMethod"] = json!([]);
            }),
        ),
        (
            Code::KeyNotForPurpose,
            with(|world| {
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &prover(HARBOR), Purpose::Authentication);
                world.show(HARBOR, SERVICE, signed);
            }),
        ),
        (
            Code::KeyUnknown,
            with(|world| {
                let other = proof::Prover { method: format!("{HARBOR}#other"), ..prover(HARBOR) };
                let signed = sign(credential(HARBOR, HARBOR, SERVICE), &other, Purpose::AssertionMethod);
                world.show(HARBOR, SERVICE, signed);
            }),
        ),
        (
            Code::KeyRevoked,
            with(|world| {
                let document = world.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["revoked"] = text(1).into();
            }),
        ),
        (
            Code::KeyRevoked,
            with(|world| {
                let document = world.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["expires"] = text(1_000).into();
            }),
        ),
        (
            Code::IssuerNotEffective,
            with(|world| world.participant(REGISTRAR, "ISSUER", ORGANIZATION).effective_from = None),
        ),
        (Code::HolderNotEffective, with(|world| world.participant(HARBOR, "HOLDER", SERVICE).effective_from = None)),
        (
            Code::KeyUnusable,
            with(|world| {
                let document = world.documents.get_mut(REGISTRAR).expect("a document");
                document["verificationMethod"][0]["publicKeyMultibase"] = "z7".into();
            }),
        ),
        (
            Code::ProofInvalid,
            with(|world| {
                let mut changed = world.credential_of(HARBOR, SERVICE);
                changed["credentialSubject"]["name"] = "Another".into();
                world.show(HARBOR, SERVICE, changed);
            }),
        ),
        (Code::ProofMissing, with(|world| world.show(HARBOR, SERVICE, credential(HARBOR, HARBOR, SERVICE)))),
        (
            Code::ProofUnsupported,
            with(|world| {
                let mut changed = world.credential_of(HARBOR, SERVICE);
                changed["proof"]["cryptosuite"] = "bbs-2023".into();
                world.show(HARBOR, SERVICE, changed);
            }),
        ),
        (
            Code::ProofExpired,
            with(|world| {
                let mut changed = world.credential_of(HARBOR, SERVICE);
                changed["proof"]["expires"] = text(999).into();
                world.show(HARBOR, SERVICE, changed);
            }),
        ),
        // The credential.
        (Code::CredentialInvalid, with_credential(|body| body["type"] = json!(["Other"]))),
        (Code::CredentialInvalid, with_credential(|body| body["validUntil"] = "soon".into())),
        (Code::CredentialInvalid, with_credential(|body| body["issuer"] = "https://issuer.example".into())),
        (Code::SubjectDiffers, with_credential(|body| body["credentialSubject"]["id"] = REGISTRAR.into())),
        (Code::NotYetValid, with_credential(|body| body["validFrom"] = text(1_001).into())),
        (Code::CredentialExpired, with_credential(|body| body["validUntil"] = text(1_000).into())),
        // Its schema.
        (Code::SchemaUnsupported, with_credential(|body| body["credentialSchema"]["type"] = "JsonSchema".into())),
        (
            Code::SchemaUnsupported,
            with_schema_credential(|body| {
                body["credentialSubject"]["jsonSchema"]["$ref"] = "vpr:svc:other:cs:1".into();
            }),
        ),
        (
            Code::SchemaUnknown,
            with_schema_credential(|body| {
                body["credentialSubject"]["jsonSchema"]["$ref"] = "vpr:svc:net:cs:9".into();
            }),
        ),
        (Code::SchemaCredentialInvalid, with_schema_credential(|body| body["type"] = json!(["VerifiableCredential"]))),
        (
            Code::SchemaCredentialIssuer,
            with(|world| {
                let signed = sign(schema_credential(REGISTRAR, SERVICE), &prover(REGISTRAR), Purpose::AssertionMethod);
                world.resources.insert(schema_url(SERVICE), signed.to_string());
            }),
        ),
        (
            Code::WrongSigner,
            with(|world| {
                let signed = sign(schema_credential(ECOSYSTEM, SERVICE), &stranger(), Purpose::AssertionMethod);
                world.resources.insert(schema_url(SERVICE), signed.to_string());
            }),
        ),
        (Code::CredentialInvalid, with_credential(|body| body["credentialSchema"]["digestSRI"] = json!(["sha384-x"]))),
        (
            Code::SchemaCredentialInvalid,
            with_schema_credential(|body| body["credentialSubject"]["digestSRI"] = json!(["sha384-x"])),
        ),
        (Code::SchemaDigestMismatch, with_credential(|body| body["credentialSchema"]["digestSRI"] = "sha384-x".into())),
        (
            Code::SchemaDigestMismatch,
            with_schema_credential(|body| body["credentialSubject"]["digestSRI"] = "sha384-x".into()),
        ),
        (Code::SchemaMismatch, with_credential(|body| body["credentialSubject"]["minimumAgeRequired"] = (-1).into())),
        // The registry's word.
        (Code::DigestNotAnchored, with(|world| world.digests.clear())),
        (
            Code::AnchoredTooEarly,
            with(|world| {
                world.participant(REGISTRAR, "ISSUER", ORGANIZATION).effective_from = Some(at(101));
            }),
        ),
        (
            Code::AnchoredTooLate,
            with(|world| {
                let issuer = world.participant(REGISTRAR, "ISSUER", ORGANIZATION);
                issuer.effective_until = Some(at(100));
                issuer.state = State::Expired;
            }),
        ),
        (
            Code::IssuerNeverAuthorised,
            with(|world| {
                world.participants.remove(REGISTRAR);
            }),
        ),
        (
            Code::IssuerNeverAuthorised,
            with(|world| {
                world.participant(REGISTRAR, "ISSUER", ORGANIZATION).role = "VERIFIER".into();
            }),
        ),
        (
            Code::IssuerNeverAuthorised,
            with(|world| {
                world.participant(REGISTRAR, "ISSUER", ORGANIZATION).schema_id = SERVICE;
            }),
        ),
        (Code::IssuerRevoked, in_state(REGISTRAR, "ISSUER", ORGANIZATION, State::Revoked)),
        (Code::IssuerSlashed, in_state(REGISTRAR, "ISSUER", ORGANIZATION, State::Slashed)),
        (Code::IssuerSlashed, in_state(REGISTRAR, "ISSUER", ORGANIZATION, State::Repaid)),
        (Code::IssuerNotEffective, in_state(REGISTRAR, "ISSUER", ORGANIZATION, State::Future)),
        (Code::IssuerNotEffective, in_state(REGISTRAR, "ISSUER", ORGANIZATION, State::Inactive)),
        (
            Code::HolderNeverAuthorised,
            with(|world| {
                world.participant(HARBOR, "HOLDER", ORGANIZATION).schema_id = SERVICE;
            }),
        ),
        (Code::HolderRevoked, in_state(HARBOR, "HOLDER", ORGANIZATION, State::Revoked)),
        (Code::HolderSlashed, in_state(HARBOR, "HOLDER", ORGANIZATION, State::Slashed)),
        (Code::HolderExpired, in_state(HARBOR, "HOLDER", ORGANIZATION, State::Expired)),
        (Code::HolderNotEffective, in_state(HARBOR, "HOLDER", ORGANIZATION, State::Future)),
        (Code::EcosystemNotAllowed, with(|world| world.rules.ecosystems = ["did:web:other".to_owned()].into())),
        // The whole.
        (
            Code::NoServiceCredential,
            with(|world| {
                world.documents.insert(HARBOR.into(), document(HARBOR, &["org"]));
            }),
        ),
        (
            Code::NoOperatorCredential,
            with(|world| {
                world.documents.insert(HARBOR.into(), document(HARBOR, &["service"]));
            }),
        ),
    ];
    let mut told = BTreeSet::new();
    for (code, world) in cases {
        let verdict = world.judge(HARBOR);
        assert_eq!((verdict.pattern, verdict.expires_at), (None, None), "{code:?}");
        let codes: Vec<_> = verdict.reasons.iter().map(|reason| reason.code).collect();
        assert!(codes.contains(&code), "{code:?}: {:?}", verdict.reasons);
        told.insert(code);
    }
    let elsewhere = [Code::ParentNotTrusted, Code::Cycle, Code::TooDeep, Code::SchemaUnusable, Code::GivenUp];
    let all: BTreeSet<_> = Code::ALL.iter().copied().filter(|code| !elsewhere.contains(code)).collect();
    assert_eq!(told, all, "every cause is shown here, or in a test of its own");
}

#[test]
fn a_service_is_not_better_than_the_one_that_vouches_for_it() {
    let mut world = World::desk();
    world.participant(REGISTRAR, "ISSUER", ORGANIZATION).state = State::Revoked;
    let verdict = world.judge(DESK);
    assert_eq!(verdict.pattern, None);
    let found: Vec<_> = verdict.reasons.iter().map(|reason| (reason.code, reason.did.as_deref())).collect();
    assert!(found.contains(&(Code::ParentNotTrusted, Some(HARBOR))), "{found:?}");
    assert!(found.contains(&(Code::IssuerRevoked, Some(HARBOR))), "the parent's own reason is told: {found:?}");
    assert_eq!(verdict.consulted, [HARBOR.to_owned()].into(), "whose next verdict matters all the same");
}

#[test]
fn services_that_vouch_for_each_other_are_not_trusted() {
    let mut world = World::desk();
    world.participate(DESK, "ISSUER", SERVICE, 0, None);
    world.issue(DESK, HARBOR, SERVICE);
    for did in [DESK, HARBOR] {
        let verdict = world.judge(did);
        assert_eq!(verdict.pattern, None);
        assert!(verdict.reasons.iter().any(|reason| reason.code == Code::Cycle), "{:?}", verdict.reasons);
    }
}

#[test]
fn a_long_row_of_services_is_not_followed_for_ever() {
    let mut world = World::harbor();
    let mut above = HARBOR.to_owned();
    let names: Vec<String> = (0..6).map(|index| format!("did:web:row{index}")).collect();
    for name in &names {
        world.documents.insert(name.clone(), document(name, &["service"]));
        world.participate(name, "ISSUER", SERVICE, 0, None);
        world.participate(name, "HOLDER", SERVICE, 0, None);
        world.issue(&above, name, SERVICE);
        above.clone_from(name);
    }
    assert!(world.judge(&names[3]).is_trusted(), "four parents");
    let verdict = world.judge(&names[5]);
    assert!(verdict.reasons.iter().any(|reason| reason.code == Code::TooDeep), "{:?}", verdict.reasons);
}

#[test]
fn what_counts_and_what_does_not_is_listed_by_presentation() {
    let mut world = World::harbor();
    let good = world.credential_of(HARBOR, SERVICE);
    let mut wrong = good.clone();
    wrong["id"] = "urn:wrong".into();
    let mut lost = credential("did:web:gone", HARBOR, SERVICE);
    lost["id"] = "urn:lost".into();
    let lost = sign(lost, &prover("did:web:gone"), Purpose::AssertionMethod);
    let shown = presentation(HARBOR, &[wrong, lost, good.clone()]);
    world.put(HARBOR, SERVICE, &sign(shown, &prover(HARBOR), Purpose::Authentication));
    let verdict = world.judge(HARBOR);
    assert!(verdict.is_trusted(), "a credential that does not count takes nothing away");
    let presentation = &verdict.presentations[0];
    assert_eq!(presentation.credentials, [good["id"].as_str().expect("an id")]);
    assert_eq!(
        (presentation.unresolvable.as_slice(), presentation.invalid.as_slice()),
        (&["urn:lost".to_owned()][..], &["urn:wrong".to_owned()][..])
    );
    assert_eq!(presentation.service, format!("{HARBOR}#vpr-schemas-service-vtc-vp"));
    let reason = verdict.reasons.iter().find(|reason| reason.credential.as_deref() == Some("urn:wrong")).expect("told");
    assert_eq!((reason.code, reason.presentation.clone()), (Code::ProofInvalid, Some(url(HARBOR, "service"))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// A byte changed anywhere in what a web server gives is noticed, or changes nothing of what is said.
    #[test]
    fn a_tampered_byte_takes_the_trust_away(which in 0usize..4, place in any::<prop::sample::Index>(), byte in 0x20u8..0x7f) {
        let mut world = World::harbor();
        let urls = [url(HARBOR, "service"), url(HARBOR, "org"), schema_url(SERVICE), schema_url(ORGANIZATION)];
        let original = world.resources[&urls[which]].clone();
        let mut bytes = original.clone().into_bytes();
        let at = place.index(bytes.len());
        bytes[at] = byte;
        let tampered = String::from_utf8(bytes).expect("ASCII");
        let says_the_same = serde_json::from_str::<Value>(&tampered).ok() == serde_json::from_str(&original).ok();
        world.resources.insert(urls[which].clone(), tampered);
        prop_assert_eq!(world.judge(HARBOR).is_trusted(), says_the_same);
    }
}
