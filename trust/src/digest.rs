//! Digests of documents: over their canonical form (RFC 8785), and over their bytes (Subresource Integrity).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// A digest algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Name on the chain and in integrity texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    fn base64(self, bytes: &[u8]) -> String {
        match self {
            Self::Sha256 => STANDARD.encode(Sha256::digest(bytes)),
            Self::Sha384 => STANDARD.encode(Sha384::digest(bytes)),
            Self::Sha512 => STANDARD.encode(Sha512::digest(bytes)),
        }
    }
}

/// The canonical form of a JSON value. None for one that has none, such as a number beyond the range of a double, or that has that of
/// another value, such as an integer that a double does not hold exactly.
pub fn canonical(value: &Value) -> Option<String> {
    svc_wire::syntax::has_plain_integers(value).then(|| serde_json_canonicalizer::to_string(value).ok())?
}

/// `digestJCS`: base64, with padding and without a prefix, of the digest of the canonical form.
pub fn digest_jcs(document: &Value, algorithm: Algorithm) -> Option<String> {
    Some(algorithm.base64(canonical(document)?.as_bytes()))
}

/// `sha384-…`: the digest of bytes as they are.
pub fn sri(bytes: &[u8], algorithm: Algorithm) -> String {
    format!("{}-{}", algorithm.as_str(), algorithm.base64(bytes))
}

/// Whether bytes have an integrity text. One that names no known algorithm matches nothing.
pub fn matches_sri(bytes: &[u8], integrity: &str) -> bool {
    let algorithm = integrity.split_once('-').and_then(|(name, _)| Algorithm::named(name));
    algorithm.is_some_and(|algorithm| sri(bytes, algorithm) == integrity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digests_are_those_of_the_canonical_form() {
        // SHA-256 of `{"a":1,"b":[true,"é"]}`, made with another implementation.
        let document = json!({"b": [true, "é"], "a": 1.0});
        assert_eq!(canonical(&document).as_deref(), Some(r#"{"a":1,"b":[true,"é"]}"#));
        assert_eq!(
            canonical(&json!({"a": [9_007_199_254_740_993_i64]})),
            None,
            "it would say the same as its neighbour"
        );
        assert_eq!(canonical(&json!(-9_007_199_254_740_992_i64)).as_deref(), Some("-9007199254740992"));
        assert_eq!(
            digest_jcs(&json!({}), Algorithm::Sha256).as_deref(),
            Some("RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=")
        );
        assert_eq!(digest_jcs(&document, Algorithm::Sha384).map(|digest| digest.len()), Some(64));
        assert_eq!(digest_jcs(&document, Algorithm::Sha512).map(|digest| digest.len()), Some(88));
    }

    #[test]
    fn an_integrity_text_matches_its_bytes_alone() {
        let text = sri(b"x", Algorithm::Sha384);
        assert!(text.starts_with("sha384-") && matches_sri(b"x", &text));
        for (bytes, integrity) in [(&b"y"[..], text.as_str()), (b"x", "md5-abc"), (b"x", ""), (b"x", "sha384-")] {
            assert!(!matches_sri(bytes, integrity), "{integrity}");
        }
    }
}
