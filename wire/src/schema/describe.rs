//! JSON Schema 2020-12 of a message's input, from its descriptor.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::json::sole_value;

/// JSON Schema of the JSON that encodes to `message`, without the top-level fields in `hidden`.
///
/// Unknown members are refused. 64-bit integers are accepted as numbers or decimal text. Comments of the `.proto` source
/// become descriptions where the descriptors carry them.
pub fn input_schema(message: &MessageDescriptor, hidden: &[&str]) -> Value {
    let mut definitions = Map::new();
    let mut schema = object(message, hidden, &mut definitions);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Value::Object(schema)
}

fn object(message: &MessageDescriptor, hidden: &[&str], definitions: &mut Map<String, Value>) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in message.fields().filter(|field| !hidden.contains(&field.name())) {
        let mut schema = if field.is_list() {
            json!({"type": "array", "items": single(&field.kind(), definitions)})
        } else {
            single(&field.kind(), definitions)
        };
        if let (Some(comment), Some(members)) = (comment(&field), schema.as_object_mut()) {
            members.insert("description".to_owned(), Value::from(comment));
        }
        properties.insert(field.name().to_owned(), schema);
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn single(kind: &Kind, definitions: &mut Map<String, Value>) -> Value {
    match kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Kind::Float | Kind::Double => json!({"type": "number"}),
        Kind::Uint32 | Kind::Fixed32 => {
            json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
        }
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX})
        }
        Kind::Uint64 | Kind::Fixed64 => {
            json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]{1,20}$"})
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({"type": ["integer", "string"], "pattern": "^-?[0-9]{1,19}$"})
        }
        Kind::Enum(kind) => json!({"type": "string", "enum": enum_names(kind)}),
        Kind::Message(message) => nested(message, definitions),
    }
}

/// Every value but the unspecified one, by full name and, where the values share a prefix, by short name too.
fn enum_names(kind: &EnumDescriptor) -> Vec<String> {
    let names: Vec<String> =
        kind.values().filter(|value| value.number() != 0).map(|value| value.name().to_owned()).collect();
    let prefix = kind
        .values()
        .find(|value| value.number() == 0)
        .and_then(|zero| zero.name().strip_suffix("UNSPECIFIED").map(str::to_owned))
        .unwrap_or_default();
    let short =
        names.iter().filter_map(|name| name.strip_prefix(&prefix)).filter(|_| !prefix.is_empty()).map(str::to_owned);
    names.iter().cloned().chain(short).collect()
}

fn nested(message: &MessageDescriptor, definitions: &mut Map<String, Value>) -> Value {
    match message.full_name() {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => {
            json!({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"})
        }
        "google.protobuf.Any" => {
            json!({"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]})
        }
        _ if let Some(inner) = sole_value(message) => {
            // The chain wraps a number to tell absence from zero; a caller may write the bare number.
            let mut bare = single(&inner.kind(), definitions);
            let wrapped = json!({"value": bare.clone()});
            let mut types = vec![json!("object")];
            match bare["type"].take() {
                Value::Array(several) => types.extend(several),
                one => types.push(one),
            }
            bare["type"] = types.into();
            bare["properties"] = wrapped;
            bare["required"] = json!(["value"]);
            bare["additionalProperties"] = false.into();
            bare
        }
        name => {
            if !definitions.contains_key(name) {
                // Reserved before the descent, so that a recursive message ends.
                definitions.insert(name.to_owned(), Value::Null);
                let schema = object(message, &[], definitions);
                definitions.insert(name.to_owned(), Value::Object(schema));
            }
            json!({"$ref": format!("#/$defs/{name}")})
        }
    }
}

fn comment(field: &FieldDescriptor) -> Option<String> {
    let file = field.parent_file();
    let info = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = info.location.iter().find(|location| location.path == field.path())?;
    let text = location.leading_comments.as_deref()?.trim();
    (!text.is_empty()).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
}
