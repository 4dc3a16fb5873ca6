//! Descriptors of all messages, with encoding and decoding from and to JSON.

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, MessageDescriptor, ReflectMessage, Value as Reflected,
};
use serde_json::Value;

use super::{
    json,
    namespace::{Namespace, rename_file},
};

/// How deep messages may be packed into one another, as the SDK limits it.
const MAX_PACKED_DEPTH: usize = 10;

static COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Where the descriptors come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Compiled into this crate, renamed to the network's word.
    Compiled,
    /// Served by a node.
    Live,
}

/// All messages of one network.
#[derive(Debug, Clone)]
pub struct Registry {
    pool: DescriptorPool,
    namespace: Namespace,
    source: Source,
    signer: Option<ExtensionDescriptor>,
}

/// Why something could not be encoded, decoded or read.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The descriptors do not form a consistent set.
    #[error("descriptors are not usable: {0}")]
    Descriptors(String),
    /// No package defines `co.v1.MsgCreateCorporation`.
    #[error("no package of these descriptors defines co.v1.MsgCreateCorporation")]
    NoNamespace,
    /// No such message type.
    #[error("message type {0:?} is not known")]
    UnknownType(String),
    /// The JSON does not fit the message.
    #[error("{type_name}: {reason}")]
    Json {
        /// Message type.
        type_name: String,
        /// What does not fit, with its place.
        reason: String,
    },
    /// The bytes have a field that the message does not define.
    #[error("{type_name} has no field number {number}")]
    UnknownField {
        /// Message type.
        type_name: String,
        /// Number of the field.
        number: u32,
    },
    /// The bytes are not this message.
    #[error("bytes are not a {type_name}: {reason}")]
    Bytes {
        /// Message type.
        type_name: String,
        /// What the decoder says.
        reason: String,
    },
}

/// Which fields outside of a message's definition are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// All of them.
    Any,
    /// Those the SDK calls critical: whose number has bit 2^10 unset.
    Critical,
}

impl Unknown {
    fn refuses(self, number: u32) -> bool {
        self == Self::Any || number & 1024 == 0
    }
}

impl Registry {
    /// The compiled-in descriptors under a network's word.
    pub fn compiled(namespace: &Namespace) -> Result<Self, SchemaError> {
        let compiled = DescriptorPool::decode(COMPILED).map_err(|error| SchemaError::Descriptors(error.to_string()))?;
        if namespace.as_str() == super::COMPILED_WORD {
            return Self::from_pool(compiled, Source::Compiled);
        }
        let bytes = renamed_set(&compiled, namespace)?;
        let pool =
            DescriptorPool::decode(bytes.as_slice()).map_err(|error| SchemaError::Descriptors(error.to_string()))?;
        Self::from_pool(pool, Source::Compiled)
    }

    /// Descriptors as a node serves them: the bytes of `cosmos.reflection.v1.FileDescriptorsResponse`, whose wire shape is
    /// that of a `FileDescriptorSet`.
    pub fn from_live(response: &[u8]) -> Result<Self, SchemaError> {
        let pool = DescriptorPool::decode(response).map_err(|error| SchemaError::Descriptors(error.to_string()))?;
        Self::from_pool(pool, Source::Live)
    }

    fn from_pool(pool: DescriptorPool, source: Source) -> Result<Self, SchemaError> {
        let namespace = Namespace::find(&pool).ok_or(SchemaError::NoNamespace)?;
        let signer = pool.get_extension_by_name("cosmos.msg.v1.signer");
        Ok(Self { pool, namespace, source, signer })
    }

    /// The network's word.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Where the descriptors come from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The set as `FileDescriptorsResponse` bytes: what a node serves.
    pub fn file_descriptors(&self) -> Vec<u8> {
        self.pool.encode_to_vec()
    }

    /// Descriptor of a message, by full name or type URL.
    pub fn message(&self, name: &str) -> Result<MessageDescriptor, SchemaError> {
        let full_name = name.rsplit('/').next().unwrap_or(name);
        self.pool.get_message_by_name(full_name).ok_or_else(|| SchemaError::UnknownType(name.to_owned()))
    }

    /// Names and numbers of an enum, the unspecified value left out: each name without the common prefix, and then whole.
    pub fn enum_values(&self, name: &str) -> Vec<(String, i32)> {
        let Some(found) = self.pool.get_enum_by_name(name) else { return Vec::new() };
        let unspecified = found.values().find(|value| value.number() == 0);
        let prefix = unspecified.and_then(|zero| zero.name().strip_suffix("UNSPECIFIED").map(str::to_owned));
        let short = |name: &str| name.strip_prefix(prefix.as_deref().unwrap_or_default()).unwrap_or(name).to_owned();
        let values = || found.values().filter(|value| value.number() != 0);
        let mut names: Vec<(String, i32)> = values().map(|value| (short(value.name()), value.number())).collect();
        let whole = values().filter(|value| short(value.name()) != value.name());
        names.extend(whole.map(|value| (value.name().to_owned(), value.number())));
        names
    }

    /// Request and reply type of every rpc, as `("/package.Service/Rpc", request, reply)`.
    pub fn rpcs(&self) -> impl Iterator<Item = (String, MessageDescriptor, MessageDescriptor)> + '_ {
        self.pool.services().flat_map(|service| {
            let name = service.full_name().to_owned();
            service
                .methods()
                .map(move |method| (format!("/{name}/{}", method.name()), method.input(), method.output()))
                .collect::<Vec<_>>()
        })
    }

    /// Encodes a message from JSON. Unknown members, wrong types and numbers out of range are refused.
    pub fn encode(&self, name: &str, value: &Value) -> Result<Vec<u8>, SchemaError> {
        let descriptor = self.message(name)?;
        let normal = json::normalise(value, &descriptor);
        let message = DynamicMessage::deserialize(descriptor, normal)
            .map_err(|error| SchemaError::Json { type_name: name.to_owned(), reason: error.to_string() })?;
        Ok(message.encode_to_vec())
    }

    /// Decodes a message to JSON as the Cosmos REST gateway prints it: proto field names, 64-bit numbers as text, defaults
    /// present, `Any` expanded under `@type`. An `Any` of an unknown type stays `{"@type", "value"}` with base64 bytes.
    pub fn decode(&self, name: &str, bytes: &[u8]) -> Result<Value, SchemaError> {
        let message = self.decode_dynamic(name, bytes)?;
        json::print(&message, &self.pool).map_err(|reason| SchemaError::Bytes { type_name: name.to_owned(), reason })
    }

    fn decode_dynamic(&self, name: &str, bytes: &[u8]) -> Result<DynamicMessage, SchemaError> {
        DynamicMessage::decode(self.message(name)?, bytes)
            .map_err(|error| SchemaError::Bytes { type_name: name.to_owned(), reason: error.to_string() })
    }

    /// Refuses bytes with fields the message does not define, anywhere inside, packed messages of known types included: what
    /// is signed must be what is understood.
    pub fn refuse_unknown_fields(&self, name: &str, bytes: &[u8], unknown: Unknown) -> Result<(), SchemaError> {
        self.known(&self.decode_dynamic(name, bytes)?, unknown, MAX_PACKED_DEPTH)
    }

    fn known(&self, message: &DynamicMessage, unknown: Unknown, depth: usize) -> Result<(), SchemaError> {
        let descriptor = message.descriptor();
        if let Some(field) = message.unknown_fields().find(|field| unknown.refuses(field.number())) {
            let type_name = descriptor.full_name().to_owned();
            return Err(SchemaError::UnknownField { type_name, number: field.number() });
        }
        if descriptor.full_name() == "google.protobuf.Any" {
            let (url, value) = (message.get_field_by_number(1), message.get_field_by_number(2));
            let (Some(url), Some(value)) = (url, value) else { return Ok(()) };
            let (url, value) = (url.as_str().unwrap_or_default(), value.as_bytes().cloned().unwrap_or_default());
            return match self.message(url) {
                Ok(_) if depth == 0 => {
                    let reason = format!("packed deeper than {MAX_PACKED_DEPTH} levels");
                    Err(SchemaError::Bytes { type_name: url.to_owned(), reason })
                }
                Ok(_) => self.known(&self.decode_dynamic(url, &value)?, unknown, depth - 1),
                Err(_) => Ok(()),
            };
        }
        for (_, value) in message.fields() {
            match value {
                Reflected::Message(inner) => self.known(inner, unknown, depth)?,
                Reflected::List(items) => {
                    let mut inner = items.iter().filter_map(Reflected::as_message);
                    inner.try_for_each(|inner| self.known(inner, unknown, depth))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Signer addresses of a message, read from the fields its signer annotation names.
    pub fn signers(&self, name: &str, bytes: &[u8]) -> Result<Vec<String>, SchemaError> {
        let message = self.decode_dynamic(name, bytes)?;
        let mut signers = Vec::new();
        for field in self.signer_fields(&self.message(name)?) {
            match message.get_field_by_name(&field).as_deref() {
                Some(Reflected::String(address)) => signers.push(address.clone()),
                Some(Reflected::List(items)) => {
                    signers.extend(items.iter().filter_map(Reflected::as_str).map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(signers)
    }

    /// Names of the fields that hold a message's signers.
    pub fn signer_fields(&self, descriptor: &MessageDescriptor) -> Vec<String> {
        let Some(extension) = &self.signer else {
            return Vec::new();
        };
        match descriptor.options().get_extension(extension).as_ref() {
            Reflected::List(items) => items.iter().filter_map(Reflected::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Message types that can be sent: requests of `Msg` services, as type URLs, sorted.
    pub fn transaction_messages(&self) -> Vec<String> {
        let mut urls: Vec<_> = self
            .pool
            .services()
            .filter(|service| service.name() == "Msg")
            .flat_map(|service| {
                service.methods().map(|method| format!("/{}", method.input().full_name())).collect::<Vec<_>>()
            })
            .collect();
        urls.sort();
        urls
    }

    /// Fields and messages of this registry's own namespace that `other` lacks, as `module.v1.Message.field`, sorted.
    pub fn additions_over(&self, other: &Self) -> Vec<String> {
        let mut additions = Vec::new();
        for message in self.pool.all_messages() {
            let Some(local) =
                message.full_name().strip_prefix(self.namespace.as_str()).and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            match other.pool.get_message_by_name(&format!("{}.{local}", other.namespace)) {
                None => additions.push(local.to_owned()),
                Some(known) => additions.extend(
                    message
                        .fields()
                        .filter(|field| known.get_field(field.number()).is_none_or(|same| same.name() != field.name()))
                        .map(|field| format!("{local}.{}", field.name())),
                ),
            }
        }
        additions.sort();
        additions
    }
}

fn renamed_set(pool: &DescriptorPool, to: &Namespace) -> Result<Vec<u8>, SchemaError> {
    let unusable = |error: &dyn std::fmt::Display| SchemaError::Descriptors(error.to_string());
    let shape = pool
        .get_message_by_name("google.protobuf.FileDescriptorProto")
        .ok_or_else(|| SchemaError::UnknownType("google.protobuf.FileDescriptorProto".to_owned()))?;
    let mut set = Vec::new();
    for file in pool.files() {
        let mut dynamic =
            DynamicMessage::decode(shape.clone(), file.encode_to_vec().as_slice()).map_err(|error| unusable(&error))?;
        rename_file(&mut dynamic, to);
        let bytes = dynamic.encode_to_vec();
        prost::encoding::encode_key(1, prost::encoding::WireType::LengthDelimited, &mut set);
        prost::encoding::encode_varint(bytes.len() as u64, &mut set);
        set.extend_from_slice(&bytes);
    }
    Ok(set)
}
