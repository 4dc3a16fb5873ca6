//! Requests from the parameters of a URL, as the gateway of the Cosmos SDK reads them: `pagination.limit=5`, lists by repetition, enums by
//! name or number, bytes in either base64.

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE},
};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use super::registry::{ProtoRegistry, ProtoRegistryError};

impl ProtoRegistry {
    /// Encodes a message from the parameters of a URL. Those that it does not have are ignored, as the gateway does.
    ///
    /// # Errors
    /// For a value that does not fit its field, with its name.
    pub fn encode_query(&self, name: &str, parameters: &[(String, String)]) -> Result<Vec<u8>, ProtoRegistryError> {
        let descriptor = self.message_descriptor(name)?;
        let mut request = Map::new();
        for (parameter, text) in parameters {
            put(&mut request, &descriptor, parameter, text).map_err(|expected| ProtoRegistryError::Json {
                type_name: name.to_owned(),
                reason: format!("type mismatch, parameter: {parameter}, expected {expected}"),
            })?;
        }
        self.encode(name, &Value::Object(request))
    }
}

fn put(
    members: &mut Map<String, Value>,
    descriptor: &MessageDescriptor,
    parameter: &str,
    text: &str,
) -> Result<(), &'static str> {
    let (first, rest) = parameter.split_once('.').unwrap_or((parameter, ""));
    let found = descriptor.get_field_by_name(first).or_else(|| descriptor.get_field_by_json_name(first));
    let Some(field) = found else { return Ok(()) };
    match (field.kind(), rest) {
        (Kind::Message(inner), rest) if !rest.is_empty() && !field.is_list() => {
            let entry = members.entry(field.name().to_owned()).or_insert_with(|| Value::Object(Map::new()));
            entry.as_object_mut().map_or(Ok(()), |inner_members| put(inner_members, &inner, rest, text))
        }
        (_, "") => {
            let value = parse(&field, text)?;
            if field.is_list() {
                let list = members.entry(field.name().to_owned()).or_insert_with(|| Value::Array(Vec::new()));
                if let Some(list) = list.as_array_mut() {
                    list.push(value);
                }
            } else {
                members.insert(field.name().to_owned(), value);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn parse(field: &FieldDescriptor, text: &str) -> Result<Value, &'static str> {
    match field.kind() {
        Kind::Bool => match text {
            "true" | "1" => Ok(true.into()),
            "false" | "0" => Ok(false.into()),
            _ => Err("true or false"),
        },
        Kind::Enum(_) => Ok(text.parse::<i32>().map_or_else(|_| text.into(), Value::from)),
        Kind::Bytes => {
            let bytes = BASE64_STANDARD.decode(text).or_else(|_| BASE64_URL_SAFE.decode(text));
            bytes.map(|bytes| BASE64_STANDARD.encode(bytes).into()).map_err(|_| "base64")
        }
        Kind::Int32 | Kind::Int64 | Kind::Sint32 | Kind::Sint64 | Kind::Sfixed32 | Kind::Sfixed64 => {
            text.parse::<i64>().map(Value::from).map_err(|_| "a number")
        }
        Kind::Uint32 | Kind::Uint64 | Kind::Fixed32 | Kind::Fixed64 => {
            text.parse::<u64>().map(Value::from).map_err(|_| "a number of 0 or more")
        }
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::proto_registry::Namespace;

    #[test]
    fn parameters_become_the_fields_of_the_request() {
        let registry = ProtoRegistry::compiled(&Namespace::compiled()).expect("descriptors");
        let read = |name: &str, parameters: &[(&str, &str)]| {
            let owned: Vec<_> =
                parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            registry.encode_query(name, &owned).and_then(|bytes| registry.decode(name, &bytes))
        };
        let name = "cosmos.bank.v1beta1.QueryAllBalancesRequest";
        let given = [
            ("address", "a"),
            ("pagination.limit", "5"),
            ("pagination.count_total", "true"),
            ("pagination.key", "_-8="),
            ("nothing", "x"),
            ("pagination.nothing", "x"),
        ];
        let expected = json!({"key": "/+8=", "offset": "0", "limit": "5", "count_total": true, "reverse": false});
        let found = read(name, &given).expect("encodes");
        assert_eq!((&found["address"], &found["pagination"]), (&json!("a"), &expected));
        for (name, parameter, value) in [
            (name, "pagination.limit", "-1"),
            (name, "pagination.limit", "x"),
            (name, "pagination.reverse", "maybe"),
            (name, "pagination.key", "%"),
        ] {
            let error = read(name, &[(parameter, value)]).expect_err(value).to_string();
            assert!(error.contains(parameter), "{error}");
        }
        let events = [("events", "a=1"), ("events", "b=2"), ("order_by", "ORDER_BY_DESC"), ("page", "2")];
        let found = read("cosmos.tx.v1beta1.GetTxsEventRequest", &events).expect("encodes");
        assert_eq!((&found["events"], &found["order_by"]), (&json!(["a=1", "b=2"]), &json!("ORDER_BY_DESC")));
        let found = read("svc.pp.v1.QueryListParticipantsRequest", &[("role", "2")]).expect("encodes");
        assert!(found["role"].is_string(), "{found}");
    }
}
