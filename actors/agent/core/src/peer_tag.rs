//! The name of a peer in logs, metrics and traces.

use sha2::{Digest, Sha256};

/// A name of a peer that says nothing about it, for logs and metrics: the beginning of a hash.
pub fn peer_tag(did: &str) -> String {
    Sha256::digest(did).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
