//! JSON Schema 2020-12 of the input of a message, from its descriptor.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::json_mapping::wrapped_number_field;

/// JSON Schema of the JSON that encodes to `message`, without the top-level fields in `hidden`.
///
/// The schema refuses unknown members and takes 64-bit integers as numbers or decimal text. Comments of the `.proto` source
/// become descriptions where the descriptors contain them.
pub fn input_schema(message: &MessageDescriptor, hidden: &[&str]) -> Value {
    let mut definitions = Map::new();
    let mut schema = object_schema(message, hidden, &mut definitions);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Value::Object(schema)
}

fn object_schema(
    message: &MessageDescriptor,
    hidden: &[&str],
    definitions: &mut Map<String, Value>,
) -> Map<String, Value> {
    let mut properties = Map::new();
    for field in message.fields().filter(|field| !hidden.contains(&field.name())) {
        let mut schema = if field.is_list() {
            json!({"type": "array", "items": value_schema(&field.kind(), definitions)})
        } else {
            value_schema(&field.kind(), definitions)
        };
        if let (Some(comment), Some(members)) = (field_comment(&field), schema.as_object_mut()) {
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

fn value_schema(kind: &Kind, definitions: &mut Map<String, Value>) -> Value {
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
        Kind::Message(message) => message_schema(message, definitions),
    }
}

/// Names of all values but the unspecified one: full names, then short names where the values share a prefix.
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

fn message_schema(message: &MessageDescriptor, definitions: &mut Map<String, Value>) -> Value {
    match message.full_name() {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => {
            json!({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"})
        }
        "google.protobuf.Any" => {
            json!({"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]})
        }
        _ if let Some(inner) = wrapped_number_field(message) => {
            // The chain wraps a number so that absence and zero differ. A caller may write the number alone.
            let mut bare = value_schema(&inner.kind(), definitions);
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
                // The entry exists before the descent, so that a recursive message ends.
                definitions.insert(name.to_owned(), Value::Null);
                let schema = object_schema(message, &[], definitions);
                definitions.insert(name.to_owned(), Value::Object(schema));
            }
            json!({"$ref": format!("#/$defs/{name}")})
        }
    }
}

fn field_comment(field: &FieldDescriptor) -> Option<String> {
    let file = field.parent_file();
    let info = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = info.location.iter().find(|location| location.path == field.path())?;
    let text = location.leading_comments.as_deref()?.trim();
    (!text.is_empty()).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
}
