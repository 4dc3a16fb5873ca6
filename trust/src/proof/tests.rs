//! Proofs against the vectors of the specifications, and against documents that other software proved.

use serde_json::{Value, json};

use super::*;

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

fn prover() -> Prover {
    let (_, bytes) = multibase::decode(PRIVATE).expect("multibase");
    let seed: [u8; 32] = bytes[2..].try_into().expect("32 bytes");
    Prover { method: format!("did:key:{PUBLIC}#{PUBLIC}"), key: SigningKey::from_bytes(&seed) }
}

fn verified(document: &Value, key: &VerifyingKey) -> Result<(), Reason> {
    for proof in proofs(document)? {
        let proof = proof?;
        proof.verify(document, key, 0)?;
    }
    Ok(())
}

#[test]
fn the_vectors_of_the_specification_are_met_to_the_letter() {
    for (suite, expected) in [
        (
            Suite::EddsaJcs2022,
            "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX",
        ),
        (
            Suite::EddsaRdfc2022,
            "z2YwC8z3ap7yx1nZYCg4L3j3ApHsF8kgPdSb5xoS1VR7vPG3F561B52hYnQF9iseabecm3ijx4K1FBTQsCZahKZme",
        ),
    ] {
        let mut document = alumni();
        if suite == Suite::EddsaRdfc2022 {
            // What the name of the examples' context stands for; as RDF the document is the same.
            document["@context"][1] = json!({"@vocab": "https://www.w3.org/ns/credentials/examples#"});
        }
        prove(&mut document, &prover(), suite, Purpose::AssertionMethod, "2023-02-24T23:36:38Z").expect("proved");
        assert_eq!(document["proof"]["proofValue"], expected, "{suite:?}");
        assert_eq!(verified(&document, &prover().key.verifying_key()), Ok(()));
    }
}

/// Made with the npm packages `@digitalbazaar/*`.
fn others() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/digitalbazaar.json")).expect("JSON")
}

#[test]
fn what_other_software_proved_is_verified() {
    let others = others();
    let key = |purpose| {
        document::key(&others["did_document"], "did:web:issuer.example#key-1", purpose, 0)
            .expect("a key of the document")
    };
    for name in ["ed25519_signature_2020", "eddsa_rdfc_2022", "eddsa_jcs_2022"] {
        assert_eq!(verified(&others[name], &key(Purpose::AssertionMethod)), Ok(()), "{name}");
    }
    let presentation = &others["presentation_2020"];
    assert_eq!(verified(presentation, &key(Purpose::Authentication)), Ok(()));
    let wrapped = &presentation["verifiableCredential"][0];
    assert_eq!(verified(wrapped, &key(Purpose::AssertionMethod)), Ok(()), "a credential inside of a presentation");
}

/// Changes one leaf after the other, the proof's own included.
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
fn a_change_anywhere_is_noticed() {
    let others = others();
    let key = prover().key.verifying_key();
    let theirs = document::key(&others["did_document"], "did:web:issuer.example#key-1", Purpose::AssertionMethod, 0);
    let theirs = theirs.expect("a key");
    let mut ours = alumni();
    prove(&mut ours, &prover(), Suite::EddsaJcs2022, Purpose::AssertionMethod, "2023-02-24T23:36:38Z").expect("proved");
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
fn what_cannot_be_verified_says_why() {
    let mut good = alumni();
    prove(&mut good, &prover(), Suite::EddsaJcs2022, Purpose::AssertionMethod, "2023-02-24T23:36:38Z").expect("proved");
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
    let by_rdf =
        prove(&mut undefined, &prover(), Suite::EddsaRdfc2022, Purpose::AssertionMethod, "2023-02-24T23:36:38Z");
    assert_eq!(by_rdf.expect_err("undefined terms are signed by nobody").code, Code::ProofUnsupported);
    for (document, expected) in [
        (bare, Code::ProofMissing),
        (with("cryptosuite", json!("ecdsa-jcs-2019")), Code::ProofUnsupported),
        (with("type", json!("JwtProof")), Code::ProofUnsupported),
        (with("previousProof", json!("urn:x")), Code::ProofUnsupported),
        (with("proofPurpose", json!("keyAgreement")), Code::KeyNotForPurpose),
        (with("proofValue", json!("z")), Code::ProofInvalid),
        (with("proofValue", json!("uAAAA")), Code::ProofInvalid),
        (with("proofValue", json!(null)), Code::ProofInvalid),
        (with("expires", json!("soon")), Code::ProofInvalid),
        (with("expires", json!("1960-01-01T00:00:00Z")), Code::ProofExpired),
        (with("@context", json!("https://other.example")), Code::ProofInvalid),
        (with("created", json!("2023-02-24T23:36:39Z")), Code::ProofInvalid),
    ] {
        assert_eq!(verified(&document, &key).expect_err("refused").code, expected, "{}", document["proof"]);
    }
    let mut many = good.clone();
    many["proof"] = vec![good["proof"].clone(); 5].into();
    assert_eq!(verified(&many, &key).expect_err("refused").code, Code::TooLarge);
    let other = SigningKey::from_bytes(&[9; 32]).verifying_key();
    assert_eq!(verified(&good, &other).expect_err("refused").code, Code::ProofInvalid);
}
