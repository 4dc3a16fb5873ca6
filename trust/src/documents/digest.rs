//! Digests of documents: of the canonical form (RFC 8785), and of the bytes (Subresource Integrity).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// A digest algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl DigestAlgorithm {
    const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Name on the chain and in integrity texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The algorithm with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    fn digest_base64(self, bytes: &[u8]) -> String {
        match self {
            Self::Sha256 => STANDARD.encode(Sha256::digest(bytes)),
            Self::Sha384 => STANDARD.encode(Sha384::digest(bytes)),
            Self::Sha512 => STANDARD.encode(Sha512::digest(bytes)),
        }
    }
}

/// The canonical form of a JSON value. None when there is no form that identifies the value: a number is outside of the range
/// of a double, or is an integer that a double does not hold exactly.
pub fn canonical_json(value: &Value) -> Option<String> {
    svc_wire::syntax::has_exact_integers(value).then(|| serde_json_canonicalizer::to_string(value).ok())?
}

/// `digestJCS`: digest of the canonical form, in base64 with padding and without a prefix.
pub fn digest_jcs(document: &Value, algorithm: DigestAlgorithm) -> Option<String> {
    Some(algorithm.digest_base64(canonical_json(document)?.as_bytes()))
}

/// Digest of the canonical form as the chain has it, such as `sha384-…`.
pub fn anchored_digest(document: &Value, algorithm: DigestAlgorithm) -> Option<String> {
    Some(format!("{}-{}", algorithm.as_str(), digest_jcs(document, algorithm)?))
}

/// A digest without the name of its algorithm, as tools of the first generation store it.
pub fn bare_digest(digest: &str) -> Option<&str> {
    let prefixes = DigestAlgorithm::ALL.map(|algorithm| format!("{}-", algorithm.as_str()));
    prefixes.iter().find_map(|prefix| digest.strip_prefix(prefix.as_str()))
}

/// The names under which the chain may have a digest: as an integrity text, and without the name of the algorithm, as tools of the first
/// generation store it. The first of several anchors counts.
pub fn digest_forms(digest: &str) -> Vec<String> {
    let named = |algorithm: DigestAlgorithm| format!("{}-{digest}", algorithm.as_str());
    match bare_digest(digest) {
        Some(bare) => vec![digest.to_owned(), bare.to_owned()],
        None => std::iter::once(digest.to_owned()).chain(DigestAlgorithm::ALL.map(named)).collect(),
    }
}

/// Whether the canonical form of a document has this digest of the chain.
pub fn matches_jcs(document: &Value, digest: &str) -> bool {
    let algorithm = digest.split_once('-').and_then(|(name, _)| DigestAlgorithm::from_name(name));
    algorithm.and_then(|algorithm| anchored_digest(document, algorithm)).as_deref() == Some(digest)
}

/// Integrity text of bytes, such as `sha384-…`.
pub fn sri_digest(bytes: &[u8], algorithm: DigestAlgorithm) -> String {
    format!("{}-{}", algorithm.as_str(), algorithm.digest_base64(bytes))
}

/// Whether bytes have this integrity text. A text with an unknown algorithm matches no bytes.
pub fn matches_sri(bytes: &[u8], integrity: &str) -> bool {
    let algorithm = integrity.split_once('-').and_then(|(name, _)| DigestAlgorithm::from_name(name));
    algorithm.is_some_and(|algorithm| sri_digest(bytes, algorithm) == integrity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_is_that_of_the_canonical_form() {
        // SHA-256 of `{"a":1,"b":[true,"é"]}`, made with another implementation.
        let document = json!({"b": [true, "é"], "a": 1.0});
        assert_eq!(canonical_json(&document).as_deref(), Some(r#"{"a":1,"b":[true,"é"]}"#));
        assert_eq!(canonical_json(&json!({"a": [9_007_199_254_740_993_i64]})), None, "a neighbour has the same double");
        assert_eq!(canonical_json(&json!(-9_007_199_254_740_992_i64)).as_deref(), Some("-9007199254740992"));
        assert_eq!(
            digest_jcs(&json!({}), DigestAlgorithm::Sha256).as_deref(),
            Some("RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=")
        );
        assert_eq!(digest_jcs(&document, DigestAlgorithm::Sha384).map(|digest| digest.len()), Some(64));
        assert_eq!(digest_jcs(&document, DigestAlgorithm::Sha512).map(|digest| digest.len()), Some(88));
    }

    #[test]
    fn a_digest_is_looked_up_with_its_algorithm_and_without() {
        let digest = digest_jcs(&json!({}), DigestAlgorithm::Sha384).expect("a digest");
        let text = format!("sha384-{digest}");
        assert_eq!(digest_forms(&text), [text.clone(), digest.clone()]);
        assert_eq!(
            digest_forms(&digest),
            [digest.clone(), format!("sha256-{digest}"), text.clone(), format!("sha512-{digest}")]
        );
        assert_eq!((bare_digest(&text), bare_digest(&digest)), (Some(digest.as_str()), None));
    }

    #[test]
    fn an_integrity_text_matches_only_its_own_bytes() {
        let text = sri_digest(b"x", DigestAlgorithm::Sha384);
        assert!(text.starts_with("sha384-") && matches_sri(b"x", &text));
        for (bytes, integrity) in [(&b"y"[..], text.as_str()), (b"x", "md5-abc"), (b"x", ""), (b"x", "sha384-")] {
            assert!(!matches_sri(bytes, integrity), "{integrity}");
        }
    }
}
