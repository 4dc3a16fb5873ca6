//! Descriptors of all messages of one network, with encoding from JSON and decoding to JSON.

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, MessageDescriptor, ReflectMessage, Value as Reflected,
};
use serde_json::Value;

use super::{
    json_mapping,
    namespace::{Namespace, rename_file},
};

/// Greatest depth of messages packed into one another: the limit of the SDK.
const MAX_PACKED_DEPTH: usize = 10;

static COMPILED_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Origin of the descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorSource {
    /// Compiled into this crate, renamed to the namespace of the network.
    Compiled,
    /// Served by a node.
    Live,
}

/// Descriptors of all messages of one network.
#[derive(Debug, Clone)]
pub struct ProtoRegistry {
    pool: DescriptorPool,
    namespace: Namespace,
    source: DescriptorSource,
    signer: Option<ExtensionDescriptor>,
}

/// Method of a gRPC service.
#[derive(Debug, Clone)]
pub struct RpcMethod {
    /// `/<package>.<Service>/<Method>`
    pub path: String,
    /// Type of the request.
    pub request: MessageDescriptor,
    /// Type of the response.
    pub response: MessageDescriptor,
}

/// Descriptors cannot be used, or a message cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum ProtoRegistryError {
    /// The descriptors do not form a consistent set.
    #[error("descriptors are not usable: {0}")]
    Descriptors(String),
    /// No package defines `co.v1.MsgCreateCorporation`.
    #[error("no package of these descriptors defines co.v1.MsgCreateCorporation")]
    NamespaceNotFound,
    /// No such message type.
    #[error("message type {0:?} is not known")]
    UnknownType(String),
    /// The JSON does not fit the message.
    #[error("{type_name}: {reason}")]
    Json {
        /// Message type.
        type_name: String,
        /// The member that does not fit, and why.
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
        /// Text of the decoder.
        reason: String,
    },
}

/// The unknown fields, those outside of the definition of a message, that are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFieldPolicy {
    /// All of them.
    RefuseAll,
    /// Those that the SDK calls critical: the number has bit 2^10 unset.
    RefuseCritical,
}

impl UnknownFieldPolicy {
    fn is_refused(self, number: u32) -> bool {
        self == Self::RefuseAll || number & 1024 == 0
    }
}

impl ProtoRegistry {
    /// The compiled-in descriptors, renamed to a namespace. Fails when they are no consistent set.
    pub fn compiled(namespace: &Namespace) -> Result<Self, ProtoRegistryError> {
        let compiled = DescriptorPool::decode(COMPILED_DESCRIPTORS)
            .map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
        if namespace.as_str() == super::COMPILED_NAMESPACE {
            return Self::from_pool(compiled, DescriptorSource::Compiled);
        }
        let bytes = encode_changed_set(&compiled, &compiled, |file| {
            rename_file(file, namespace);
            true
        })?;
        let pool = DescriptorPool::decode(bytes.as_slice())
            .map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
        Self::from_pool(pool, DescriptorSource::Compiled)
    }

    /// Descriptors of a node: the bytes of `cosmos.reflection.v1.FileDescriptorsResponse`, which has the wire format of a
    /// `FileDescriptorSet`. Comments are removed: a node's text must not reach a model. Fails when they are no consistent set, or have
    /// no namespace.
    pub fn from_live(response: &[u8]) -> Result<Self, ProtoRegistryError> {
        let unusable = |error: &dyn std::fmt::Display| ProtoRegistryError::Descriptors(error.to_string());
        let served = DescriptorPool::decode(response).map_err(|error| unusable(&error))?;
        let compiled = DescriptorPool::decode(COMPILED_DESCRIPTORS).map_err(|error| unusable(&error))?;
        let bytes = encode_changed_set(&served, &compiled, |file| {
            file.clear_field_by_name("source_code_info");
            true
        })?;
        let pool = DescriptorPool::decode(bytes.as_slice()).map_err(|error| unusable(&error))?;
        Self::from_pool(pool, DescriptorSource::Live)
    }

    pub(super) fn from_pool(pool: DescriptorPool, source: DescriptorSource) -> Result<Self, ProtoRegistryError> {
        let namespace = Namespace::find_in_pool(&pool).ok_or(ProtoRegistryError::NamespaceNotFound)?;
        let signer = pool.get_extension_by_name("cosmos.msg.v1.signer");
        Ok(Self { pool, namespace, source, signer })
    }

    /// The namespace of the network.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Origin of the descriptors.
    pub fn source(&self) -> DescriptorSource {
        self.source
    }

    /// The bytes of a `FileDescriptorsResponse`, as a node serves them.
    pub fn file_descriptors(&self) -> Vec<u8> {
        self.pool.encode_to_vec()
    }

    /// Descriptor of a message, by full name or type URL. Fails for an unknown type.
    pub fn message_descriptor(&self, name: &str) -> Result<MessageDescriptor, ProtoRegistryError> {
        let full_name = name.rsplit('/').next().unwrap_or(name);
        self.pool.get_message_by_name(full_name).ok_or_else(|| ProtoRegistryError::UnknownType(name.to_owned()))
    }

    /// Names and numbers of an enum without the unspecified value: first the names without the common prefix, then the full
    /// names. Empty for an unknown enum.
    pub fn enum_values(&self, name: &str) -> Vec<(String, i32)> {
        let Some(found) = self.pool.get_enum_by_name(name) else { return Vec::new() };
        let unspecified = found.values().find(|value| value.number() == 0);
        let prefix = unspecified.and_then(|zero| zero.name().strip_suffix("UNSPECIFIED").map(str::to_owned));
        let prefix = prefix.as_deref().unwrap_or("");
        let short = |name: &str| name.strip_prefix(prefix).unwrap_or(name).to_owned();
        let values = || found.values().filter(|value| value.number() != 0);
        let mut names: Vec<(String, i32)> = values().map(|value| (short(value.name()), value.number())).collect();
        let full = values().filter(|value| short(value.name()) != value.name());
        names.extend(full.map(|value| (value.name().to_owned(), value.number())));
        names
    }

    /// Every method of every service.
    pub fn rpc_methods(&self) -> impl Iterator<Item = RpcMethod> + '_ {
        self.pool.services().flat_map(|service| {
            let name = service.full_name().to_owned();
            service
                .methods()
                .map(move |method| RpcMethod {
                    path: format!("/{name}/{}", method.name()),
                    request: method.input(),
                    response: method.output(),
                })
                .collect::<Vec<_>>()
        })
    }

    /// Encodes a message from JSON. Fails for unknown members, wrong types and numbers out of range.
    pub fn encode(&self, name: &str, value: &Value) -> Result<Vec<u8>, ProtoRegistryError> {
        let descriptor = self.message_descriptor(name)?;
        let normal = json_mapping::normalise_json(value, &descriptor);
        let message = DynamicMessage::deserialize(descriptor, normal)
            .map_err(|error| ProtoRegistryError::Json { type_name: name.to_owned(), reason: error.to_string() })?;
        Ok(message.encode_to_vec())
    }

    /// Decodes a message to the JSON of the Cosmos REST gateway: proto field names, 64-bit numbers as text, defaults present,
    /// `Any` expanded under `@type`. An `Any` of an unknown type stays `{"@type", "value"}` with base64 bytes. Fails when the
    /// bytes are not this message.
    pub fn decode(&self, name: &str, bytes: &[u8]) -> Result<Value, ProtoRegistryError> {
        let message = self.decode_dynamic(name, bytes)?;
        json_mapping::print_message(&message, &self.pool)
            .map_err(|reason| ProtoRegistryError::Bytes { type_name: name.to_owned(), reason })
    }

    fn decode_dynamic(&self, name: &str, bytes: &[u8]) -> Result<DynamicMessage, ProtoRegistryError> {
        DynamicMessage::decode(self.message_descriptor(name)?, bytes)
            .map_err(|error| ProtoRegistryError::Bytes { type_name: name.to_owned(), reason: error.to_string() })
    }

    /// Refuses bytes with fields that the message does not define, at any depth, packed messages of known types included. A
    /// signer would otherwise sign content that it does not understand.
    pub fn refuse_unknown_fields(
        &self,
        name: &str,
        bytes: &[u8],
        unknown: UnknownFieldPolicy,
    ) -> Result<(), ProtoRegistryError> {
        self.check_unknown_fields(&self.decode_dynamic(name, bytes)?, unknown, MAX_PACKED_DEPTH)
    }

    fn check_unknown_fields(
        &self,
        message: &DynamicMessage,
        unknown: UnknownFieldPolicy,
        depth: usize,
    ) -> Result<(), ProtoRegistryError> {
        let descriptor = message.descriptor();
        if let Some(field) = message.unknown_fields().find(|field| unknown.is_refused(field.number())) {
            let type_name = descriptor.full_name().to_owned();
            return Err(ProtoRegistryError::UnknownField { type_name, number: field.number() });
        }
        if descriptor.full_name() == "google.protobuf.Any" {
            let (url, value) = (message.get_field_by_number(1), message.get_field_by_number(2));
            let (Some(url), Some(value)) = (url, value) else { return Ok(()) };
            let (url, value) = (url.as_str().unwrap_or_default(), value.as_bytes().cloned().unwrap_or_default());
            return match self.message_descriptor(url) {
                Ok(_) if depth == 0 => {
                    let reason = format!("packed deeper than {MAX_PACKED_DEPTH} levels");
                    Err(ProtoRegistryError::Bytes { type_name: url.to_owned(), reason })
                }
                Ok(_) => self.check_unknown_fields(&self.decode_dynamic(url, &value)?, unknown, depth - 1),
                Err(_) => Ok(()),
            };
        }
        for (_, value) in message.fields() {
            match value {
                Reflected::Message(inner) => self.check_unknown_fields(inner, unknown, depth)?,
                Reflected::List(items) => {
                    let mut inner = items.iter().filter_map(Reflected::as_message);
                    inner.try_for_each(|inner| self.check_unknown_fields(inner, unknown, depth))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Signer addresses of a message, from the fields that its signer annotation names. Fails when the bytes are not this
    /// message.
    pub fn signers(&self, name: &str, bytes: &[u8]) -> Result<Vec<String>, ProtoRegistryError> {
        let message = self.decode_dynamic(name, bytes)?;
        let mut signers = Vec::new();
        for field in self.signer_fields(&self.message_descriptor(name)?) {
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

    /// Names of the fields that hold the signers of a message.
    pub fn signer_fields(&self, descriptor: &MessageDescriptor) -> Vec<String> {
        let Some(extension) = &self.signer else {
            return Vec::new();
        };
        match descriptor.options().get_extension(extension).as_ref() {
            Reflected::List(items) => items.iter().filter_map(Reflected::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// Type URLs of the messages of transactions, the requests of the `Msg` services, sorted.
    pub fn msg_type_urls(&self) -> Vec<String> {
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

    pub(super) fn pool(&self) -> &DescriptorPool {
        &self.pool
    }
}

/// A `FileDescriptorSet` of the pool's files after a change to each, which answers whether the file is kept. It works on the dynamic form,
/// because the typed one drops custom options such as the signer annotation; `compiled` describes that form.
pub(super) fn encode_changed_set(
    pool: &DescriptorPool,
    compiled: &DescriptorPool,
    change: impl Fn(&mut DynamicMessage) -> bool,
) -> Result<Vec<u8>, ProtoRegistryError> {
    let unusable = |error: &dyn std::fmt::Display| ProtoRegistryError::Descriptors(error.to_string());
    let shape = compiled
        .get_message_by_name("google.protobuf.FileDescriptorProto")
        .ok_or_else(|| ProtoRegistryError::UnknownType("google.protobuf.FileDescriptorProto".to_owned()))?;
    let mut set = Vec::new();
    for file in pool.files() {
        let mut dynamic =
            DynamicMessage::decode(shape.clone(), file.encode_to_vec().as_slice()).map_err(|error| unusable(&error))?;
        if change(&mut dynamic) {
            append_file(&mut set, &dynamic);
        }
    }
    Ok(set)
}

/// Appends a `FileDescriptorProto` to a `FileDescriptorSet`.
pub(super) fn append_file(set: &mut Vec<u8>, file: &DynamicMessage) {
    prost::encoding::message::encode(1, file, set);
}
