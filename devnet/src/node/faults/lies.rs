//! Lies of a node, or of a proxy before it, about a chain that goes on correctly behind it.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_wire::{proto::cosmos::auth::v1beta1::QueryAccountInfoResponse, timestamp};

/// Lies in answers over HTTP POST.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeLies {
    /// `status` states a height that is higher by this number.
    pub height_ahead: u64,
    /// `status` states a header time that is later by this number of seconds.
    pub seconds_ahead: u32,
    /// Queries of an account state a sequence that is higher by this number.
    pub sequence_ahead: u64,
    /// `status` and `block` state other block hashes than the chain has.
    pub other_hashes: bool,
    /// `status` says that the node is not catching up, however far it is behind.
    pub hides_lag: bool,
    /// Events and the index state failures for transactions that had their effect.
    pub failed_txs: bool,
    /// `block_results` does so.
    pub failed_results: bool,
    /// The file descriptors give the fields `did` and `language` of `MsgCreateEcosystem` the numbers of each other.
    pub swapped_fields: bool,
    /// The file descriptors give the fields `body_bytes` and `auth_info_bytes` of `SignDoc` the numbers of each other.
    pub swapped_envelope: bool,
    /// The file descriptors give the first field of every message of a registry transaction another number.
    pub renumbered_messages: bool,
    /// The file descriptors describe these fields otherwise than the node reads them.
    pub changed_fields: Vec<ChangedField>,
    /// The node has no reflection: the query of the file descriptors is unknown to it.
    pub no_descriptors: bool,
    /// The answer with the file descriptors is longer than any client reads.
    pub endless_descriptors: bool,
    /// The list of participant sessions is empty; each one alone is there.
    pub hidden_sessions: bool,
}

/// A field that the file descriptors describe otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedField {
    /// Name of the message, without its package.
    pub message: String,
    /// Name of the field.
    pub field: String,
    /// The change.
    pub change: FieldChange,
}

impl ChangedField {
    /// A change of a field of a message.
    pub fn new(message: &str, field: &str, change: FieldChange) -> Self {
        Self { message: message.to_owned(), field: field.to_owned(), change }
    }

    fn apply(&self, set: &mut FileDescriptorSet) {
        let messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
        for message in messages.filter(|one| one.name() == self.message) {
            if self.change == FieldChange::Lacking {
                message.field.retain(|field| field.name() != self.field);
            }
            for field in message.field.iter_mut().filter(|field| field.name() == self.field) {
                match self.change {
                    FieldChange::Lacking => {}
                    FieldChange::Renumbered => field.number = Some(OTHER_NUMBER),
                    FieldChange::Retyped => (field.r#type, field.type_name) = (Some(OTHER_TYPE as i32), None),
                    FieldChange::Renamed => (field.name, field.json_name) = (Some(OTHER_NAME.to_owned()), None),
                }
            }
        }
    }
}

/// The change of a field in the file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldChange {
    /// The message has no such field.
    Lacking,
    /// It has another number.
    Renumbered,
    /// It has another type.
    Retyped,
    /// It has another name.
    Renamed,
}

/// Length of the endless answer, in bytes.
const ENDLESS: usize = 100_000_000;

/// Beginning of the packages that every chain of the SDK has.
const SDK_PACKAGE: &str = "cosmos.";
/// Number that no field of a message has.
const OTHER_NUMBER: i32 = 99;
/// Type and name that no field of a message of the registry has.
const OTHER_TYPE: Type = Type::Sfixed32;
const OTHER_NAME: &str = "another_name";

const ACCOUNT_INFO: &str = "/cosmos.auth.v1beta1.Query/AccountInfo";
const SESSION_LIST: &str = ".pp.v1.Query/ListParticipantSessions";
const FILE_DESCRIPTORS: &str = "/cosmos.reflection.v1.ReflectionService/FileDescriptors";

impl NodeLies {
    /// Changes the result of a method. `path` is that of an `abci_query`.
    pub fn apply(&self, method: &str, path: Option<&str>, result: &mut Value) {
        match method {
            "status" => self.change_status(&mut result["sync_info"]),
            "tx" => self.change_tx_result(&mut result["tx_result"]),
            "block_results" if self.failed_results => {
                result["txs_results"].as_array_mut().into_iter().flatten().for_each(fail);
            }
            "block" if self.other_hashes => change_hash(&mut result["block_id"]["hash"]),
            "abci_query" if self.no_descriptors && path == Some(FILE_DESCRIPTORS) => {
                let log = format!("unknown query path: {FILE_DESCRIPTORS}");
                result["response"] = json!({"code": 6, "codespace": "sdk", "log": log, "height": "0"});
            }
            "abci_query" if self.endless_descriptors && path == Some(FILE_DESCRIPTORS) => {
                result["response"]["value"] = "A".repeat(ENDLESS).into();
            }
            "abci_query" => {
                let value = &mut result["response"]["value"];
                let changed = match path {
                    Some(ACCOUNT_INFO) => self.change_account(value),
                    Some(FILE_DESCRIPTORS) => self.change_descriptors(value),
                    Some(path) if self.hidden_sessions && path.ends_with(SESSION_LIST) => Some(String::new()),
                    _ => None,
                };
                if let Some(changed) = changed {
                    *value = changed.into();
                }
            }
            _ => {}
        }
    }

    /// Changes the result of a transaction in an event, or as the index has it.
    pub fn change_tx_result(&self, result: &mut Value) {
        if self.failed_txs {
            fail(result);
        }
    }

    fn change_descriptors(&self, value: &Value) -> Option<String> {
        if !(self.swapped_fields || self.swapped_envelope || self.renumbered_messages) && self.changed_fields.is_empty()
        {
            return None;
        }
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        let mut set = FileDescriptorSet::decode(bytes.as_slice()).ok()?;
        if self.swapped_fields {
            swap_fields(&mut set, ("MsgCreateEcosystem", ["did", "language"]));
        }
        if self.swapped_envelope {
            swap_fields(&mut set, ("SignDoc", ["body_bytes", "auth_info_bytes"]));
        }
        if self.renumbered_messages {
            renumber_messages(&mut set);
        }
        self.changed_fields.iter().for_each(|changed| changed.apply(&mut set));
        Some(STANDARD.encode(set.encode_to_vec()))
    }

    fn change_status(&self, sync_info: &mut Value) {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let height = number(&sync_info["latest_block_height"]) + self.height_ahead;
        sync_info["latest_block_height"] = height.to_string().into();
        let time = sync_info["latest_block_time"].as_str().and_then(timestamp::parse_rfc3339);
        if let Some(mut time) = time.filter(|_| self.seconds_ahead > 0) {
            time.seconds += i64::from(self.seconds_ahead);
            sync_info["latest_block_time"] = timestamp::rfc3339_nanos(&time).into();
        }
        if self.hides_lag {
            sync_info["catching_up"] = false.into();
        }
        if self.other_hashes {
            change_hash(&mut sync_info["latest_block_hash"]);
        }
    }

    fn change_account(&self, value: &Value) -> Option<String> {
        let bytes = STANDARD.decode(value.as_str()?).ok()?;
        let mut reply = QueryAccountInfoResponse::decode(bytes.as_slice()).ok()?;
        reply.info.as_mut()?.sequence += self.sequence_ahead;
        Some(STANDARD.encode(reply.encode_to_vec()))
    }
}

/// A failure of the messages: the sequence is used.
fn fail(result: &mut Value) {
    (result["code"], result["codespace"], result["log"]) = (5.into(), "sdk".into(), "insufficient funds".into());
}

/// Another hash of the same length: every digit is replaced by its complement.
fn change_hash(hash: &mut Value) {
    if let Some(bytes) = hash.as_str().and_then(|text| hex::decode(text).ok()) {
        *hash = hex::encode_upper(bytes.iter().map(|byte| !byte).collect::<Vec<u8>>()).into();
    }
}

/// Gives two fields of a message the numbers of each other.
fn swap_fields(set: &mut FileDescriptorSet, (message, [first, second]): (&str, [&str; 2])) {
    let messages = set.file.iter_mut().flat_map(|file| &mut file.message_type);
    for message in messages.filter(|one| one.name() == message) {
        let number_of = |name: &str| message.field.iter().find(|field| field.name() == name).and_then(|one| one.number);
        let numbers = [(first, number_of(second)), (second, number_of(first))];
        for (name, number) in numbers {
            message.field.iter_mut().filter(|field| field.name() == name).for_each(|field| field.number = number);
        }
    }
}

/// Gives the first field of every message of a registry transaction another number.
fn renumber_messages(set: &mut FileDescriptorSet) {
    for file in set.file.iter_mut().filter(|file| !file.package().starts_with(SDK_PACKAGE)) {
        let methods = file.service.iter().filter(|service| service.name() == "Msg").flat_map(|service| &service.method);
        let local = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let requests: BTreeSet<String> = methods.map(|method| local(method.input_type())).collect();
        for message in file.message_type.iter_mut().filter(|message| requests.contains(message.name())) {
            if let Some(first) = message.field.first_mut() {
                first.number = Some(OTHER_NUMBER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

    use super::*;

    fn described(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(name.to_owned()),
            json_name: Some(name.to_owned()),
            number: Some(number),
            r#type: Some(kind as i32),
            ..FieldDescriptorProto::default()
        }
    }

    #[test]
    fn a_change_concerns_one_field_of_the_messages_with_its_name() {
        let message = |name: &str, fields: Vec<FieldDescriptorProto>| DescriptorProto {
            name: Some(name.to_owned()),
            field: fields,
            ..DescriptorProto::default()
        };
        let set = |fields: Vec<FieldDescriptorProto>| {
            let other = message("Other", vec![described("id", 1, Type::Uint64)]);
            let file = FileDescriptorProto {
                message_type: vec![message("Msg", fields), other],
                ..FileDescriptorProto::default()
            };
            FileDescriptorSet { file: vec![file] }
        };
        let (id, did) = (described("id", 1, Type::Uint64), described("did", 2, Type::String));
        let renamed = FieldDescriptorProto { json_name: None, ..described("another_name", 1, Type::Uint64) };
        for (change, expected) in [
            (FieldChange::Lacking, vec![did.clone()]),
            (FieldChange::Renumbered, vec![described("id", 99, Type::Uint64), did.clone()]),
            (FieldChange::Retyped, vec![described("id", 1, Type::Sfixed32), did.clone()]),
            (FieldChange::Renamed, vec![renamed, did.clone()]),
        ] {
            let lies = NodeLies { changed_fields: vec![ChangedField::new("Msg", "id", change)], ..NodeLies::default() };
            let served = STANDARD.encode(set(vec![id.clone(), did.clone()]).encode_to_vec());
            let changed = lies.change_descriptors(&Value::from(served)).expect("other descriptors");
            let changed = STANDARD.decode(changed).expect("base64");
            assert_eq!(FileDescriptorSet::decode(changed.as_slice()).expect("a set"), set(expected), "{change:?}");
        }
    }
}
