//! A message with its exact bytes.

use prost_types::Any;
use sha2::{Digest, Sha256};

/// An encoded message: the bytes that a person confirms are the bytes that the signer signs.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedMessage {
    /// Type URL and protobuf bytes.
    pub message: Any,
    /// Whether the chain executes the message only under an authorization that another account has granted. The pipeline passes
    /// it on to the [`SigningPolicy`](crate::SigningPolicy) and to the journal.
    pub needs_grant: bool,
}

impl EncodedMessage {
    /// Type URL.
    pub fn msg_type(&self) -> &str {
        &self.message.type_url
    }

    /// SHA-256 over type URL and bytes, lower-case hex: the identity of the message.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.message.type_url.as_bytes());
        hasher.update([0]);
        hasher.update(&self.message.value);
        hex::encode(hasher.finalize())
    }
}
