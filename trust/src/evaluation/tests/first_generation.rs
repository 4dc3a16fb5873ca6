//! A service in the forms of the registry's first agents: its document, its credentials, the credentials of their schemas and its anchors.

use super::{
    fixture::{ECOSYSTEM, presentation_name, schema_credential},
    *,
};
use crate::{
    did_document::{linked_presentations, linked_schema_presentations},
    digest::{DigestAlgorithm, anchored_digest, bare_digest},
    proof::{ProofKey, add_proof},
};

const EXAMPLES: &str = "https://www.w3.org/ns/credentials/examples/v2";
const ED25519_2020: &str = "https://w3id.org/security/suites/ed25519-2020/v1";
/// The contexts below theirs: that of either data model.
const MODELS: [&str; 2] = ["https://www.w3.org/2018/credentials/v1", "https://www.w3.org/ns/credentials/v2"];

/// The key of a DID, and its id in one form: `#<multibase>` is a Multikey, `#<multibase>-2020` the older form of the same key.
fn first_prover(did: &str, suffix: &str) -> ProofKey {
    let ProofKey { key, .. } = prover(did);
    let multibase = multikey_of(did);
    ProofKey { verification_method: format!("{did}#{multibase}{suffix}"), key }
}

fn multikey_of(did: &str) -> String {
    document(did, &[])["verificationMethod"][0]["publicKeyMultibase"].as_str().expect("a key").to_owned()
}

/// The document of a DID with its key in both forms.
fn first_document(did: &str, links: &[(&str, &str)]) -> Value {
    let multibase = multikey_of(did);
    let (plain, older) = (format!("{did}#{multibase}"), format!("{did}#{multibase}-2020"));
    let services: Vec<Value> = links
        .iter()
        .map(|(fragment, name)| {
            json!({"id": format!("{did}#{fragment}"), "type": "LinkedVerifiablePresentation", "serviceEndpoint": url(did, name)})
        })
        .chain([
            json!({"id": format!("{did}#did-communication"), "type": "did-communication", "priority": 0,
                "recipientKeys": [format!("{did}#key-agreement-1")], "routingKeys": [], "serviceEndpoint": "wss://first.example"}),
            // The method's own entries have relative ids.
            json!({"id": "#files", "type": "relativeRef", "serviceEndpoint": "https://first.example/"}),
        ])
        .collect();
    json!({
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1", ED25519_2020],
        "id": did,
        "verificationMethod": [
            {"id": format!("{did}#wbTQ2abc"), "type": "Multikey", "controller": did, "publicKeyMultibase": multikey_of(REGISTRAR)},
            {"id": plain, "type": "Multikey", "controller": did, "publicKeyMultibase": multibase},
            {"id": older, "type": "Ed25519VerificationKey2020", "controller": did, "publicKeyMultibase": multibase},
        ],
        "authentication": [plain, older], "assertionMethod": [plain, older], "service": services,
    })
}

/// Signs in the first form.
fn first_sign(mut body: Value, signer: &ProofKey, model: &str, purpose: ProofPurpose) -> Value {
    body["@context"] = json!([model, ED25519_2020, EXAMPLES]);
    if model == MODELS[0] {
        let members = body.as_object_mut().expect("an object");
        for (present, older) in [("validFrom", "issuanceDate"), ("validUntil", "expirationDate")] {
            if let Some(value) = members.remove(present) {
                members.insert(older.to_owned(), value);
            }
        }
    }
    add_proof(&mut body, signer, ProofSuite::Ed25519Signature2020, purpose, &text(10)).expect("proved");
    body
}

fn first_schema_url(schema: u64) -> String {
    format!("https://ecosystem.example/vt/0123abcd/schemas-{schema}-jsc.json")
}

/// The fixture of a trusted service, all of it in the first form.
fn first_fixture(model: &str, suffix: &str) -> TrustFixture {
    let mut fixture = TrustFixture::harbor();
    fixture.documents.insert(ECOSYSTEM.into(), first_document(ECOSYSTEM, &[("vpr-schemas-1-vtjsc-vp", "jsc")]));
    fixture.documents.insert(REGISTRAR.into(), first_document(REGISTRAR, &[]));
    let links = [("vpr-schemas-service-vtc-vp", "service"), ("vpr-schemas-2-vtc-vp", "org")];
    fixture.documents.insert(HARBOR.into(), first_document(HARBOR, &links));
    fixture.digests.clear();
    for (issuer, schema) in [(HARBOR, SERVICE), (REGISTRAR, ORGANIZATION)] {
        let signer = first_prover(ECOSYSTEM, suffix);
        let mut named = schema_credential(ECOSYSTEM, schema);
        named["id"] = first_schema_url(schema).into();
        let named = first_sign(named, &signer, model, ProofPurpose::AssertionMethod);
        fixture.resources.insert(first_schema_url(schema), named.to_string());
        let mut body = credential(issuer, HARBOR, schema);
        body["credentialSchema"]["id"] = first_schema_url(schema).into();
        let held = first_sign(body, &first_prover(issuer, suffix), model, ProofPurpose::AssertionMethod);
        let digest = anchored_digest(&held, DigestAlgorithm::Sha384).expect("a digest");
        fixture.digests.insert(bare_digest(&digest).expect("the base64 alone").to_owned(), at(100));
        let shown = presentation(HARBOR, &[held]);
        let shown = first_sign(shown, &first_prover(HARBOR, suffix), model, ProofPurpose::Authentication);
        fixture.resources.insert(url(HARBOR, presentation_name(schema)), shown.to_string());
    }
    fixture
}

#[test]
fn a_service_in_the_forms_of_the_first_generation_is_trusted() {
    for model in MODELS {
        for suffix in ["", "-2020"] {
            let fixture = first_fixture(model, suffix);
            let verdict = fixture.evaluate(HARBOR);
            assert_eq!(verdict.pattern, Some(TrustPattern::SelfVouched), "{model} {suffix:?}: {:?}", verdict.reasons);
            assert_eq!(verdict.credentials.len(), 2, "{model} {suffix:?}");
        }
    }
}

#[test]
fn the_forms_of_the_first_generation_prove_as_much_as_others() {
    let changed = |change: fn(&mut TrustFixture)| {
        let mut fixture = first_fixture(MODELS[0], "-2020");
        change(&mut fixture);
        assert!(!fixture.evaluate(HARBOR).is_trusted());
    };
    // The examples' context defines each name, so that a claim that was added is signed over too.
    changed(|fixture| {
        let place = url(HARBOR, presentation_name(SERVICE));
        let mut shown: Value = serde_json::from_str(&fixture.resources[&place]).expect("JSON");
        shown["verifiableCredential"][0]["credentialSubject"]["rank"] = 1.into();
        fixture.resources.insert(place, shown.to_string());
    });
    // The older form of a key that is allowed for nothing.
    changed(|fixture| {
        let document = fixture.documents.get_mut(HARBOR).expect("a document");
        for relation in ["authentication", "assertionMethod"] {
            document[relation].as_array_mut().expect("a list").truncate(1);
        }
    });
    changed(|fixture| fixture.digests.clear());
}

#[test]
fn links_of_the_first_generation_are_found_by_schema_id() {
    let document = first_document(
        HARBOR,
        &[("vpr-schemas-7-vtjsc-vp", "jsc"), ("vpr-schemas-service-vtc-vp", "service"), ("whois", "whois")],
    );
    let urls =
        |found: Vec<crate::did_document::LinkedPresentation>| found.into_iter().map(|one| one.url).collect::<Vec<_>>();
    assert_eq!(urls(linked_schema_presentations(&document)), [url(HARBOR, "jsc")]);
    assert_eq!(urls(linked_presentations(&document)), [url(HARBOR, "service")]);
}
