//! Protobuf `Any`.

use prost::Message;
use prost_types::Any;

/// Packs a message as `Any`.
pub fn pack_any(type_url: impl Into<String>, message: &impl Message) -> Any {
    Any { type_url: type_url.into(), value: message.encode_to_vec() }
}
