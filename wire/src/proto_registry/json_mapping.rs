//! JSON of dynamic messages, where it differs from the JSON mapping of protobuf.

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, SerializeOptions,
    Value as Reflected,
};
use serde_json::{Map, Value};

/// Rewrites numbers to the messages that wrap them, and short enum names (`OPEN`) to full names
/// (`ISSUER_ONBOARDING_MODE_OPEN`).
pub(super) fn normalise_json(value: &Value, descriptor: &MessageDescriptor) -> Value {
    let Value::Object(members) = value else {
        return value.clone();
    };
    let mut normal = Map::new();
    for (name, member) in members {
        let field = descriptor.get_field_by_name(name).or_else(|| descriptor.get_field_by_json_name(name));
        let fixed = match field.map(|field| field.kind()) {
            Some(Kind::Message(inner)) if wrapped_number_field(&inner).is_some() => {
                map_items(member, &|item| match item {
                    Value::Number(_) | Value::String(_) => {
                        Value::Object(Map::from_iter([("value".to_owned(), item.clone())]))
                    }
                    _ => normalise_json(item, &inner),
                })
            }
            Some(Kind::Message(inner)) if !is_well_known(&inner) => {
                map_items(member, &|item| normalise_json(item, &inner))
            }
            Some(Kind::Enum(kind)) => map_items(member, &|item| match item.as_str() {
                Some(short) if kind.get_value_by_name(short).is_none() => {
                    let suffix = format!("_{short}");
                    kind.values()
                        .find(|candidate| candidate.name().ends_with(&suffix))
                        .map_or_else(|| item.clone(), |full| Value::from(full.name()))
                }
                _ => item.clone(),
            }),
            _ => member.clone(),
        };
        normal.insert(name.clone(), fixed);
    }
    Value::Object(normal)
}

/// The field of a message that only wraps a number, such as `OptionalUInt32`.
pub(super) fn wrapped_number_field(descriptor: &MessageDescriptor) -> Option<FieldDescriptor> {
    let mut fields = descriptor.fields();
    let (only, None) = (fields.next()?, fields.next()) else { return None };
    let is_number = matches!(only.kind(), Kind::Uint32 | Kind::Uint64 | Kind::Int32 | Kind::Int64);
    (only.name() == "value" && is_number && !only.is_list() && !is_well_known(descriptor)).then_some(only)
}

fn map_items(value: &Value, change: &dyn Fn(&Value) -> Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(change).collect()),
        single => change(single),
    }
}

pub(super) fn is_well_known(descriptor: &MessageDescriptor) -> bool {
    descriptor.full_name().starts_with("google.protobuf.")
}

/// The JSON of a message as the Cosmos REST gateway prints it.
pub(super) fn print_message(message: &DynamicMessage, pool: &DescriptorPool) -> Result<Value, String> {
    let descriptor = message.descriptor();
    if descriptor.full_name() == "google.protobuf.Any" {
        return print_any(message, pool);
    }
    if is_well_known(&descriptor) {
        return print_standard(message);
    }
    let mut object = Map::new();
    for field in descriptor.fields() {
        if field.containing_oneof().is_some() && !message.has_field(&field) {
            continue;
        }
        let value = match message.get_field(&field).as_ref() {
            Reflected::Message(_) if !message.has_field(&field) => Value::Null,
            // gogoproto prints empty bytes as null, for example the key after the last page.
            Reflected::Bytes(bytes) if bytes.is_empty() => Value::Null,
            Reflected::Message(inner) => print_message(inner, pool)?,
            Reflected::List(items) if matches!(field.kind(), Kind::Message(_)) => Value::Array(
                items
                    .iter()
                    .filter_map(Reflected::as_message)
                    .map(|inner| print_message(inner, pool))
                    .collect::<Result<_, _>>()?,
            ),
            _ => {
                // The library prints scalars only inside of a message: one that holds this field alone.
                let mut only = DynamicMessage::new(descriptor.clone());
                only.set_field(&field, message.get_field(&field).into_owned());
                print_standard(&only)?.get(field.name()).cloned().unwrap_or(Value::Null)
            }
        };
        object.insert(field.name().to_owned(), value);
    }
    Ok(Value::Object(object))
}

fn print_standard(message: &DynamicMessage) -> Result<Value, String> {
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(false);
    message.serialize_with_options(serde_json::value::Serializer, &options).map_err(|error| error.to_string())
}

fn print_any(message: &DynamicMessage, pool: &DescriptorPool) -> Result<Value, String> {
    let any = message.transcode_to::<prost_types::Any>().map_err(|error| error.to_string())?;
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let known =
        pool.get_message_by_name(name).and_then(|inner| DynamicMessage::decode(inner, any.value.as_slice()).ok());
    let body = known.map(|inner| print_message(&inner, pool)).transpose()?;
    let mut object = Map::new();
    object.insert("@type".to_owned(), Value::from(any.type_url.as_str()));
    match body {
        Some(Value::Object(members)) => object.extend(members),
        Some(other) => {
            object.insert("value".to_owned(), other);
        }
        None => {
            use base64::Engine;
            let text = base64::engine::general_purpose::STANDARD.encode(&any.value);
            object.insert("value".to_owned(), Value::from(text));
        }
    }
    Ok(Value::Object(object))
}
