//! DIDs that hold their own document: did:peer with the methods 4, which agents rotate to, and 2, which some others use.

mod did_peer_2;
mod did_peer_4;

use serde_json::Value;

pub use did_peer_4::{PeerDid, encode};

/// A text is no did:peer that can be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerDidError {
    /// Longer than [`MAX_DID_BYTES`](crate::limits::MAX_DID_BYTES).
    #[error("the DID is too long")]
    TooLong,
    /// Another method, or other parts than it has.
    #[error("it is no did:peer of the methods 2 and 4")]
    Form,
    /// The short form, which holds no document: its sender must have sent the long one before.
    #[error("the short form of did:peer:4 holds no document")]
    Short,
    /// The hash in the DID is not that of its document.
    #[error("the hash of the DID is not that of its document")]
    Hash,
    /// The document is no JSON object, or too deep.
    #[error("the document in the DID is no JSON object")]
    Document,
}

/// Whether a DID is a did:peer.
pub fn is_peer_did(did: &str) -> bool {
    did.starts_with("did:peer:")
}

/// The document that a did:peer holds.
pub fn resolve(did: &str) -> Result<Value, PeerDidError> {
    if did.len() > crate::limits::MAX_DID_BYTES {
        return Err(PeerDidError::TooLong);
    }
    match did.strip_prefix("did:peer:").and_then(|rest| rest.chars().next()) {
        Some('4') => did_peer_4::resolve(did),
        Some('2') => did_peer_2::resolve(did),
        _ => Err(PeerDidError::Form),
    }
}

/// Whether two texts are the same DID: a did:peer:4 has a long and a short form.
pub fn is_same_did(a: &str, b: &str) -> bool {
    a == b || did_peer_4::short_form(a).is_some_and(|short| did_peer_4::short_form(b) == Some(short))
}

/// The form of a DID in which all its forms are equal: the short one of a did:peer:4.
pub fn comparable(did: &str) -> &str {
    did_peer_4::short_form(did).unwrap_or(did)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_and_short_form_are_one_did() {
        let peer = encode(&json!({"authentication": []}));
        let other = encode(&json!({"authentication": [], "x": 1}));
        assert!(is_same_did(&peer.long, &peer.short) && is_same_did(&peer.short, &peer.long));
        assert!(!is_same_did(&peer.long, &other.short) && !is_same_did("did:web:a", "did:web:b"));
        assert_eq!(comparable(&peer.long), peer.short);
        assert_eq!(comparable("did:web:a"), "did:web:a");
    }

    #[test]
    fn what_holds_no_document_is_refused() {
        let peer = encode(&json!({"authentication": []}));
        let (hash, document) = peer.long.rsplit_once(':').expect("two parts");
        let list = multibase::encode(multibase::Base::Base58Btc, b"\x80\x04[]");
        for (did, expected) in [
            (peer.short.clone(), PeerDidError::Short),
            (format!("{hash}x:{document}"), PeerDidError::Hash),
            (format!("{hash}:{}", &document[..document.len() - 1]), PeerDidError::Hash),
            (did_peer_4::of_encoded(&list).long, PeerDidError::Document),
            (did_peer_4::of_encoded("znothing").long, PeerDidError::Document),
            ("did:peer:0z6Mk".to_owned(), PeerDidError::Form),
            ("did:web:a".to_owned(), PeerDidError::Form),
            ("did:peer:".to_owned(), PeerDidError::Form),
            (format!("did:peer:4{}", "z".repeat(9000)), PeerDidError::TooLong),
            ("did:peer:2".to_owned(), PeerDidError::Form),
            ("did:peer:2.Xz6Mk".to_owned(), PeerDidError::Form),
            ("did:peer:2.Vnot".to_owned(), PeerDidError::Form),
            ("did:peer:2.S!!".to_owned(), PeerDidError::Document),
            ("did:peer:2.Sé".to_owned(), PeerDidError::Document),
        ] {
            assert_eq!(resolve(&did), Err(expected), "{did:.60}");
        }
    }
}
