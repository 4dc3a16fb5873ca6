//! A compact JWS with an Ed25519 signature, and the reasons for which one is refused.
//!
//! The tool server reads tokens of an OAuth issuer with a library, `jsonwebtoken`. That library is not used here: its Ed25519 accepts keys
//! of small order, under which signatures verify that were never made, and the keys here come from documents of strangers; it ignores
//! unknown and repeated members of a header; and it writes the members of a header in its own order, while the texts of tokens are fixed.
//! Nor does this reader serve OAuth, whose issuers sign with RSA and P-256.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde_json::{Map, Value, json};
use svc_wire::{
    endpoint_access::MAX_TOKEN_BYTES,
    strict_json::parse_strict_json,
    verification_method::{KeyKind, KeyRelation, did_of_url, method_key},
};

use super::LEEWAY_SECONDS;

/// Levels of a header, and of claims with a credential.
const HEADER_LEVELS: usize = 2;
const CLAIM_LEVELS: usize = 32;

/// The reason for which a token or presentation is refused, in the order of the checks. It is for telemetry; the caller of an endpoint
/// gets one text for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessRejection {
    /// It is too long.
    Length,
    /// It is no compact JWS, or its header is not exactly the expected one.
    Header,
    /// It is of another issuer.
    Issuer,
    /// The issuer's document does not allow the key for this use.
    Key,
    /// The signature does not match.
    Signature,
    /// It is for another endpoint.
    Audience,
    /// It is not valid yet, has ended, or lasts too long.
    Time,
    /// Every token of its time is void.
    Void,
    /// It was revoked, or used before.
    Revoked,
    /// Its subject is no DID, or another one than expected.
    Subject,
    /// One of its scopes is unknown.
    Scope,
    /// Its claims have another form.
    Claims,
}

impl AccessRejection {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Length,
        Self::Header,
        Self::Issuer,
        Self::Key,
        Self::Signature,
        Self::Audience,
        Self::Time,
        Self::Void,
        Self::Revoked,
        Self::Subject,
        Self::Scope,
        Self::Claims,
    ];

    /// The name for telemetry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Header => "header",
            Self::Issuer => "issuer",
            Self::Key => "key",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Time => "time",
            Self::Void => "void",
            Self::Revoked => "revoked",
            Self::Subject => "subject",
            Self::Scope => "scope",
            Self::Claims => "claims",
        }
    }
}

/// A compact JWS whose form was checked, and whose signature was not.
#[derive(Debug, Clone)]
pub(super) struct CompactJws {
    pub key_id: String,
    pub claims: Map<String, Value>,
    signed: String,
    signature: Signature,
}

impl CompactJws {
    /// Reads a text whose header has exactly the members `alg`, `typ` and `kid`.
    pub fn read(text: &str, kind: &str) -> Result<Self, AccessRejection> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(AccessRejection::Length);
        }
        Self::read_parts(text, kind).ok_or(AccessRejection::Header)
    }

    fn read_parts(text: &str, kind: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let object = |part: &str, levels| match parse_strict_json(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?, levels) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        };
        let members = object(header, HEADER_LEVELS)?;
        let is_expected = members.len() == 3 && members.get("alg")? == "EdDSA" && members.get("typ")? == kind;
        let key_id = members.get("kid")?.as_str().filter(|_| is_expected)?.to_owned();
        let claims = object(claims, CLAIM_LEVELS)?;
        let signature = Signature::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let (signed, _) = text.rsplit_once('.')?;
        Some(Self { key_id, claims, signed: signed.to_owned(), signature })
    }

    /// The DID of the key.
    pub fn signer(&self) -> &str {
        did_of_url(&self.key_id)
    }

    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name).and_then(Value::as_str)
    }

    /// Checks that the key stands under a relationship of its DID's document. `now` is in seconds since the epoch.
    pub fn key(&self, document: &Value, relation: KeyRelation, now: i64) -> Result<VerifyingKey, AccessRejection> {
        if document["id"] != self.signer() {
            return Err(AccessRejection::Key);
        }
        let nanos = i128::from(now) * 1_000_000_000;
        let key = method_key(document, &self.key_id, relation, KeyKind::Ed25519, nanos);
        // With a key of small order, signatures verify that were never made.
        let key = key.ok().and_then(|key| VerifyingKey::from_bytes(&key).ok()).filter(|key| !key.is_weak());
        key.ok_or(AccessRejection::Key)
    }

    /// Checks the signature.
    pub fn verify(&self, key: &VerifyingKey) -> Result<(), AccessRejection> {
        key.verify_strict(self.signed.as_bytes(), &self.signature).map_err(|_| AccessRejection::Signature)
    }

    /// Checks `iat` and `exp`, and that at most `max_seconds` lie between them. Returns both.
    pub fn check_times(&self, max_seconds: i64, now: i64) -> Result<(i64, i64), AccessRejection> {
        let instant = |name: &str| self.claims.get(name).and_then(Value::as_i64).ok_or(AccessRejection::Time);
        let (issued_at, expires_at) = (instant("iat")?, instant("exp")?);
        let life = expires_at.checked_sub(issued_at).ok_or(AccessRejection::Time)?;
        let has_begun = issued_at <= now + LEEWAY_SECONDS;
        let lasts = expires_at > now - LEEWAY_SECONDS;
        if has_begun && lasts && (0..=max_seconds).contains(&life) {
            Ok((issued_at, expires_at))
        } else {
            Err(AccessRejection::Time)
        }
    }
}

/// Makes a compact JWS. Ed25519 is deterministic: equal claims and keys make equal texts.
pub(super) fn sign(kind: &str, key_id: &str, claims: &Value, key: &SigningKey) -> String {
    let header = json!({"alg": "EdDSA", "typ": kind, "kid": key_id});
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).to_bytes());
    format!("{signed}.{signature}")
}
