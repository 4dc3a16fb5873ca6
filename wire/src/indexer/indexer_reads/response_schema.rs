//! JSON Schemas of the answers of reads.

use serde_json::{Map, Value, json};

use super::{ResponseField, ResponseLayout, ResponseShape};

impl ResponseShape {
    /// JSON Schema of the answer.
    ///
    /// With `is_verbose`, each field has its type text as the description, and fields that are always present are required.
    /// Without it, the schema is as short as possible, because a model pays for each token.
    pub fn json_schema(&self, is_verbose: bool) -> Value {
        let entity = entity_schema(&self.fields, is_verbose);
        let Some(wrapper) = &self.wrapper else {
            return if self.kind == ResponseLayout::Raw { json!({"type": "object"}) } else { entity };
        };
        let wrapped = match self.kind {
            ResponseLayout::Array => json!({"type": "array", "items": entity}),
            ResponseLayout::Object | ResponseLayout::Flat | ResponseLayout::Raw => entity,
        };
        let mut properties = Map::from_iter([(wrapper.clone(), wrapped)]);
        for field in &self.top {
            properties.insert(field.name.clone(), field_schema(field, is_verbose));
        }
        json!({"type": "object", "required": [wrapper], "properties": properties})
    }
}

/// A field name with a dot leads into an object; the schema of that object is open.
fn entity_schema(fields: &[ResponseField], is_verbose: bool) -> Value {
    // A list of scalars has one field, whose name is in angle brackets.
    if let [only] = fields
        && only.name.starts_with('<')
    {
        return field_schema(only, is_verbose);
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
            (false, false) => field_schema(field, is_verbose),
        };
        if !field.optional && !is_inner && !required.contains(&name) {
            required.push(name);
        }
        properties.entry(name.to_owned()).or_insert(value);
    }
    let mut entity = json!({"type": "object", "properties": properties});
    if is_verbose {
        entity["required"] = required.into();
    }
    entity
}

fn field_schema(field: &ResponseField, is_verbose: bool) -> Value {
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
    let mut schema = match (base, field.nullable) {
        (None, _) => json!({}),
        (Some(base), true) => json!({"type": [base, "null"]}),
        (Some(base), false) => json!({"type": base}),
    };
    if is_verbose {
        schema["description"] = type_text.into();
    }
    schema
}
