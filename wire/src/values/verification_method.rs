//! Verification methods of DID Documents. Another party writes the document, so every member is checked before use.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use multibase::Base;
use serde_json::Value;

use crate::timestamp;

/// The verification relationships of DID Core that the systems use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRelation {
    /// Signs statements, such as credentials.
    AssertionMethod,
    /// Signs for the DID itself, such as presentations and `from_prior`.
    Authentication,
    /// Agrees on keys that encrypt messages.
    KeyAgreement,
    /// Delegates access, by tokens, and signs nothing else.
    CapabilityDelegation,
}

impl KeyRelation {
    /// Name in DID Documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AssertionMethod => "assertionMethod",
            Self::Authentication => "authentication",
            Self::KeyAgreement => "keyAgreement",
            Self::CapabilityDelegation => "capabilityDelegation",
        }
    }
}

/// Algorithm of a public key of 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// Signatures.
    Ed25519,
    /// Key agreement.
    X25519,
}

impl KeyKind {
    /// Prefix of its keys in Multikey, from the multicodec table.
    pub fn multicodec(self) -> [u8; 2] {
        match self {
            Self::Ed25519 => [0xed, 0x01],
            Self::X25519 => [0xec, 0x01],
        }
    }

    fn curve(self) -> &'static str {
        match self {
            Self::Ed25519 => "Ed25519",
            Self::X25519 => "X25519",
        }
    }
}

/// The reason why a verification method cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// The document has no method with this id.
    #[error("the document has no such verification method")]
    Unknown,
    /// The document does not allow it for the relationship, or another DID controls it.
    #[error("the document does not allow the verification method for this purpose")]
    NotAllowed,
    /// It has expired, or its member `revoked` is there.
    #[error("the verification method has been revoked, or has expired")]
    Ended,
    /// It is no key of the expected kind.
    #[error("the verification method is no usable key")]
    Unusable,
}

/// The DID of a DID URL.
pub fn did_of_url(url: &str) -> &str {
    url.split(['#', '?', '/']).next().unwrap_or(url)
}

/// The absolute form of a DID URL in a document, where the DID may be left out.
pub fn absolute_did_url(did: &str, id: &str) -> String {
    if id.starts_with('#') { format!("{did}{id}") } else { id.to_owned() }
}

/// The public key of a verification method, by its absolute id; `now` in nanoseconds since the epoch. The method stands in the
/// list `verificationMethod`, or inside of the relationship itself.
pub fn method_key(
    document: &Value,
    method: &str,
    relation: KeyRelation,
    kind: KeyKind,
    now: i128,
) -> Result<[u8; 32], MethodError> {
    let did = document["id"].as_str().unwrap_or_default();
    let is_method = |id: &str| absolute_did_url(did, id) == method;
    let found_in = |list: &'static str| {
        let methods = document[list].as_array().into_iter().flatten();
        methods.filter(|entry| entry.is_object()).find(|entry| entry["id"].as_str().is_some_and(is_method))
    };
    let embedded = found_in(relation.as_str());
    let declared = found_in("verificationMethod");
    let is_allowed = embedded.is_some()
        || document[relation.as_str()].as_array().into_iter().flatten().filter_map(Value::as_str).any(is_method);
    let entry = embedded.or(declared).ok_or(MethodError::Unknown)?;
    if !is_allowed {
        return Err(MethodError::NotAllowed);
    }
    // With a method of another controller, that controller could act for this DID.
    if entry.get("controller").is_some_and(|controller| controller != did) {
        return Err(MethodError::NotAllowed);
    }
    let expires = entry.get("expires").map(|text| text.as_str().and_then(timestamp::parse_rfc3339));
    let has_expired =
        expires.is_some_and(|instant| instant.is_none_or(|instant| timestamp::unix_nanos(&instant) <= now));
    // Any value is a revocation: a reader of `revoked: true` or of a list must not take the key for a good one.
    if entry.get("revoked").is_some() || has_expired {
        return Err(MethodError::Ended);
    }
    public_key(entry, kind).ok_or(MethodError::Unusable)
}

/// The absolute ids of the methods that a document allows for a relationship, in its order.
pub fn methods_of(document: &Value, relation: KeyRelation) -> Vec<String> {
    let did = document["id"].as_str().unwrap_or_default();
    let entries = document[relation.as_str()].as_array().into_iter().flatten();
    entries
        .filter_map(|entry| entry.as_str().or_else(|| entry["id"].as_str()))
        .map(|id| absolute_did_url(did, id))
        .collect()
}

/// The text of a public key as Multikey.
pub fn multikey(kind: KeyKind, key: &[u8; 32]) -> String {
    multibase::encode(Base::Base58Btc, [&kind.multicodec()[..], key].concat())
}

fn public_key(entry: &Value, kind: KeyKind) -> Option<[u8; 32]> {
    let bytes = if let Some(text) = entry["publicKeyMultibase"].as_str() {
        multibase::decode(text).ok()?.1.strip_prefix(&kind.multicodec())?.to_vec()
    } else if let Some(text) = entry["publicKeyBase58"].as_str() {
        // The types of 2018 and 2019 name the algorithm; without one of them, 32 bytes could be a key of any kind.
        let named = entry["type"].as_str().unwrap_or_default();
        if (kind == KeyKind::X25519) != named.starts_with("X25519") {
            return None;
        }
        Base::Base58Btc.decode(text).ok()?
    } else {
        let jwk = &entry["publicKeyJwk"];
        let is_kind = jwk["kty"] == "OKP" && jwk["crv"] == kind.curve();
        BASE64_URL_SAFE_NO_PAD.decode(jwk["x"].as_str().filter(|_| is_kind)?).ok()?
    };
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_found_in_every_form_and_only_for_its_kind() {
        let key = [7; 32];
        let base58 = Base::Base58Btc.encode(key);
        let x = BASE64_URL_SAFE_NO_PAD.encode(key);
        for (entry, signs, agrees) in [
            (
                json!({"id": "#k", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::Ed25519, &key)}),
                true,
                false,
            ),
            (
                json!({"id": "#k", "type": "Multikey", "publicKeyMultibase": multikey(KeyKind::X25519, &key)}),
                false,
                true,
            ),
            (json!({"id": "#k", "type": "Ed25519VerificationKey2018", "publicKeyBase58": base58}), true, false),
            (json!({"id": "did:x:a#k", "type": "X25519KeyAgreementKey2019", "publicKeyBase58": base58}), false, true),
            (json!({"id": "#k", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": x}}), true, false),
            (json!({"id": "#k", "publicKeyJwk": {"kty": "OKP", "crv": "X25519", "x": x}}), false, true),
            (json!({"id": "#k", "publicKeyJwk": {"kty": "EC", "crv": "P-256", "x": x}}), false, false),
            (json!({"id": "#k", "publicKeyMultibase": "zabc"}), false, false),
        ] {
            let embedded = json!({"id": "did:x:a", "authentication": [entry], "keyAgreement": [entry]});
            let listed = json!({"id": "did:x:a", "verificationMethod": [entry],
                "authentication": ["#k"], "keyAgreement": ["did:x:a#k"]});
            for document in [embedded, listed] {
                let found = |relation, kind| method_key(&document, "did:x:a#k", relation, kind, 0);
                let expected = |is_there: bool| if is_there { Ok(key) } else { Err(MethodError::Unusable) };
                assert_eq!(found(KeyRelation::Authentication, KeyKind::Ed25519), expected(signs), "{document}");
                assert_eq!(found(KeyRelation::KeyAgreement, KeyKind::X25519), expected(agrees), "{document}");
                assert!(found(KeyRelation::AssertionMethod, KeyKind::Ed25519).is_err());
                assert_eq!(methods_of(&document, KeyRelation::KeyAgreement), ["did:x:a#k"]);
            }
        }
    }
}
