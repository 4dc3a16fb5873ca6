//! The difference between agents and sessions.

use super::core::{SessionChanges, compare_sessions};

#[test]
fn sessions_follow_the_agents_of_the_snapshot() {
    let changes = |agents: &[&'static str], running: &[&'static str]| {
        compare_sessions(agents.iter().copied(), running.iter().copied())
    };
    let owned = |dids: &[&str]| dids.iter().map(|did| (*did).to_owned()).collect::<Vec<_>>();
    assert_eq!(changes(&[], &[]), SessionChanges::default());
    let expected = SessionChanges { ended: owned(&["did:a"]), missing: owned(&["did:c"]) };
    assert_eq!(changes(&["did:b", "did:c", "did:c"], &["did:a", "did:b"]), expected);
}

#[test]
fn the_number_of_sessions_is_bounded() {
    let dids: Vec<String> = (0..2_000).map(|number| format!("did:web:{number:04}")).collect();
    let changes = compare_sessions(dids.iter().map(String::as_str), std::iter::empty());
    assert_eq!(changes.missing.len(), 1_024);
}
