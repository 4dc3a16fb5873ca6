//! The names of the agent's transactions in the journal of its account.

/// Returns the name of the transactions that have a version of the document resolved again.
pub(crate) fn resolution_key(did: &str, version: u64) -> String {
    format!("resolution/{did}/{version}")
}

/// Returns the version in such a name, for a DID.
pub(crate) fn resolution_version(did: &str, key: &str) -> Option<u64> {
    key.strip_prefix("resolution/")?.strip_prefix(did)?.strip_prefix('/')?.parse().ok()
}

/// Returns the name of the transactions that anchor a credential. `session` is the id of its session.
pub(crate) fn session_key(did: &str, session: &str) -> String {
    format!("session/{did}/{session}")
}

/// Returns the session in such a name, for a DID.
pub(crate) fn session_of(did: &str, key: &str) -> Option<String> {
    key.strip_prefix("session/")?.strip_prefix(did)?.strip_prefix('/').map(str::to_owned)
}
