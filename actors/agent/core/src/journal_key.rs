//! The names of the agent's transactions in the journal of its account.

/// Returns the name of the transactions that have a version of the document resolved again.
pub fn resolution_key(did: &str, version: u64) -> String {
    format!("resolution/{did}/{version}")
}

/// Returns the version in such a name, for a DID.
pub fn resolution_version(did: &str, key: &str) -> Option<u64> {
    key.strip_prefix("resolution/")?.strip_prefix(did)?.strip_prefix('/')?.parse().ok()
}

/// Returns the name of the transactions that anchor a credential. `session` is the id of its session.
pub fn session_key(did: &str, session: &str) -> String {
    format!("session/{did}/{session}")
}

/// Returns the session in such a name, for a DID.
pub fn session_of(did: &str, key: &str) -> Option<String> {
    key.strip_prefix("session/")?.strip_prefix(did)?.strip_prefix('/').map(str::to_owned)
}

/// Returns the name of the transactions that pay for the credential of a round of a flow, and anchor it. Where others had paid for records
/// of the session, it is another credential than that of the usual name.
pub fn flow_session_key(session: &str, round: u32, paid_before: usize) -> String {
    match paid_before {
        0 => format!("session:{session}:{round}"),
        others => format!("session:{session}:{round}:{others}"),
    }
}

/// Returns the session and the round in such a name.
pub fn flow_session_of(key: &str) -> Option<(&str, u32)> {
    let (session, round) = key.strip_prefix("session:")?.split_once(':')?;
    let round = round.split_once(':').map_or(round, |(round, _)| round);
    Some((session, round.parse().ok()?))
}

/// Returns the name of the transactions of one attempt to validate a participant.
pub fn validation_key(session: &str, round: u32, attempt: u32) -> String {
    format!("validation:{session}:{round}:{attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_and_the_round_of_a_name_are_read_again() {
        for (paid_before, expected) in [(0, "session:a-1:7"), (2, "session:a-1:7:2")] {
            let key = flow_session_key("a-1", 7, paid_before);
            assert_eq!((key.as_str(), flow_session_of(&key)), (expected, Some(("a-1", 7))));
        }
        assert_eq!(flow_session_of("session/did:web:a/b"), None);
    }
}
