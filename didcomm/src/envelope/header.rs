//! The protected header, and its statements about the keys.

use affinidi_messaging_didcomm::jwe::envelope::{ALG_ANONCRYPT, ALG_AUTHCRYPT};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_wire::{strict_json::parse_strict_json, verification_method::did_of_url};

use super::ENCRYPTED_TYPE;
use crate::{limits, refusal::Refusal, small_order::is_of_small_order};

/// Levels of a header: it is an object that holds a key.
const MAX_LEVELS: usize = 4;

/// The header of an envelope whose form is right.
#[derive(Debug)]
pub(super) struct Header {
    /// Key id of the sender; nothing in an envelope without one.
    pub sender_key_id: Option<String>,
}

impl Header {
    /// Reads the header, and compares it with the recipients.
    pub fn read(protected: &str, recipients: &[String]) -> Result<Self, Refusal> {
        if protected.len() > limits::MAX_HEADER_BYTES {
            return Err(Refusal::Header);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(protected).map_err(|_| Refusal::Header)?;
        let header = parse_strict_json(&bytes, MAX_LEVELS).map_err(|_| Refusal::Header)?;
        // A member in `crit` must be understood, and `zip` would change the content.
        if !header.is_object() || header.get("crit").is_some() || header.get("zip").is_some() {
            return Err(Refusal::Header);
        }
        // RFC 7515 lets a media type leave out `application/`.
        let typ = header["typ"].as_str().ok_or(Refusal::Typ)?;
        if typ != ENCRYPTED_TYPE && Some(typ) != ENCRYPTED_TYPE.strip_prefix("application/") {
            return Err(Refusal::Typ);
        }
        if header["enc"] != "A256CBC-HS512" {
            return Err(Refusal::Enc);
        }
        check_ephemeral_key(&header["epk"])?;
        if header["apv"] != recipients_digest(recipients) {
            return Err(Refusal::Apv);
        }
        let sender_key_id = match header["alg"].as_str() {
            Some(ALG_AUTHCRYPT) => Some(sender_key_id(&header)?),
            Some(ALG_ANONCRYPT) if header.get("skid").is_none() => None,
            Some(ALG_ANONCRYPT) => return Err(Refusal::SenderKeyId),
            _ => return Err(Refusal::Alg),
        };
        Ok(Self { sender_key_id })
    }
}

fn sender_key_id(header: &Value) -> Result<String, Refusal> {
    let id = header["skid"].as_str().ok_or(Refusal::SenderKeyId)?;
    let did = did_of_url(id);
    let fragment = id.strip_prefix(did).and_then(|rest| rest.strip_prefix('#')).unwrap_or_default();
    if !did.starts_with("did:") || did.len() > limits::MAX_DID_BYTES || fragment.is_empty() || fragment.len() > 128 {
        return Err(Refusal::SenderKeyId);
    }
    if header["apu"] != BASE64_URL_SAFE_NO_PAD.encode(id) {
        return Err(Refusal::Apu);
    }
    Ok(id.to_owned())
}

fn check_ephemeral_key(key: &Value) -> Result<(), Refusal> {
    let is_x25519 = key["kty"] == "OKP" && key["crv"] == "X25519" && key.get("d").is_none();
    let bytes = key["x"].as_str().filter(|_| is_x25519).and_then(|x| BASE64_URL_SAFE_NO_PAD.decode(x).ok());
    let bytes: Option<[u8; 32]> = bytes.and_then(|bytes| bytes.try_into().ok());
    match bytes {
        Some(key) if !is_of_small_order(&key) => Ok(()),
        _ => Err(Refusal::EphemeralKey),
    }
}

/// `apv`: the digest of the key ids, sorted and joined by dots.
fn recipients_digest(recipients: &[String]) -> String {
    let mut sorted: Vec<&str> = recipients.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(sorted.join(".")))
}
