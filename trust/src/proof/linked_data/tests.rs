//! Proofs over linked data.

use super::*;

#[test]
fn a_document_with_an_unsigned_or_ambiguous_member_is_refused() {
    let credential = |context: Value, rest: Value| {
        let mut document = json!({"type": "VerifiableCredential", "id": "urn:x:1"});
        document["@context"] = context;
        for (name, value) in rest.as_object().expect("members") {
            document[name] = value.clone();
        }
        canonical_rdf(&document)
    };
    let v2 = json!("https://www.w3.org/ns/credentials/v2");
    assert!(credential(v2.clone(), json!({"issuer": "did:web:a"})).is_ok());
    let own = json!({"issuer": "did:web:a", "credentialSubject": {"id": "did:web:a", "name": "x"}});
    assert!(credential(v2.clone(), own).is_ok());
    assert!(credential(json!([v2, {"@vocab": "https://a/"}]), json!({"anything": {"goes": 1}})).is_ok());
    for (context, rest, expected) in [
        (v2.clone(), json!({"unheard": 1}), "term/unheard is not defined"),
        (v2.clone(), json!({"type": ["VerifiableCredential", "Unheard"]}), "term/Unheard is not defined"),
        (v2.clone(), json!({"credentialSubject": {"inner": {"of": 1}}}), "term/"),
        (v2.clone(), json!({"issuer": "relative"}), "reference/relative is not defined"),
        (json!("https://context.example"), json!({}), "https://context.example is not one of those known"),
        (json!(vec![v2.clone(); 9]), json!({}), "more than 8 contexts"),
        (json!([v2, null]), json!({}), "the context null is neither"),
        (json!([v2, {"@vocab": null}]), json!({"unheard": 1}), "is neither a URL nor a vocabulary"),
        (json!([v2, {"unheard": "https://a/b"}]), json!({"unheard": 1}), "is neither a URL nor a vocabulary"),
        (json!([v2, {"@vocab": "https://a/", "@base": "https://b/"}]), json!({}), "is neither a URL nor a vocabulary"),
        (json!([v2, {"@vocab": "https://x/^"}]), json!({"a": 1}), "is neither a URL nor a vocabulary"),
        (
            json!([v2, {"@vocab": "https://www.w3.org/2018/credentials#"}]),
            json!({}),
            "is neither a URL nor a vocabulary",
        ),
        (json!([v2, {"@vocab": "https://w3id.org/security#"}]), json!({}), "is neither a URL nor a vocabulary"),
        (json!({"@import": "https://context.example"}), json!({}), "is neither a URL"),
        (json!({"@vocab": "https://a/"}), json!({}), "is neither a URL"),
        (v2.clone(), json!({"@unheard": 1}), "\"@unheard\" is not a name"),
        (v2.clone(), json!({"@graph": []}), "\"@graph\" is not a name"),
        (v2.clone(), json!({"https://www.w3.org/2018/credentials#validUntil": "x"}), "is not a name"),
        (v2.clone(), json!({"validUntil": null}), "a member is null"),
        (v2.clone(), json!({"issuer": "did:web:a^"}), "would be signed"),
        (v2.clone(), json!({"id": "urn:x:^"}), "would be signed"),
        (v2.clone(), json!({"id": "relative"}), "an id is no absolute IRI"),
        (v2.clone(), json!({"id": "_:b0"}), "an id is no absolute IRI"),
        (v2.clone(), json!({"issuer": ["did:web:a", "did:web:a"]}), "would be signed"),
        (
            v2.clone(),
            json!({"issuer": {"id": "urn:x:1", "type": "JsonSchema"}}),
            "two objects have members for the id urn:x:1",
        ),
        (v2.clone(), json!({"verifiableCredential": {"type": []}}), "is not defined"),
        (v2.clone(), json!({"type": ["VerifiableCredential", "https://a/b"]}), "is not a plain name"),
        (v2.clone(), json!({"issuer": [["did:web:a"]]}), "a list is in a list"),
        (v2.clone(), json!({"credentialSubject": {"id": "urn:x:1"}}), "is referenced inside of it"),
        (
            v2.clone(),
            json!({"credentialSubject": {"id": "did:web:s"}, "issuer": {"id": "did:web:s", "name": "x"}}),
            "could stand at several places",
        ),
    ] {
        let cause = credential(context, rest.clone()).expect_err("refused");
        assert!(cause.contains(expected), "{rest}: {cause}");
    }
}

#[test]
fn every_known_context_loads() {
    let types = [
        "VerifiableCredential",
        "VerifiableCredential",
        "AnythingElse",
        "DataIntegrityProof",
        "DataIntegrityProof",
        "Ed25519Signature2020",
    ];
    for ((name, _), kind) in KNOWN_CONTEXTS.into_iter().zip(types) {
        // The vocabulary of the examples defines no `id` and `type`.
        let contexts = if kind == "AnythingElse" { json!([KNOWN_CONTEXTS[1].0, name]) } else { json!(name) };
        let quads = canonical_rdf(&json!({"@context": contexts, "id": "urn:x:1", "type": kind}));
        assert!(quads.as_ref().is_ok_and(|quads| quads.contains(kind)), "{name}: {quads:?}");
    }
}

#[test]
fn each_credential_of_a_presentation_is_a_separate_document() {
    let v2 = "https://www.w3.org/ns/credentials/v2";
    let credential = |id: &str| {
        json!({"@context": v2, "type": "VerifiableCredential", "id": id, "issuer": "did:web:h",
            "credentialSubject": {"id": "did:web:h", "name": "x"},
            "credentialSchema": {"id": "https://s.example/1", "type": "JsonSchemaCredential"}})
    };
    let shown = |types: Value| {
        json!({"@context": v2, "type": types, "holder": "did:web:h",
            "verifiableCredential": [credential("urn:x:1"), credential("urn:x:2")]})
    };
    assert!(canonical_rdf(&shown(json!("VerifiablePresentation"))).is_ok());
    let both = canonical_rdf(&shown(json!(["VerifiablePresentation", "VerifiableCredential"])));
    assert!(both.expect_err("refused").contains("two objects have members"));
}

#[test]
fn documents_that_break_the_libraries_are_errors() {
    let terms: serde_json::Map<String, Value> =
        (0..20_000).map(|index| (format!("t{index}"), format!("t{}:x", index + 1).into())).collect();
    assert!(canonical_rdf(&json!({"@context": [terms], "id": "urn:x", "t0": 1})).is_err());
    let v1 = "https://www.w3.org/2018/credentials/v1";
    for inner in [json!({"@set": []}), json!({"@list": []}), json!([[]]), json!({"verifiableCredential": [[]]})] {
        let shown = json!({"@context": v1, "type": "VerifiablePresentation", "verifiableCredential": inner});
        let _ = canonical_rdf(&shown);
    }
}

#[test]
fn a_graph_with_many_alike_blank_nodes_is_refused() {
    let of = |count: usize| {
        let siblings: Vec<Value> = (0..count).map(|_| json!({"q": {"r": 1}})).collect();
        canonical_rdf(
            &json!({"@context": ["https://www.w3.org/ns/credentials/v2", {"@vocab": "https://a/"}], "id": "urn:x", "s": siblings}),
        )
    };
    let cause = of(12).expect_err("refused");
    assert!(cause.contains("look alike"), "{cause}");
    assert!(of(2).is_ok());
}
