//! `from_prior`: the holder of one DID says by its signature that it goes on under another, or ends.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::{Value, json};
use svc_wire::{
    strict_json::parse_strict_json,
    verification_method::{KeyKind, KeyRelation, did_of_url, method_key},
};

use crate::{limits, peer_did::is_same_did, refusal::Refusal};

/// Levels of header and claims: both are flat.
const MAX_LEVELS: usize = 4;

/// A `from_prior` whose form was checked, and whose signature was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromPrior {
    /// The DID that is given up.
    pub issuer: String,
    /// The DID that continues it; nothing when the connection ends.
    pub subject: Option<String>,
    /// Seconds since the epoch.
    pub issued_at: i64,
    key_id: String,
    signed: String,
    signature: Signature,
}

impl FromPrior {
    /// Reads the compact JWT.
    pub fn read(jwt: &str) -> Result<Self, Refusal> {
        Self::read_parts(jwt).ok_or(Refusal::FromPriorForm)
    }

    fn read_parts(jwt: &str) -> Option<Self> {
        let (signed, signature) = jwt.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let part = |text: &str| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
            parse_strict_json(&bytes, MAX_LEVELS).ok().filter(Value::is_object)
        };
        let (header, claims) = (part(header)?, part(claims)?);
        if header["alg"] != "EdDSA" || header.get("crit").is_some() {
            return None;
        }
        let did = |value: &Value| {
            value
                .as_str()
                .filter(|did| did.starts_with("did:") && did.len() <= limits::MAX_DID_BYTES)
                .map(str::to_owned)
        };
        let issuer = did(&claims["iss"])?;
        let subject = match claims.get("sub") {
            None | Some(Value::Null) => None,
            Some(subject) => Some(did(subject)?),
        };
        let named = header["kid"].as_str()?;
        // Next to a did:peer the key id may leave the DID out.
        let key_id = if named.starts_with('#') { format!("{issuer}{named}") } else { named.to_owned() };
        let signature = Signature::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let issued_at = claims["iat"].as_i64()?;
        Some(Self { issuer, subject, issued_at, key_id, signed: signed.to_owned(), signature })
    }

    /// Checks the signature, by a key under `authentication` of the issuer, whose resolved document is given. `now` is in
    /// seconds since the epoch.
    pub fn verify(&self, issuer_document: &Value, now: i64) -> Result<(), Refusal> {
        let did = issuer_document["id"].as_str().ok_or(Refusal::FromPriorProof)?;
        let named = did_of_url(&self.key_id);
        let fragment = self.key_id.strip_prefix(named).unwrap_or_default();
        if !is_same_did(&self.issuer, did) || !is_same_did(named, did) {
            return Err(Refusal::FromPriorProof);
        }
        let nanos = i128::from(now) * 1_000_000_000;
        let method = format!("{did}{fragment}");
        let key = method_key(issuer_document, &method, KeyRelation::Authentication, KeyKind::Ed25519, nanos);
        let key = key.ok().and_then(|key| VerifyingKey::from_bytes(&key).ok()).filter(|key| !key.is_weak());
        let key = key.ok_or(Refusal::FromPriorProof)?;
        key.verify_strict(self.signed.as_bytes(), &self.signature).map_err(|_| Refusal::FromPriorProof)
    }

    /// Whether it was made about now. One that repeats a rotation that was taken before may be of any time.
    pub fn is_fresh(&self, now: i64) -> bool {
        self.issued_at.abs_diff(now) <= limits::CLOCK_SKEW_SECONDS.unsigned_abs()
    }
}

/// Makes a `from_prior` with a key under `authentication` of the issuer. `key_id` is an absolute DID URL.
pub fn make_from_prior(key: &SigningKey, key_id: &str, issuer: &str, subject: Option<&str>, issued_at: i64) -> String {
    let header = json!({"alg": "EdDSA", "kid": key_id, "typ": "JWT", "crv": "Ed25519"});
    let mut claims = json!({"iss": issuer, "iat": issued_at});
    if let Some(subject) = subject {
        claims["sub"] = json!(subject);
    }
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes());
    format!("{signed}.{signature}")
}
