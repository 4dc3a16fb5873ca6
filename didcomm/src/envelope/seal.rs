//! From a message to an envelope.

use affinidi_crypto::jose::key_agreement::PublicKeyAgreement;
use affinidi_messaging_didcomm::jwe::encrypt;

use super::KeyAgreementKey;
use crate::{limits, message::Message, small_order::is_of_small_order};

/// A message cannot be encrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The recipient would refuse it.
    #[error("the message is larger than {} bytes in its envelope", limits::MAX_MESSAGE_BYTES)]
    TooLarge,
    /// The recipient's key is unusable.
    #[error("the key of the recipient is unusable")]
    RecipientKey,
    /// The library refused, which it does for no message and key that passed the checks before.
    #[error("the message cannot be encrypted: {0}")]
    Cipher(String),
}

/// Encrypts a message such that the recipient can tell its sender. Key ids are DID URLs.
pub fn seal(
    message: &Message,
    (sender_id, sender): (&str, &KeyAgreementKey),
    (recipient_id, recipient): (&str, &[u8; 32]),
) -> Result<String, SealError> {
    let text = message.to_json().to_string();
    let recipient = usable(recipient)?;
    let sealed = encrypt::authcrypt(text.as_bytes(), sender_id, &sender.0, &[(recipient_id, &recipient)]);
    within_limit(sealed.map_err(|error| SealError::Cipher(error.to_string()))?)
}

/// Encrypts a message without naming its sender.
pub fn seal_anonymously(message: &Message, (recipient_id, recipient): (&str, &[u8; 32])) -> Result<String, SealError> {
    let text = message.to_json().to_string();
    let recipient = usable(recipient)?;
    let sealed = encrypt::anoncrypt(text.as_bytes(), &[(recipient_id, &recipient)]);
    within_limit(sealed.map_err(|error| SealError::Cipher(error.to_string()))?)
}

fn usable(key: &[u8; 32]) -> Result<PublicKeyAgreement, SealError> {
    if is_of_small_order(key) { Err(SealError::RecipientKey) } else { Ok(PublicKeyAgreement::X25519(*key)) }
}

fn within_limit(envelope: String) -> Result<String, SealError> {
    if envelope.len() > limits::MAX_MESSAGE_BYTES { Err(SealError::TooLarge) } else { Ok(envelope) }
}
