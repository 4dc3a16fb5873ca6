//! JSON Schemas of the answers.

use serde_json::{Map, Value, json};

use super::{Field, Shape, Wrapping};

impl Shape {
    /// JSON Schema of the answer. In words: each field tells its type as the table does, and what is always there is required;
    /// without them it is as short as it can be, for readers who pay for each token.
    pub fn schema(&self, in_words: bool) -> Value {
        let entity = entity(&self.fields, in_words);
        let Some(wrapper) = &self.wrapper else {
            return if self.kind == Wrapping::Raw { json!({"type": "object"}) } else { entity };
        };
        let wrapped = match self.kind {
            Wrapping::Array => json!({"type": "array", "items": entity}),
            Wrapping::Object | Wrapping::Flat | Wrapping::Raw => entity,
        };
        let mut properties = Map::from_iter([(wrapper.clone(), wrapped)]);
        for field in &self.top {
            properties.insert(field.name.clone(), schema(field, in_words));
        }
        json!({"type": "object", "required": [wrapper], "properties": properties})
    }
}

/// Fields with dots lead into objects, which the table does not describe further.
fn entity(fields: &[Field], in_words: bool) -> Value {
    // A list of plain values has one nameless field.
    if let [only] = fields
        && only.name.starts_with('<')
    {
        return schema(only, in_words);
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields.iter().filter(|field| !field.name.starts_with('<')) {
        let (head, is_inner) = match field.name.split_once('.') {
            Some((head, _)) => (head, true),
            None => (field.name.as_str(), false),
        };
        let (name, is_list) = match head.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (head, false),
        };
        let value = match (is_list, is_inner) {
            (true, _) => json!({"type": "array"}),
            (false, true) => json!({"type": "object"}),
            (false, false) => schema(field, in_words),
        };
        if !field.optional && !is_inner && !required.contains(&name) {
            required.push(name);
        }
        properties.entry(name.to_owned()).or_insert(value);
    }
    let mut entity = json!({"type": "object", "properties": properties});
    if in_words {
        entity["required"] = required.into();
    }
    entity
}

fn schema(field: &Field, in_words: bool) -> Value {
    let kind = field.kind.as_str();
    let base = if kind.starts_with("boolean") {
        Some("boolean")
    } else if kind.starts_with("uint64") || kind.starts_with("integer") {
        Some("integer")
    } else if kind.contains("number") || kind.starts_with("ratio") {
        None
    } else if kind.starts_with("object") || kind.starts_with('{') {
        Some("object")
    } else if kind.starts_with("array") {
        Some("array")
    } else {
        Some("string")
    };
    let mut schema = match (base, field.nullable) {
        (None, _) => json!({}),
        (Some(base), true) => json!({"type": [base, "null"]}),
        (Some(base), false) => json!({"type": base}),
    };
    if in_words {
        schema["description"] = kind.into();
    }
    schema
}
