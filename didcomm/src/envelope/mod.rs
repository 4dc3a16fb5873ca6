//! Encrypted envelopes: JWE in the general JSON form.
//!
//! The cryptography is that of a library. It opens every envelope that it has the key for; the checks of form and sender are
//! here: the cheap ones first, those that need keys of others last.

mod header;
mod open;
mod seal;

pub use open::{Opened, Sender};
pub use seal::{SealError, seal, seal_anonymously};

use affinidi_crypto::jose::key_agreement::{Curve, PrivateKeyAgreement};
use serde::{
    Deserialize,
    de::{IgnoredAny, SeqAccess, Visitor},
};

use self::header::Header;
use crate::{json_shape, limits, refusal::Refusal};

/// Media type of an envelope.
pub const ENCRYPTED_TYPE: &str = "application/didcomm-encrypted+json";

/// An X25519 key of ours. Its bytes are erased when it is dropped.
#[derive(Debug, Clone)]
pub struct KeyAgreementKey(PrivateKeyAgreement);

impl KeyAgreementKey {
    /// Makes the key of its 32 bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(PrivateKeyAgreement::X25519(*bytes))
    }

    /// Generates a key.
    pub fn generate() -> Self {
        Self(PrivateKeyAgreement::generate(Curve::X25519))
    }

    /// Its public key.
    pub fn public_key(&self) -> [u8; 32] {
        let bytes = self.0.public_key().to_public_bytes();
        bytes.try_into().unwrap_or_default()
    }
}

/// An envelope whose form was checked, and which nothing has opened yet.
#[derive(Debug)]
pub struct Envelope<'a> {
    text: &'a str,
    header: Header,
    recipients: Vec<String>,
}

impl<'a> Envelope<'a> {
    /// Reads an envelope, and checks everything about it that needs no key.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if bytes.len() > limits::MAX_MESSAGE_BYTES {
            return Err(Refusal::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Refusal::NotJson)?;
        json_shape::check(bytes)?;
        let members: Members<'_> = serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Refusal::NotAnEnvelope,
            _ => Refusal::NotJson,
        })?;
        let (protected, Recipients(recipients)) = members.checked()?;
        if recipients.is_empty() || recipients.len() > limits::MAX_RECIPIENTS {
            return Err(Refusal::Recipients);
        }
        let header = Header::read(protected, &recipients)?;
        Ok(Self { text, header, recipients })
    }

    /// The key ids of the recipients.
    pub fn recipients(&self) -> &[String] {
        &self.recipients
    }

    /// The key id of the sender; nothing in an anonymous envelope.
    pub fn sender_key_id(&self) -> Option<&str> {
        self.header.sender_key_id.as_deref()
    }
}

/// The members that matter here. A repeated one is an error of the parser.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    protected: Option<&'a str>,
    recipients: Option<Recipients>,
    iv: Option<&'a str>,
    ciphertext: Option<&'a str>,
    tag: Option<&'a str>,
    aad: Option<IgnoredAny>,
    unprotected: Option<IgnoredAny>,
    payload: Option<IgnoredAny>,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
}

impl<'a> Members<'a> {
    fn checked(self) -> Result<(&'a str, Recipients), Refusal> {
        if self.payload.is_some() {
            return Err(Refusal::OnlySigned);
        }
        if self.ciphertext.is_none() && self.kind.is_some() {
            return Err(Refusal::NotEncrypted);
        }
        // Both are of JWE and not of DIDComm: the library reads neither, though one of them changes the authenticated data.
        if self.aad.is_some() || self.unprotected.is_some() {
            return Err(Refusal::NotAnEnvelope);
        }
        match (self.protected, self.recipients, self.iv, self.ciphertext, self.tag) {
            (Some(protected), Some(recipients), Some(_), Some(_), Some(_)) => Ok((protected, recipients)),
            _ => Err(Refusal::NotAnEnvelope),
        }
    }
}

/// Key ids of the recipients; no more are kept than show that there are too many.
struct Recipients(Vec<String>);

#[derive(Deserialize)]
struct RecipientEntry {
    header: RecipientHeader,
    #[serde(rename = "encrypted_key")]
    _encrypted_key: String,
}

#[derive(Deserialize)]
struct RecipientHeader {
    kid: String,
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(RecipientsVisitor)
    }
}

struct RecipientsVisitor;

impl<'de> Visitor<'de> for RecipientsVisitor {
    type Value = Recipients;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a list of recipients")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Recipients, A::Error> {
        let mut found = Vec::new();
        while let Some(entry) = entries.next_element::<RecipientEntry>()? {
            if found.len() <= limits::MAX_RECIPIENTS {
                found.push(entry.header.kid);
            }
        }
        Ok(Recipients(found))
    }
}
