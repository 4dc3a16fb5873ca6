//! JSON-LD documents as canonical RDF (RDFC-1.0). Strict where the algorithms are lenient: what a context does not define would
//! be left out of the canonical form, and so be signed by nobody.

use std::collections::{BTreeMap, BTreeSet};

use affinidi_rdf_encoding::{Dataset, GraphLabel, Object, Subject, nquads, rdfc1};
use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};
use serde_json::{Value, json};

/// Contexts that may be named. None is ever fetched.
const CONTEXTS: [(&str, &str); 5] = [
    ("https://www.w3.org/2018/credentials/v1", include_str!("../contexts/credentials-v1.jsonld")),
    ("https://www.w3.org/ns/credentials/v2", include_str!("../contexts/credentials-v2.jsonld")),
    ("https://w3id.org/security/data-integrity/v1", include_str!("../contexts/data-integrity-v1.jsonld")),
    ("https://w3id.org/security/data-integrity/v2", include_str!("../contexts/data-integrity-v2.jsonld")),
    ("https://w3id.org/security/suites/ed25519-2020/v1", include_str!("../contexts/ed25519-2020-v1.jsonld")),
];

/// What undefined terms and relative references become, so that they can be seen.
const UNDEFINED: &str = "undefined:";

/// Nodes without a name that look alike: the canonical order of more of them takes time beyond all bounds.
const MOST_ALIKE: usize = 8;

/// The canonical N-Quads of a document, or why there are none.
pub fn canonical(document: &Value) -> Result<String, String> {
    let dataset = dataset(document)?;
    refuse_poison(&dataset)?;
    rdfc1::canonicalize(&dataset).map_err(|error| error.to_string())
}

/// What the algorithms leave out without a word, and a stranger could therefore put in.
fn refuse_omissions(value: &Value, is_context: bool) -> Result<(), String> {
    const KEYWORDS: [&str; 8] = ["@context", "@id", "@type", "@value", "@language", "@graph", "@list", "@set"];
    match value {
        Value::Null if is_context => Err("null in a @context takes definitions away".to_owned()),
        Value::Array(items) => items.iter().try_for_each(|item| refuse_omissions(item, is_context)),
        Value::Object(members) => members.iter().try_for_each(|(name, inner)| {
            if !is_context && name.starts_with('@') && !KEYWORDS.contains(&name.as_str()) {
                return Err(format!("{name} is not a keyword of linked data that is known here"));
            }
            refuse_omissions(inner, is_context || name == "@context")
        }),
        _ => Ok(()),
    }
}

fn dataset(document: &Value) -> Result<Dataset, String> {
    refuse_omissions(document, false)?;
    let mut document = document.clone();
    let own = match document["@context"].take() {
        Value::Array(several) => several,
        one => vec![one],
    };
    let seen = json!({"@vocab": format!("{UNDEFINED}term/")});
    document["@context"] = std::iter::once(seen).chain(own).collect();
    let text = document.to_string();
    let parser = JsonLdParser::new().with_base_iri(format!("{UNDEFINED}reference/"));
    let parser = parser.map_err(|error| error.to_string())?.for_slice(&text);
    let parser = parser.with_load_document_callback(|name, _| {
        let known = CONTEXTS.iter().find(|(known, _)| *known == name);
        let (_, text) = known.ok_or_else(|| format!("the context {name} is not one of those known here"))?;
        Ok(JsonLdRemoteDocument { document: text.as_bytes().to_vec(), document_url: name.to_owned() })
    });
    let mut lines = String::new();
    for quad in parser {
        let quad = quad.map_err(|error| error.to_string())?.to_string();
        if let Some((_, rest)) = quad.split_once(&format!("<{UNDEFINED}")) {
            let name = rest.split('>').next().unwrap_or_default();
            return Err(format!("{name} is not defined by any @context"));
        }
        lines += &quad;
        lines += " .\n";
    }
    nquads::parser::parse(&lines).map_err(|error| error.to_string())
}

fn refuse_poison(dataset: &Dataset) -> Result<(), String> {
    let mut quads_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for quad in dataset.quads() {
        let mut names = BTreeSet::new();
        if let Subject::Blank(node) = &quad.subject {
            names.insert(node.id.as_str());
        }
        if let Object::Blank(node) = &quad.object {
            names.insert(node.id.as_str());
        }
        if let GraphLabel::Blank(node) = &quad.graph {
            names.insert(node.id.as_str());
        }
        for name in names {
            quads_of.entry(name).or_default().push(nquads::serializer::serialize_quad_substituted(quad, name));
        }
    }
    let mut shapes: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for mut quads in quads_of.into_values() {
        quads.sort();
        *shapes.entry(quads).or_default() += 1;
    }
    let alike: usize = shapes.values().filter(|count| **count > 1).sum();
    if alike > MOST_ALIKE {
        return Err(format!("{alike} nodes without a name look alike; at most {MOST_ALIKE} may"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_context_defines_is_refused() {
        let credential = |context: Value, rest: Value| {
            let mut document = json!({"type": "VerifiableCredential", "id": "urn:x:1"});
            document["@context"] = context;
            for (name, value) in rest.as_object().expect("members") {
                document[name] = value.clone();
            }
            canonical(&document)
        };
        let v2 = json!("https://www.w3.org/ns/credentials/v2");
        assert!(credential(v2.clone(), json!({"issuer": "did:web:a"})).is_ok());
        assert!(credential(json!([v2, {"@vocab": "https://a/"}]), json!({"anything": {"goes": 1}})).is_ok());
        for (context, rest, expected) in [
            (v2.clone(), json!({"unheard": 1}), "term/unheard is not defined"),
            (v2.clone(), json!({"type": ["VerifiableCredential", "Unheard"]}), "term/Unheard is not defined"),
            (v2.clone(), json!({"credentialSubject": {"inner": {"of": 1}}}), "term/"),
            (v2.clone(), json!({"issuer": "relative"}), "reference/relative is not defined"),
            (json!("https://context.example"), json!({}), "https://context.example is not one of those known"),
            (json!([v2, null]), json!({}), "null in a @context"),
            (json!([v2, {"@vocab": null}]), json!({"unheard": 1}), "null in a @context"),
            (json!([v2, {"unheard": null}]), json!({"unheard": 1}), "null in a @context"),
            (v2.clone(), json!({"@unheard": 1}), "@unheard is not a keyword"),
            (json!({"@import": "https://context.example"}), json!({}), "context.example"),
        ] {
            let why = credential(context, rest.clone()).expect_err("refused");
            assert!(why.contains(expected), "{rest}: {why}");
        }
    }

    #[test]
    fn a_poisoned_graph_is_refused_at_once() {
        let siblings: Vec<Value> = (0..12).map(|_| json!({"a:p": {"a:q": 1}})).collect();
        let document = json!({"@context": {"a": "https://a/"}, "@id": "urn:x", "a:s": siblings});
        let why = canonical(&document).expect_err("refused");
        assert!(why.contains("look alike"), "{why}");
        let ring = |count: usize| {
            let nodes = (0..count).map(
                |index| json!({"@id": format!("_:b{index}"), "a:next": {"@id": format!("_:b{}", (index + 1) % count)}}),
            );
            json!({"@context": {"a": "https://a/"}, "@graph": nodes.collect::<Vec<_>>()})
        };
        assert!(canonical(&ring(40)).is_err());
        assert!(canonical(&ring(4)).is_ok());
    }
}
