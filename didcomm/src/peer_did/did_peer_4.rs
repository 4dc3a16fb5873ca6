//! did:peer, method 4: the whole document in the DID, and a hash of it as the short form.

use multibase::Base;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_wire::strict_json::parse_strict_json;

use super::PeerDidError;
use crate::{json_shape, limits};

const PREFIX: &str = "did:peer:4";
/// JSON, in the multicodec table.
const JSON_CODEC: [u8; 2] = [0x80, 0x04];
/// SHA-256 of 32 bytes, as a multihash begins.
const SHA_256: [u8; 2] = [0x12, 0x20];
/// Characters of a hash: 34 bytes in base58btc, and the sign of the base.
const HASH_LENGTH: usize = 47;

/// Both forms of a did:peer:4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerDid {
    /// With the document. Others know the DID in this form only.
    pub long: String,
    /// Without it.
    pub short: String,
}

/// Makes the DID of a document, in which ids are relative and `id` is left out.
pub fn encode(document: &Value) -> PeerDid {
    let bytes = [&JSON_CODEC[..], document.to_string().as_bytes()].concat();
    of_encoded(&multibase::encode(Base::Base58Btc, bytes))
}

pub(super) fn of_encoded(document: &str) -> PeerDid {
    let short = format!("{PREFIX}{}", hash(document));
    PeerDid { long: format!("{short}:{document}"), short }
}

fn hash(document: &str) -> String {
    multibase::encode(Base::Base58Btc, [&SHA_256[..], &Sha256::digest(document)].concat())
}

/// The short form of a DID in either form.
pub(super) fn short_form(did: &str) -> Option<&str> {
    let rest = did.strip_prefix(PREFIX)?;
    let end = rest.find(':').unwrap_or(rest.len());
    (end == HASH_LENGTH).then(|| &did[..PREFIX.len() + end])
}

pub(super) fn resolve(did: &str) -> Result<Value, PeerDidError> {
    let rest = did.strip_prefix(PREFIX).ok_or(PeerDidError::Form)?;
    let (claimed, document) = rest.split_once(':').ok_or(PeerDidError::Short)?;
    if claimed != hash(document) {
        return Err(PeerDidError::Hash);
    }
    let (base, bytes) = multibase::decode(document).map_err(|_| PeerDidError::Document)?;
    let text = bytes.strip_prefix(&JSON_CODEC).filter(|_| base == Base::Base58Btc).ok_or(PeerDidError::Document)?;
    json_shape::check(text).map_err(|_| PeerDidError::Document)?;
    let mut document = parse_strict_json(text, limits::MAX_JSON_LEVELS).map_err(|_| PeerDidError::Document)?;
    if !document.is_object() {
        return Err(PeerDidError::Document);
    }
    document["id"] = json!(did);
    document["alsoKnownAs"] = json!([format!("{PREFIX}{claimed}")]);
    Ok(document)
}
