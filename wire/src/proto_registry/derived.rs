//! The descriptors of other generations of nodes, derived from the compiled-in ones by the known changes. No node has served them to this
//! project: they are for a devnet of that generation, and for tests.

use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use serde_json::json;

use super::{
    generation::NodeGeneration,
    registry::{DescriptorSource, ProtoRegistry, ProtoRegistryError, append_file, encode_changed_set},
};

/// Part of the names of everything about schema authorization policies.
const POLICIES: &str = "SchemaAuthorizationPolic";
/// The parameters of trust deposits of the second generation, in the order of their new numbers.
const TRUST_DEPOSIT_PARAMS: [&str; 6] = [
    "trust_deposit_share_value",
    "trust_deposit_rate",
    "wallet_user_agent_reward_rate",
    "user_agent_reward_rate",
    "trust_deposit_max_yield_rate",
    "trust_deposit_block_reward_share",
];

impl ProtoRegistry {
    /// The descriptors that a node of a generation serves for this network.
    ///
    /// # Errors
    /// When the changed descriptors are no consistent set.
    pub fn of_generation(&self, generation: NodeGeneration) -> Result<Self, ProtoRegistryError> {
        // The compiled-in descriptors are those of the oldest one.
        if generation == NodeGeneration::N0 {
            return Ok(self.clone());
        }
        let namespace = self.namespace();
        let module = |name: &str| format!("{namespace}.{name}.v1");
        let bytes = encode_changed_set(self.pool(), self.pool(), |file| {
            let package = text(file, "package");
            if generation >= NodeGeneration::N1 && package == module("cs") {
                remove_policies(file);
            }
            if generation >= NodeGeneration::N2 {
                change_params(file, &package, &module);
            }
            if generation >= NodeGeneration::N3 && package == module("de") {
                change_delegation(file, &package);
            }
            generation < NodeGeneration::N4 || !package.starts_with("cosmos.gov.")
        })?;
        if generation >= NodeGeneration::N4 {
            return self.append_council(bytes);
        }
        Self::of_set(&bytes)
    }

    /// These descriptors with the module of the council beside them.
    ///
    /// # Errors
    /// When they have the module already.
    pub fn with_council(&self) -> Result<Self, ProtoRegistryError> {
        self.append_council(self.file_descriptors())
    }

    fn append_council(&self, mut set: Vec<u8>) -> Result<Self, ProtoRegistryError> {
        let shape = self.message_descriptor("google.protobuf.FileDescriptorProto")?;
        let file = DynamicMessage::deserialize(shape, council_file(self.namespace().as_str()));
        append_file(&mut set, &file.map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?);
        Self::of_set(&set)
    }

    fn of_set(set: &[u8]) -> Result<Self, ProtoRegistryError> {
        let pool = DescriptorPool::decode(set).map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
        Self::from_pool(pool, DescriptorSource::Compiled)
    }
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn list<'a>(message: &'a mut DynamicMessage, field: &str) -> Option<&'a mut Vec<Value>> {
    message.get_field_by_name_mut(field)?.as_list_mut()
}

/// Removes the members of a list for which the condition is true.
fn remove(message: &mut DynamicMessage, field: &str, is_removed: impl Fn(&DynamicMessage) -> bool) {
    if let Some(members) = list(message, field) {
        members.retain(|member| !member.as_message().is_some_and(&is_removed));
    }
}

/// The member of a list with a name.
fn named<'a>(message: &'a mut DynamicMessage, field: &str, name: &str) -> Option<&'a mut DynamicMessage> {
    let members = list(message, field)?.iter_mut().filter_map(Value::as_message_mut);
    members.into_iter().find(|member| text(member, "name") == name)
}

fn is_of_policies(member: &DynamicMessage) -> bool {
    text(member, "name").contains(POLICIES)
}

fn remove_policies(file: &mut DynamicMessage) {
    remove(file, "message_type", is_of_policies);
    remove(file, "enum_type", is_of_policies);
    for service in list(file, "service").into_iter().flatten().filter_map(Value::as_message_mut) {
        remove(service, "method", is_of_policies);
    }
    if let Some(genesis) = named(file, "message_type", "GenesisState") {
        remove(genesis, "field", |field| text(field, "name").contains("schema_authorization_polic"));
    }
}

/// Renumbers the fields that are named, in this order from 1, and removes all others.
fn keep_fields(message: &mut DynamicMessage, names: &[&str]) {
    remove(message, "field", |field| !names.contains(&text(field, "name").as_str()));
    for field in list(message, "field").into_iter().flatten().filter_map(Value::as_message_mut) {
        let place = names.iter().zip(1..).find(|(name, _)| **name == text(field, "name"));
        if let Some((_, number)) = place {
            field.set_field_by_name("number", Value::I32(number));
        }
    }
    // Numbers that were reserved may be taken now.
    message.clear_field_by_name("reserved_range");
}

fn change_params(file: &mut DynamicMessage, package: &str, module: &impl Fn(&str) -> String) {
    let Some(params) = named(file, "message_type", "Params") else { return };
    if package == module("td") {
        keep_fields(params, &TRUST_DEPOSIT_PARAMS);
    } else if package == module("ec") || package == module("pp") {
        keep_fields(params, &[]);
    } else if package == module("cs") {
        for field in list(params, "field").into_iter().flatten().filter_map(Value::as_message_mut) {
            let number = field.get_field_by_name("number").and_then(|number| number.as_i32()).unwrap_or_default();
            field.set_field_by_name("number", Value::I32(number - 1));
        }
    }
}

/// Appends a descriptor, which is given as JSON, to a list.
fn append(message: &mut DynamicMessage, field: &str, shape: &str, member: serde_json::Value) {
    let pool = message.descriptor().parent_pool().clone();
    let shape = pool.get_message_by_name(&format!("google.protobuf.{shape}"));
    let member = shape.and_then(|shape| DynamicMessage::deserialize(shape, member).ok());
    if let (Some(members), Some(member)) = (list(message, field), member) {
        members.push(Value::Message(member));
    }
}

/// Imports a file of the well-known types, once.
fn import(file: &mut DynamicMessage, name: &str) {
    let name = Value::String(format!("google/protobuf/{name}.proto"));
    if let Some(imports) = list(file, "dependency")
        && !imports.contains(&name)
    {
        imports.push(name);
    }
}

fn change_delegation(file: &mut DynamicMessage, package: &str) {
    if let Some(record) = named(file, "message_type", "ParticipantAuthorizationRecord") {
        remove(record, "field", |field| text(field, "name") == "remaining_fee_spend");
    }
    if let Some(params) = named(file, "message_type", "Params") {
        // The type of the period is that of the record's.
        let field = json!({
            "name": "vs_operator_fee_period", "jsonName": "vsOperatorFeePeriod", "number": 1, "label": "LABEL_OPTIONAL",
            "type": "TYPE_MESSAGE", "typeName": ".google.protobuf.Duration",
        });
        append(params, "field", "FieldDescriptorProto", field);
        import(file, "duration");
    }
    if let Some(genesis) = named(file, "message_type", "GenesisState") {
        // The table of changes names neither the number of the field nor the types of an entry: the next free number, and an instant with the
        // id of a participant.
        let queue = json!({
            "name": "window_end_queue", "jsonName": "windowEndQueue", "number": 8, "label": "LABEL_REPEATED",
            "type": "TYPE_MESSAGE", "typeName": format!(".{package}.WindowEndQueueEntry"),
        });
        append(genesis, "field", "FieldDescriptorProto", queue);
        let entry = json!({"name": "WindowEndQueueEntry", "field": [
            {
                "name": "window_end", "jsonName": "windowEnd", "number": 1, "label": "LABEL_OPTIONAL",
                "type": "TYPE_MESSAGE", "typeName": ".google.protobuf.Timestamp",
            },
            {
                "name": "participant_id", "jsonName": "participantId", "number": 2, "label": "LABEL_OPTIONAL",
                "type": "TYPE_UINT64",
            },
        ]});
        append(file, "message_type", "DescriptorProto", entry);
        import(file, "timestamp");
    }
}

/// The file of the module of the council.
fn council_file(namespace: &str) -> serde_json::Value {
    let field = |name: &str, number: u32, kind: &str| {
        let (label, kind) = match kind.strip_prefix("repeated ") {
            Some(kind) => ("LABEL_REPEATED", kind),
            None => ("LABEL_OPTIONAL", kind),
        };
        let mut field = json!({"name": name, "number": number, "label": label});
        match kind.strip_prefix('.') {
            Some(_) => (field["type"], field["typeName"]) = ("TYPE_MESSAGE".into(), kind.into()),
            None => field["type"] = kind.into(),
        }
        field
    };
    let message = |name: &str, fields: Vec<serde_json::Value>| json!({"name": name, "field": fields});
    let signed = |name: &str, signer: &str, fields: Vec<serde_json::Value>| json!({"name": name, "field": fields, "options": {"[cosmos.msg.v1.signer]": [signer]}});
    let own = |name: &str| format!(".{namespace}.poa.v1.{name}");
    let method = |name: &str, input: &str, output: &str| json!({"name": name, "inputType": own(input), "outputType": own(output)});
    let string = "TYPE_STRING";
    json!({
        "name": format!("{namespace}/poa/v1/poa.proto"), "package": format!("{namespace}.poa.v1"), "syntax": "proto3",
        "dependency": ["google/protobuf/any.proto", "cosmos/msg/v1/msg.proto"],
        "messageType": [
            message("Description", ["moniker", "identity", "website", "security_contact", "details"].iter().zip(1..)
                .map(|(name, number)| field(name, number, string)).collect()),
            signed("MsgAddValidator", "authority", vec![
                field("authority", 1, string), field("validator_address", 2, string),
                field("description", 3, &own("Description")), field("pubkey", 4, ".google.protobuf.Any"),
            ]),
            message("MsgAddValidatorResponse", vec![]),
            signed("MsgRemoveValidator", "authority", vec![field("authority", 1, string), field("validator_address", 2, string)]),
            message("MsgRemoveValidatorResponse", vec![]),
            signed("MsgSelfRemoveValidator", "validator_address", vec![field("validator_address", 1, string)]),
            message("MsgSelfRemoveValidatorResponse", vec![]),
            message("QueryCouncilRequest", vec![]),
            message("QueryCouncilResponse", vec![
                field("authority", 1, string), field("group_id", 2, "TYPE_UINT64"), field("members", 3, "repeated TYPE_STRING"),
                field("members_without_validator", 4, "repeated TYPE_STRING"),
                field("validators_without_seat", 5, "repeated TYPE_STRING"),
            ]),
        ],
        "service": [
            {"name": "Msg", "method": [
                method("AddValidator", "MsgAddValidator", "MsgAddValidatorResponse"),
                method("RemoveValidator", "MsgRemoveValidator", "MsgRemoveValidatorResponse"),
                method("SelfRemoveValidator", "MsgSelfRemoveValidator", "MsgSelfRemoveValidatorResponse"),
            ]},
            {"name": "Query", "method": [method("Council", "QueryCouncilRequest", "QueryCouncilResponse")]},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto_registry::{MessageProblem, Namespace};

    #[test]
    fn each_generation_is_found_in_its_own_descriptors_under_any_namespace() {
        for word in ["svc", "acme"] {
            let compiled = ProtoRegistry::compiled(&Namespace::new(word).expect("a word")).expect("loads");
            for generation in NodeGeneration::ALL {
                let derived = compiled.of_generation(generation).expect("consistent");
                let live = ProtoRegistry::from_live(&derived.file_descriptors()).expect("loads");
                assert_eq!(NodeGeneration::of_descriptors(&live), generation, "{word}");
            }
        }
    }

    #[test]
    fn no_generation_takes_another_message_than_those_of_policies_and_of_parameters_from_the_tools() {
        let compiled = ProtoRegistry::compiled(&Namespace::compiled()).expect("loads");
        for generation in NodeGeneration::ALL {
            let derived = compiled.of_generation(generation).expect("consistent");
            let comparison = derived.compare_with_compiled(&compiled);
            assert!(comparison.envelope.is_empty(), "{generation}: {:?}", comparison.envelope);
            for (message, problem) in &comparison.messages {
                let is_of_policies = message.contains(POLICIES) && *problem == MessageProblem::Absent;
                assert!(is_of_policies || message.ends_with(".MsgUpdateParams"), "{generation}: {message}: {problem}");
            }
            // Parameters are read as the node describes them.
            let others = comparison.answers.keys().filter(|path| !path.ends_with("/Params"));
            assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{generation}");
            let has_reads = !comparison.reads.is_empty();
            assert_eq!(has_reads, generation >= NodeGeneration::N1, "{generation}: {:?}", comparison.reads);
        }
    }
}
