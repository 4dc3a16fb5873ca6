//! From an envelope and the keys to a message of which sender and recipient are proven.

use affinidi_crypto::jose::key_agreement::PublicKeyAgreement;
use affinidi_messaging_didcomm::jwe::decrypt::{SenderKey, decrypt_bound};
use serde_json::Value;
use svc_wire::verification_method::{KeyKind, KeyRelation, did_of_url, method_key};

use super::{Envelope, KeyAgreementKey};
use crate::{
    limits, message::Message, peer_did::is_same_did, protocol, refusal::Refusal, small_order::is_of_small_order,
};

/// The sender of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// The holder of a key under `keyAgreement` of this DID.
    Authenticated {
        /// In the form of the resolved document.
        did: String,
    },
    /// The envelope names none.
    Anonymous,
}

/// A message out of an envelope, after every check that needs no other document.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The message.
    pub message: Message,
    /// Its sender.
    pub sender: Sender,
}

impl Envelope<'_> {
    /// Opens the envelope with a key of ours.
    ///
    /// `key_id` is the recipient that names the key, `own_did` the DID that owns it. `sender_document` is the resolved document
    /// of the sender's DID; an envelope without sender needs none. `now` is in seconds since the epoch.
    pub fn open(
        &self,
        key_id: &str,
        key: &KeyAgreementKey,
        own_did: &str,
        sender_document: Option<&Value>,
        now: i64,
    ) -> Result<Opened, Refusal> {
        if !self.recipients().iter().any(|recipient| recipient == key_id) {
            return Err(Refusal::RecipientKey);
        }
        let sender = match self.sender_key_id() {
            None => None,
            Some(id) => Some((id, sender_key(sender_document.ok_or(Refusal::SenderKey)?, id, now)?)),
        };
        let bound = sender.as_ref().map(|(id, (_, key))| SenderKey::new(id, key));
        let opened = decrypt_bound(self.text, key_id, &key.0, bound).map_err(|_| Refusal::Decryption)?;
        let message = Message::parse(&opened.plaintext)?;
        if message.kind == protocol::FORWARD {
            return Err(Refusal::Forward);
        }
        let sender = match sender {
            Some((_, (did, _))) => {
                let from = message.from.as_deref().ok_or(Refusal::From)?;
                if !is_same_did(from, &did) {
                    return Err(Refusal::From);
                }
                Sender::Authenticated { did }
            }
            None => {
                check_anonymous(&message)?;
                Sender::Anonymous
            }
        };
        if !message.to.iter().any(|to| is_same_did(to, own_did)) {
            return Err(Refusal::To);
        }
        if message.has_expired(now) {
            return Err(Refusal::Expired);
        }
        Ok(Opened { message, sender })
    }
}

/// The key of the sender, and its DID as the document has it.
fn sender_key(document: &Value, key_id: &str, now: i64) -> Result<(String, PublicKeyAgreement), Refusal> {
    let did = document["id"].as_str().filter(|did| did.len() <= limits::MAX_DID_BYTES).ok_or(Refusal::SenderKey)?;
    let named = did_of_url(key_id);
    let fragment = key_id.strip_prefix(named).unwrap_or_default();
    if !is_same_did(named, did) {
        return Err(Refusal::SenderKey);
    }
    let nanos = i128::from(now) * 1_000_000_000;
    let method = format!("{did}{fragment}");
    let key = method_key(document, &method, KeyRelation::KeyAgreement, KeyKind::X25519, nanos);
    let key = key.ok().filter(|key| !is_of_small_order(key)).ok_or(Refusal::SenderKey)?;
    Ok((did.to_owned(), PublicKeyAgreement::X25519(key)))
}

/// A message without a sender says one thing only: that a DID is given up, with the proof of its holder.
fn check_anonymous(message: &Message) -> Result<(), Refusal> {
    let is_end = message.kind == protocol::EMPTY && message.from.is_none() && message.from_prior.is_some();
    if is_end { Ok(()) } else { Err(Refusal::Anonymous) }
}
