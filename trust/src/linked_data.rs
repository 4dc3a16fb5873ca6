//! JSON-LD documents as canonical RDF (RDFC-1.0). Strict where the algorithms are lenient: what a context does not define would
//! be left out of the canonical form, and so be signed by nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
};

use affinidi_rdf_encoding::{Dataset, GraphLabel, Object, Quad, Subject, nquads, rdfc1};
use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};
use serde_json::{Value, json};

use crate::document::is_of_type;

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

/// Nodes without a name that look alike: the canonical order of more of them takes long.
const MOST_ALIKE: usize = 4;
/// Contexts of one object.
const MOST_CONTEXTS: usize = 8;

/// The canonical N-Quads of a document, or why there are none.
///
/// A signature over them is one over the document only if each value of the document is a quad: the algorithms leave out, without a
/// word, what they cannot express. So a document is taken only if it has as many quads as values; names and contexts by which a value
/// could become more than one quad, or a name mean what another name means, are refused.
pub fn canonical(document: &Value) -> Result<String, String> {
    // The libraries were not written for documents of strangers.
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let (root, subject) = (document["id"].as_str(), &document["credentialSubject"]);
        let subject = subject["id"].as_str().filter(|_| subject.as_object().is_some_and(|says| says.len() > 1));
        let mut contents = Contents { root, subject, ..Contents::default() };
        // Each credential of a presentation is a document of its own, and has proofs of its own.
        let mut outside = document.clone();
        let is_presentation =
            is_of_type(document, "VerifiablePresentation") && !is_of_type(document, "VerifiableCredential");
        let credentials = outside.as_object_mut().filter(|_| is_presentation).and_then(|members| members.remove(HELD));
        contents.take(&outside)?;
        for credential in
            credentials.iter().flat_map(|held| held.as_array().map_or(std::slice::from_ref(held), Vec::as_slice))
        {
            let mut own = Contents::default();
            own.take(credential)?;
            contents.values += 1 + own.values;
            contents.schemas += own.schemas;
            contents.inside += own.inside;
        }
        let dataset = dataset(document)?;
        contents.refuse_other_trees(&dataset)?;
        let is_json = |quad: &&Quad| matches!(&quad.object, Object::Literal(literal) if literal.datatype.iri == JSON);
        let (quads, json) = (dataset.quads().len(), dataset.quads().iter().filter(is_json).count());
        // Whether a JSON Schema is JSON as it is, or says what its members say, is up to the contexts.
        let values = if json == 0 { contents.values + contents.inside } else { contents.values };
        if quads != values || (json != 0 && json != contents.schemas) {
            return Err(format!(
                "of its {values} values {quads} would be signed: some cannot be told, or stand there twice"
            ));
        }
        refuse_poison(&dataset)?;
        rdfc1::canonicalize(&dataset).map_err(|error| error.to_string())
    }));
    outcome.unwrap_or_else(|_| Err("it cannot be read as linked data".to_owned()))
}

const HELD: &str = "verifiableCredential";
const JSON: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON";

/// What a document says, counted.
#[derive(Default)]
struct Contents<'a> {
    /// Values that are to be a quad each.
    values: usize,
    /// Those of them that are JSON Schemas, and the values inside of these.
    schemas: usize,
    inside: usize,
    /// Ids of objects that say anything: of two with the same id each could say what the other does.
    ids: BTreeSet<&'a str>,
    /// The document's own id, and its subject's.
    root: Option<&'a str>,
    subject: Option<&'a str>,
}

impl<'a> Contents<'a> {
    fn take(&mut self, value: &'a Value) -> Result<(), String> {
        let Value::Object(members) = value else { return Err("it is no object".to_owned()) };
        if let Some(id) = members.get("id") {
            let id = id.as_str().filter(|id| id.contains(':') && !id.starts_with('_'));
            let id = id.ok_or("an id is no absolute IRI")?;
            if members.len() > 1 && !self.ids.insert(id) {
                return Err(format!("two objects say something of {id}"));
            }
        }
        for (name, inner) in members {
            match name.as_str() {
                "@context" => check_contexts(inner)?,
                "id" => {}
                "type" if !is_type(inner) => return Err(format!("the type {inner} is not a plain name")),
                _ if !is_name(name) => return Err(format!("{name:?} is not a name that is taken here")),
                "jsonSchema" if inner.is_object() && is_of_type(value, "JsonSchema") => {
                    let outside = self.values + 1;
                    self.take(inner)?;
                    self.schemas += 1;
                    self.inside += self.values + 1 - outside;
                    self.values = outside;
                }
                _ => self.member(inner)?,
            }
        }
        Ok(())
    }

    /// The statements could be written as another tree, if the document's own node were said of something, or what one says could be said
    /// at several places. Of the subject it is read where it stands, in the place of the subject.
    fn refuse_other_trees(&self, dataset: &Dataset) -> Result<(), String> {
        let mut said: BTreeMap<&str, usize> = BTreeMap::new();
        for quad in dataset.quads() {
            if let Object::Named(node) = &quad.object {
                *said.entry(node.iri.as_str()).or_default() += 1;
            }
        }
        let of = |id: &str| said.get(id).copied().unwrap_or(0);
        if let Some(root) = self.root.filter(|root| of(root) > 0) {
            return Err(format!("{root}, the document itself, is said of something in it"));
        }
        let is_twice = |id: &&&str| Some(**id) != self.subject && of(id) > 1;
        match self.ids.iter().find(is_twice) {
            Some(id) => Err(format!("what is said of {id} could stand at several places")),
            None => Ok(()),
        }
    }

    fn member(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Null => return Err("null says nothing".to_owned()),
            Value::Array(items) if items.iter().any(Value::is_array) => return Err("a list is in a list".to_owned()),
            Value::Array(items) => return items.iter().try_for_each(|item| self.member(item)),
            Value::Object(_) => self.take(value)?,
            _ => {}
        }
        self.values += 1;
        Ok(())
    }
}

/// Whether a member's name is a plain one: no keyword, no IRI, and part of one behind a vocabulary.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$'))
}

/// Whether types are plain names: by an IRI one is not recognised for what it is.
fn is_type(types: &Value) -> bool {
    let is_plain = |one: &Value| one.as_str().is_some_and(is_name);
    types.as_array().map_or_else(|| is_plain(types), |several| several.iter().all(is_plain))
}

/// Contexts are those known here, and vocabularies for what they do not define. All known ones say what `id` and `type` are, so that the
/// first is one of them.
fn check_contexts(contexts: &Value) -> Result<(), String> {
    let contexts = contexts.as_array().map_or_else(|| std::slice::from_ref(contexts), Vec::as_slice);
    if contexts.len() > MOST_CONTEXTS {
        return Err(format!("it has more than {MOST_CONTEXTS} contexts"));
    }
    if !contexts.first().is_some_and(Value::is_string) {
        return Err(format!(
            "the first context, {}, is neither a URL nor known here",
            contexts.first().unwrap_or(&Value::Null)
        ));
    }
    contexts.iter().try_for_each(|context| match context {
        // What is not known is refused by that name when it is loaded.
        Value::String(_) => Ok(()),
        Value::Object(members) if members.len() == 1 && members.get("@vocab").is_some_and(is_vocabulary) => Ok(()),
        other => Err(format!(
            "the context {other} is neither a URL nor a vocabulary of its own: {{\"@vocab\": \"https://…#\"}}"
        )),
    })
}

/// Whether an IRI can be that of a vocabulary in which no known context defines anything: by another name it would say the same.
fn is_vocabulary(vocabulary: &Value) -> bool {
    let Some(text) = vocabulary.as_str() else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#=&%".contains(&byte);
    let is_iri = text.starts_with("https://") || text.starts_with("http://");
    let defines = |(_, context): &(&str, &str)| {
        let inside = context.match_indices(text).map(|(at, _)| &context[at + text.len()..]);
        inside.into_iter().any(|rest| rest.split('"').next().is_some_and(is_name))
    };
    is_iri && text.ends_with(['#', '/']) && text.bytes().all(is_plain) && !CONTEXTS.iter().any(defines)
}

fn dataset(document: &Value) -> Result<Dataset, String> {
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
    let mut lines = BTreeSet::new();
    for quad in parser {
        let quad = quad.map_err(|error| error.to_string())?.to_string();
        if let Some((_, rest)) = quad.split_once(&format!("<{UNDEFINED}")) {
            let name = rest.split('>').next().unwrap_or_default();
            return Err(format!("{name} is not defined by any @context"));
        }
        lines.insert(quad + " .\n");
    }
    let lines: String = lines.into_iter().collect();
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
            (
                json!([v2, {"@vocab": "https://a/", "@base": "https://b/"}]),
                json!({}),
                "is neither a URL nor a vocabulary",
            ),
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
            (v2.clone(), json!({"validUntil": null}), "null says nothing"),
            (v2.clone(), json!({"issuer": "did:web:a^"}), "would be signed"),
            (v2.clone(), json!({"id": "urn:x:^"}), "would be signed"),
            (v2.clone(), json!({"id": "relative"}), "an id is no absolute IRI"),
            (v2.clone(), json!({"id": "_:b0"}), "an id is no absolute IRI"),
            (v2.clone(), json!({"issuer": ["did:web:a", "did:web:a"]}), "would be signed"),
            (
                v2.clone(),
                json!({"issuer": {"id": "urn:x:1", "type": "JsonSchema"}}),
                "two objects say something of urn:x:1",
            ),
            (v2.clone(), json!({"verifiableCredential": {"type": []}}), "is not defined"),
            (v2.clone(), json!({"type": ["VerifiableCredential", "https://a/b"]}), "is not a plain name"),
            (v2.clone(), json!({"issuer": [["did:web:a"]]}), "a list is in a list"),
            (v2.clone(), json!({"credentialSubject": {"id": "urn:x:1"}}), "is said of something in it"),
            (
                v2.clone(),
                json!({"credentialSubject": {"id": "did:web:s"}, "issuer": {"id": "did:web:s", "name": "x"}}),
                "could stand at several places",
            ),
        ] {
            let why = credential(context, rest.clone()).expect_err("refused");
            assert!(why.contains(expected), "{rest}: {why}");
        }
    }

    #[test]
    fn the_credentials_of_a_presentation_are_documents_of_their_own() {
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
        assert!(canonical(&shown(json!("VerifiablePresentation"))).is_ok());
        let both = canonical(&shown(json!(["VerifiablePresentation", "VerifiableCredential"])));
        assert!(both.expect_err("refused").contains("two objects say something"));
    }

    #[test]
    fn a_long_chain_of_terms_and_what_the_libraries_cannot_take_are_errors() {
        let terms: serde_json::Map<String, Value> =
            (0..20_000).map(|index| (format!("t{index}"), format!("t{}:x", index + 1).into())).collect();
        assert!(canonical(&json!({"@context": [terms], "id": "urn:x", "t0": 1})).is_err());
        let v1 = "https://www.w3.org/2018/credentials/v1";
        for inner in [json!({"@set": []}), json!({"@list": []}), json!([[]]), json!({"verifiableCredential": [[]]})] {
            let shown = json!({"@context": v1, "type": "VerifiablePresentation", "verifiableCredential": inner});
            let _ = canonical(&shown);
        }
    }

    #[test]
    fn a_poisoned_graph_is_refused_at_once() {
        let of = |count: usize| {
            let siblings: Vec<Value> = (0..count).map(|_| json!({"q": {"r": 1}})).collect();
            canonical(
                &json!({"@context": ["https://www.w3.org/ns/credentials/v2", {"@vocab": "https://a/"}], "id": "urn:x", "s": siblings}),
            )
        };
        let why = of(12).expect_err("refused");
        assert!(why.contains("look alike"), "{why}");
        assert!(of(2).is_ok());
    }
}
