//! Canonical RDF (RDFC-1.0) of JSON-LD documents.
//!
//! The algorithms leave a member out of the canonical form when no context defines it: such a member would not be signed. This
//! module refuses the document instead.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
};

use affinidi_rdf_encoding::{Dataset, GraphLabel, Object, Quad, Subject, nquads, rdfc1};
use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};
use serde_json::{Value, json};

use crate::did_document::has_type;

/// Contexts that a document may name. No context is fetched.
const KNOWN_CONTEXTS: [(&str, &str); 6] = [
    ("https://www.w3.org/2018/credentials/v1", include_str!("../../contexts/credentials-v1.jsonld")),
    ("https://www.w3.org/ns/credentials/v2", include_str!("../../contexts/credentials-v2.jsonld")),
    // It gives a meaning to every name that the others do not define. Agents of the first generation name it in all that they sign.
    ("https://www.w3.org/ns/credentials/examples/v2", include_str!("../../contexts/credentials-examples-v2.jsonld")),
    ("https://w3id.org/security/data-integrity/v1", include_str!("../../contexts/data-integrity-v1.jsonld")),
    ("https://w3id.org/security/data-integrity/v2", include_str!("../../contexts/data-integrity-v2.jsonld")),
    ("https://w3id.org/security/suites/ed25519-2020/v1", include_str!("../../contexts/ed25519-2020-v1.jsonld")),
];

/// Prefix of undefined terms and relative references in the RDF, so that they can be found and refused.
const UNDEFINED_PREFIX: &str = "undefined:";

/// Blank nodes with the same quads. The canonical order of many of them takes too long.
const MAX_ALIKE_BLANK_NODES: usize = 4;
/// Contexts that one object may have.
const MAX_CONTEXTS: usize = 8;

/// The canonical N-Quads of a document.
///
/// A signature over the quads is a signature over the document only if each value of the document is a quad, because the
/// algorithms silently leave out values that they cannot express. Fails therefore unless the document has as many quads as
/// values. Fails also for names and contexts that could turn one value into several quads, or give two names the same meaning.
pub fn canonical_rdf(document: &Value) -> Result<String, String> {
    // Some documents make the libraries panic.
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let (root, subject) = (document["id"].as_str(), &document["credentialSubject"]);
        let subject = subject["id"].as_str().filter(|_| subject.as_object().is_some_and(|members| members.len() > 1));
        let mut contents = DocumentValues { document_id: root, subject_id: subject, ..DocumentValues::default() };
        // A credential of a presentation is a document with its own ids and proofs.
        let mut envelope = document.clone();
        let is_presentation =
            has_type(document, "VerifiablePresentation") && !has_type(document, "VerifiableCredential");
        let credentials = envelope
            .as_object_mut()
            .filter(|_| is_presentation)
            .and_then(|members| members.shift_remove(CREDENTIALS_MEMBER));
        contents.count_object(&envelope)?;
        for credential in
            credentials.iter().flat_map(|list| list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice))
        {
            let mut inner = DocumentValues::default();
            inner.count_object(credential)?;
            contents.value_count += 1 + inner.value_count;
            contents.schema_count += inner.schema_count;
            contents.schema_value_count += inner.schema_value_count;
        }
        let dataset = parse_dataset(document)?;
        contents.refuse_ambiguous_trees(&dataset)?;
        let is_json =
            |quad: &&Quad| matches!(&quad.object, Object::Literal(literal) if literal.datatype.iri == JSON_DATATYPE);
        let (quads, json) = (dataset.quads().len(), dataset.quads().iter().filter(is_json).count());
        // The contexts decide whether a JSON Schema is one JSON literal or a quad for each of its values.
        let values = if json == 0 { contents.value_count + contents.schema_value_count } else { contents.value_count };
        if quads != values || (json != 0 && json != contents.schema_count) {
            return Err(format!(
                "of its {values} values {quads} would be signed: some have no RDF form, or occur twice"
            ));
        }
        refuse_poison_graph(&dataset)?;
        rdfc1::canonicalize(&dataset).map_err(|error| error.to_string())
    }));
    outcome.unwrap_or_else(|_| Err("it cannot be read as linked data".to_owned()))
}

const CREDENTIALS_MEMBER: &str = "verifiableCredential";
const JSON_DATATYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON";

/// Number of values in a document.
#[derive(Default)]
struct DocumentValues<'a> {
    /// Values that must be one quad each.
    value_count: usize,
    /// JSON Schemas among these values.
    schema_count: usize,
    /// Values inside of these JSON Schemas.
    schema_value_count: usize,
    /// Ids of objects with members. Two objects with the same id could swap members without a change of the quads.
    ids: BTreeSet<&'a str>,
    /// Id of the document.
    document_id: Option<&'a str>,
    /// Id of its subject.
    subject_id: Option<&'a str>,
}

impl<'a> DocumentValues<'a> {
    fn count_object(&mut self, value: &'a Value) -> Result<(), String> {
        let Value::Object(members) = value else { return Err("it is no object".to_owned()) };
        if let Some(id) = members.get("id") {
            let id = id.as_str().filter(|id| id.contains(':') && !id.starts_with('_'));
            let id = id.ok_or("an id is no absolute IRI")?;
            if members.len() > 1 && !self.ids.insert(id) {
                return Err(format!("two objects have members for the id {id}"));
            }
        }
        for (name, inner) in members {
            match name.as_str() {
                "@context" => check_contexts(inner)?,
                "id" => {}
                "type" if !is_plain_type(inner) => return Err(format!("the type {inner} is not a plain name")),
                _ if !is_plain_name(name) => {
                    return Err(format!("{name:?} is not a name of letters, digits, _, -, . and $"));
                }
                "jsonSchema" if inner.is_object() && has_type(value, "JsonSchema") => {
                    let before = self.value_count + 1;
                    self.count_object(inner)?;
                    self.schema_count += 1;
                    self.schema_value_count += self.value_count + 1 - before;
                    self.value_count = before;
                }
                _ => self.count_member(inner)?,
            }
        }
        Ok(())
    }

    /// Refuses a document whose quads could be written as another tree: its own node is the object of a quad, or an object
    /// with members is referenced more than once. The subject may be, because its members are read at its own position only.
    fn refuse_ambiguous_trees(&self, dataset: &Dataset) -> Result<(), String> {
        let mut references: BTreeMap<&str, usize> = BTreeMap::new();
        for quad in dataset.quads() {
            if let Object::Named(node) = &quad.object {
                *references.entry(node.iri.as_str()).or_default() += 1;
            }
        }
        let count = |id: &str| references.get(id).copied().unwrap_or(0);
        if let Some(root) = self.document_id.filter(|root| count(root) > 0) {
            return Err(format!("{root}, the id of the document, is referenced inside of it"));
        }
        let is_twice = |id: &&&str| Some(**id) != self.subject_id && count(id) > 1;
        match self.ids.iter().find(is_twice) {
            Some(id) => Err(format!("the members of {id} could stand at several places")),
            None => Ok(()),
        }
    }

    fn count_member(&mut self, value: &'a Value) -> Result<(), String> {
        match value {
            Value::Null => return Err("a member is null".to_owned()),
            Value::Array(items) if items.iter().any(Value::is_array) => return Err("a list is in a list".to_owned()),
            Value::Array(items) => return items.iter().try_for_each(|item| self.count_member(item)),
            Value::Object(_) => self.count_object(value)?,
            _ => {}
        }
        self.value_count += 1;
        Ok(())
    }
}

/// Whether the name of a member is plain: no keyword and no IRI, and usable as the last part of an IRI behind a vocabulary.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$'))
}

/// Whether types are plain names. The checks of types would not recognise an IRI.
fn is_plain_type(types: &Value) -> bool {
    let is_plain = |one: &Value| one.as_str().is_some_and(is_plain_name);
    types.as_array().map_or_else(|| is_plain(types), |several| several.iter().all(is_plain))
}

/// Checks that the contexts are URLs, and vocabularies for the terms that no context defines. The first one is a URL: every
/// known context defines `id` and `type`.
fn check_contexts(contexts: &Value) -> Result<(), String> {
    let contexts = contexts.as_array().map_or_else(|| std::slice::from_ref(contexts), Vec::as_slice);
    if contexts.len() > MAX_CONTEXTS {
        return Err(format!("it has more than {MAX_CONTEXTS} contexts"));
    }
    if !contexts.first().is_some_and(Value::is_string) {
        return Err(format!(
            "the first context, {}, is neither a URL nor known here",
            contexts.first().unwrap_or(&Value::Null)
        ));
    }
    contexts.iter().try_for_each(|context| match context {
        // The loader refuses an unknown URL and names it.
        Value::String(_) => Ok(()),
        Value::Object(members) if members.len() == 1 && members.get("@vocab").is_some_and(is_vocabulary) => Ok(()),
        other => Err(format!(
            "the context {other} is neither a URL nor a vocabulary of its own: {{\"@vocab\": \"https://…#\"}}"
        )),
    })
}

/// Whether an IRI is usable as a vocabulary. One in which a known context defines a term is not: two names would have the same
/// meaning.
fn is_vocabulary(vocabulary: &Value) -> bool {
    let Some(text) = vocabulary.as_str() else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#=&%".contains(&byte);
    let is_iri = text.starts_with("https://") || text.starts_with("http://");
    let defines = |(_, context): &(&str, &str)| {
        let inside = context.match_indices(text).map(|(at, _)| &context[at + text.len()..]);
        inside.into_iter().any(|rest| rest.split('"').next().is_some_and(is_plain_name))
    };
    is_iri && text.ends_with(['#', '/']) && text.bytes().all(is_plain) && !KNOWN_CONTEXTS.iter().any(defines)
}

/// The quads of a document. Fails when a term or a reference is not defined, or the document does not parse.
fn parse_dataset(document: &Value) -> Result<Dataset, String> {
    let mut document = document.clone();
    let own = match document["@context"].take() {
        Value::Array(several) => several,
        one => vec![one],
    };
    let marker = json!({"@vocab": format!("{UNDEFINED_PREFIX}term/")});
    document["@context"] = std::iter::once(marker).chain(own).collect();
    let text = document.to_string();
    let parser = JsonLdParser::new().with_base_iri(format!("{UNDEFINED_PREFIX}reference/"));
    let parser = parser.map_err(|error| error.to_string())?.for_slice(&text);
    let parser = parser.with_load_document_callback(|name, _| {
        let known = KNOWN_CONTEXTS.iter().find(|(known, _)| *known == name);
        let (_, text) = known.ok_or_else(|| format!("the context {name} is not one of those known here"))?;
        Ok(JsonLdRemoteDocument { document: text.as_bytes().to_vec(), document_url: name.to_owned() })
    });
    let mut lines = BTreeSet::new();
    for quad in parser {
        let quad = quad.map_err(|error| error.to_string())?.to_string();
        if let Some((_, rest)) = quad.split_once(&format!("<{UNDEFINED_PREFIX}")) {
            let name = rest.split('>').next().unwrap_or_default();
            return Err(format!("{name} is not defined by any @context"));
        }
        lines.insert(quad + " .\n");
    }
    let lines: String = lines.into_iter().collect();
    nquads::parser::parse(&lines).map_err(|error| error.to_string())
}

/// Refuses a graph with many blank nodes that have the same quads.
fn refuse_poison_graph(dataset: &Dataset) -> Result<(), String> {
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
    if alike > MAX_ALIKE_BLANK_NODES {
        return Err(format!("{alike} blank nodes look alike; at most {MAX_ALIKE_BLANK_NODES} may"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
