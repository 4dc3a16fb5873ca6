//! Proofs of the vectors of the specifications, and of documents that other software signed.

use serde_json::{Value, json};

use super::*;

/// An instant after every vector, in 2033, nanoseconds since the epoch.
const LATER: i128 = 2_000_000_000_000_000_000;

const PUBLIC: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";
const PRIVATE: &str = "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq";

/// The credential of the examples in Data Integrity EdDSA Cryptosuites 1.0, appendix B.
fn alumni() -> Value {
    json!({
        "@context": ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/examples/v2"],
        "id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33",
        "type": ["VerifiableCredential", "AlumniCredential"],
        "name": "Alumni Credential",
        "description": "A minimum viable example of an Alumni Credential.",
        "issuer": "https://vc.example/issuers/5678",
        "validFrom": "2023-01-01T00:00:00Z",
        "credentialSubject": {"id": "did:example:abcdefgh", "alumniOf": "The School of Examples"},
    })
}

fn prover() -> ProofKey {
    let (_, bytes) = multibase::decode(PRIVATE).expect("multibase");
    let seed: [u8; 32] = bytes[2..].try_into().expect("32 bytes");
    ProofKey { verification_method: format!("did:key:{PUBLIC}#{PUBLIC}"), key: SigningKey::from_bytes(&seed) }
}

fn verified(document: &Value, key: &VerifyingKey) -> Result<(), RejectionReason> {
    for proof in parse_proofs(document)? {
        let proof = proof?;
        proof.verify(document, key, LATER)?;
    }
    Ok(())
}

#[test]
fn signatures_equal_the_vectors_of_the_specification() {
    for (suite, expected) in [
        (
            ProofSuite::EddsaJcs2022,
            "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX",
        ),
        (
            ProofSuite::EddsaRdfc2022,
            "z2YwC8z3ap7yx1nZYCg4L3j3ApHsF8kgPdSb5xoS1VR7vPG3F561B52hYnQF9iseabecm3ijx4K1FBTQsCZahKZme",
        ),
    ] {
        let mut document = alumni();
        add_proof(&mut document, &prover(), suite, ProofPurpose::AssertionMethod, "2023-02-24T23:36:38Z")
            .expect("proved");
        assert_eq!(document["proof"]["proofValue"], expected, "{suite:?}");
        assert_eq!(verified(&document, &prover().key.verifying_key()), Ok(()));
        // The RDF is the same where the vocabulary stands in the document itself; its canonical JSON is not.
        document["@context"][1] = json!({"@vocab": "https://www.w3.org/ns/credentials/examples#"});
        assert_eq!(verified(&document, &prover().key.verifying_key()).is_ok(), suite == ProofSuite::EddsaRdfc2022);
    }
}

/// Documents that the npm packages `@digitalbazaar/*` signed.
fn others() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/digitalbazaar.json")).expect("JSON")
}

#[test]
fn proofs_of_other_software_verify() {
    let others = others();
    let key = |purpose| {
        did_document::verification_key(&others["did_document"], "did:web:issuer.example#key-1", purpose, 0)
            .expect("a key of the document")
    };
    for name in ["ed25519_signature_2020", "eddsa_rdfc_2022", "eddsa_jcs_2022"] {
        assert_eq!(verified(&others[name], &key(ProofPurpose::AssertionMethod)), Ok(()), "{name}");
    }
    let presentation = &others["presentation_2020"];
    assert_eq!(verified(presentation, &key(ProofPurpose::Authentication)), Ok(()));
    let wrapped = &presentation["verifiableCredential"][0];
    assert_eq!(verified(wrapped, &key(ProofPurpose::AssertionMethod)), Ok(()), "a credential inside of a presentation");
}

/// One copy of the document for each leaf, the leaves of the proof included, with that leaf changed.
fn tampered(document: &Value) -> Vec<(String, Value)> {
    fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, inner)| {
                leaves(inner, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, inner)| leaves(inner, &format!("{at}/{index}"), found));
            }
            _ => found.push(at.to_owned()),
        }
    }
    let mut found = Vec::new();
    leaves(document, "", &mut found);
    let change = |pointer: &String| {
        let mut document = document.clone();
        let leaf = document.pointer_mut(pointer).expect("a leaf");
        *leaf = match leaf {
            Value::String(text) => format!("{text}x").into(),
            Value::Number(number) => (number.as_f64().expect("finite") + 1.0).into(),
            Value::Bool(flag) => (!*flag).into(),
            _ => json!("x"),
        };
        (pointer.clone(), document)
    };
    found.iter().map(change).collect()
}

#[test]
fn a_change_of_any_member_fails_the_verification() {
    let others = others();
    let key = prover().key.verifying_key();
    let theirs = did_document::verification_key(
        &others["did_document"],
        "did:web:issuer.example#key-1",
        ProofPurpose::AssertionMethod,
        0,
    );
    let theirs = theirs.expect("a key");
    let mut ours = alumni();
    add_proof(&mut ours, &prover(), ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, "2023-02-24T23:36:38Z")
        .expect("proved");
    for (document, key) in [
        (&ours, &key),
        (&others["eddsa_jcs_2022"], &theirs),
        (&others["eddsa_rdfc_2022"], &theirs),
        (&others["ed25519_signature_2020"], &theirs),
    ] {
        for (pointer, tampered) in tampered(document) {
            assert!(verified(&tampered, key).is_err(), "{pointer} may be changed");
        }
    }
}

#[test]
fn a_proof_that_does_not_verify_gives_the_reason() {
    let mut good = alumni();
    add_proof(&mut good, &prover(), ProofSuite::EddsaJcs2022, ProofPurpose::AssertionMethod, "2023-02-24T23:36:38Z")
        .expect("proved");
    let key = prover().key.verifying_key();
    let with = |name: &str, value: Value| {
        let mut document = good.clone();
        document["proof"][name] = value;
        document
    };
    let mut bare = good.clone();
    bare.as_object_mut().expect("an object").remove("proof");
    let mut undefined = alumni();
    undefined["@context"] = json!(["https://www.w3.org/ns/credentials/v2"]);
    undefined["unheard"] = "of".into();
    let by_rdf = add_proof(
        &mut undefined,
        &prover(),
        ProofSuite::EddsaRdfc2022,
        ProofPurpose::AssertionMethod,
        "2023-02-24T23:36:38Z",
    );
    assert_eq!(by_rdf.expect_err("an undefined term is refused").code, RejectionCode::ProofUnsupported);
    for (document, expected) in [
        (bare, RejectionCode::ProofMissing),
        (with("cryptosuite", json!("ecdsa-jcs-2019")), RejectionCode::ProofUnsupported),
        (with("type", json!("JwtProof")), RejectionCode::ProofUnsupported),
        (with("previousProof", json!("urn:x")), RejectionCode::ProofUnsupported),
        (with("proofPurpose", json!("keyAgreement")), RejectionCode::KeyNotForPurpose),
        (with("proofValue", json!("z")), RejectionCode::ProofInvalid),
        (with("proofValue", json!("uAAAA")), RejectionCode::ProofInvalid),
        (with("proofValue", json!(null)), RejectionCode::ProofInvalid),
        (with("expires", json!("soon")), RejectionCode::ProofInvalid),
        (with("expires", json!("1960-01-01T00:00:00Z")), RejectionCode::ProofExpired),
        (with("@context", json!("https://other.example")), RejectionCode::ProofInvalid),
        (with("created", json!("2023-02-24T23:36:39Z")), RejectionCode::ProofInvalid),
    ] {
        assert_eq!(verified(&document, &key).expect_err("refused").code, expected, "{}", document["proof"]);
    }
    let mut many = good.clone();
    many["proof"] = vec![good["proof"].clone(); 5].into();
    assert_eq!(verified(&many, &key).expect_err("refused").code, RejectionCode::TooLarge);
    let other = SigningKey::from_bytes(&[9; 32]).verifying_key();
    assert_eq!(verified(&good, &other).expect_err("refused").code, RejectionCode::ProofInvalid);
}
