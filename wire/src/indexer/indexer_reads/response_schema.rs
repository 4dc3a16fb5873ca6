//! JSON Schemas of the answers of reads. The words of each field are in the file `read_fields.json` of this crate.

use std::{collections::HashMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ReadEndpoint, ResponseField, ResponseLayout};

/// The detail of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDetail {
    /// For a document that people and generators of clients read: types of inner fields, the type in words, required fields.
    Documented,
    /// For a tool: a client drops an answer that breaks the schema, and an indexer may leave a field out, so that no field is
    /// required and only outer fields have a type.
    Listed,
}

/// The words of the fields of answers.
#[derive(Deserialize)]
struct FieldWords {
    /// By the name of the field.
    fields: HashMap<String, String>,
    /// By operation, for names that mean something else there.
    overrides: HashMap<String, HashMap<String, String>>,
}

static WORDS: LazyLock<Option<FieldWords>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../read_fields.json")).ok());

/// The meaning of a field of an answer, in words; `None` for a field without an entry.
pub fn field_words(operation: &str, field: &str) -> Option<&'static str> {
    let words = WORDS.as_ref()?;
    let special = words.overrides.get(operation).and_then(|fields| fields.get(field));
    special.or_else(|| words.fields.get(field)).map(String::as_str)
}

impl ReadEndpoint {
    /// JSON Schema of the answer.
    pub fn response_schema(&self, detail: SchemaDetail) -> Value {
        let writer = SchemaWriter { operation: &self.operation, detail };
        let entity = writer.entity(&self.response.fields);
        let Some(wrapper) = &self.response.wrapper else {
            return if self.response.kind == ResponseLayout::Raw { json!({"type": "object"}) } else { entity };
        };
        let mut wrapped = match self.response.kind {
            ResponseLayout::Array => json!({"type": "array", "items": entity}),
            ResponseLayout::Object | ResponseLayout::Flat | ResponseLayout::Raw => entity,
        };
        if let Some(words) = field_words(&self.operation, wrapper) {
            wrapped["description"] = words.into();
        }
        let mut properties = Map::from_iter([(wrapper.clone(), wrapped)]);
        for field in &self.response.top {
            properties.insert(field.name.clone(), writer.field(field));
        }
        json!({"type": "object", "required": [wrapper], "properties": properties})
    }
}

struct SchemaWriter<'a> {
    operation: &'a str,
    detail: SchemaDetail,
}

impl SchemaWriter<'_> {
    /// The schema of an object. A name with a dot leads into an object, brackets lead into a list.
    fn entity(&self, fields: &[ResponseField]) -> Value {
        // A list of scalars has one field, whose name is in angle brackets.
        if let [only] = fields
            && only.name.starts_with('<')
        {
            return self.field(only);
        }
        let mut entity = json!({"type": "object", "properties": {}});
        for field in fields.iter().filter(|field| !field.name.starts_with('<')) {
            self.insert(&mut entity, "", &field.name, field);
        }
        entity
    }

    /// Inserts a field at the place that the rest of its name leads to, below `parent`.
    fn insert(&self, entity: &mut Value, parent: &str, rest: &str, field: &ResponseField) {
        let is_documented = self.detail == SchemaDetail::Documented;
        let (head, inner) = rest.split_once('.').map_or((rest, None), |(head, inner)| (head, Some(inner)));
        let (name, is_list) = head.strip_suffix("[]").map_or((head, false), |name| (name, true));
        let path = format!("{parent}{head}");
        if is_documented && !field.optional && inner.is_none() {
            let required = entity.as_object_mut().map(|members| members.entry("required").or_insert_with(|| json!([])));
            if let Some(required) = required.and_then(Value::as_array_mut) {
                required.push(name.into());
            }
        }
        let Some(inner) = inner else {
            let mut schema = if is_list { json!({"type": "array"}) } else { self.typed(field, parent.is_empty()) };
            self.describe(&mut schema, &path, Some(field));
            entity["properties"][name] = schema;
            return;
        };
        let properties = &mut entity["properties"];
        if properties.get(name).is_none() {
            let object = json!({"type": "object", "properties": {}});
            properties[name] = if is_list { json!({"type": "array", "items": object}) } else { object };
            self.describe(&mut properties[name], &path, None);
        }
        let below = if is_list { &mut properties[name]["items"] } else { &mut properties[name] };
        self.insert(below, &format!("{path}."), inner, field);
    }

    fn field(&self, field: &ResponseField) -> Value {
        let mut schema = self.typed(field, true);
        self.describe(&mut schema, &field.name, Some(field));
        schema
    }

    fn typed(&self, field: &ResponseField, is_outer: bool) -> Value {
        let type_text = field.type_text.as_str();
        let base = if type_text.starts_with("boolean") {
            Some("boolean")
        } else if type_text.starts_with("uint64") || type_text.starts_with("integer") {
            Some("integer")
        } else if type_text.contains("number") || type_text.starts_with("ratio") {
            None
        } else if type_text.starts_with("object") || type_text.starts_with('{') {
            Some("object")
        } else if type_text.starts_with("array") {
            Some("array")
        } else {
            Some("string")
        };
        match base.filter(|_| is_outer || self.detail == SchemaDetail::Documented) {
            None => json!({}),
            Some(base) if field.nullable => json!({"type": [base, "null"]}),
            Some(base) => json!({"type": base}),
        }
    }

    fn describe(&self, schema: &mut Value, path: &str, field: Option<&ResponseField>) {
        let words = field_words(self.operation, path).unwrap_or_default();
        let text = match (self.detail, field) {
            (SchemaDetail::Documented, Some(field)) => format!("{words}. Type: {}.", field.type_text),
            _ => words.to_owned(),
        };
        if !text.is_empty() {
            schema["description"] = text.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::read_endpoints, *};

    #[test]
    fn every_field_of_every_answer_has_words() {
        for endpoint in read_endpoints().expect("the table") {
            let fields = endpoint.response.fields.iter().chain(&endpoint.response.top);
            for field in fields.filter(|field| !field.name.starts_with('<')) {
                assert!(
                    field_words(&endpoint.operation, &field.name).is_some_and(|words| words.len() > 8),
                    "{}: {}",
                    endpoint.operation,
                    field.name
                );
            }
        }
        let words = WORDS.as_ref().expect("the file");
        for operation in words.overrides.keys() {
            assert!(super::super::find_endpoint(operation).is_ok(), "there is no read {operation}");
        }
    }

    #[test]
    fn a_name_with_a_path_leads_into_lists_and_objects() {
        let history = super::super::find_endpoint("co.getCorporationHistory").expect("known");
        let listed = history.response_schema(SchemaDetail::Listed);
        let row = &listed["properties"]["activity"]["items"]["properties"];
        assert!(row["msg"]["description"].is_string() && row["msg"].get("type").is_none(), "{row:#}");
        let documented = history.response_schema(SchemaDetail::Documented);
        let row = &documented["properties"]["activity"]["items"];
        assert_eq!(row["properties"]["msg"]["type"], "string");
        assert!(row["required"].as_array().is_some_and(|names| names.contains(&json!("msg"))));
        let entity =
            super::super::find_endpoint("es.getEcosystem").expect("known").response_schema(SchemaDetail::Listed);
        assert_eq!(entity["required"], json!(["ecosystem"]));
        assert!(entity["properties"]["ecosystem"].get("required").is_none());
    }
}
