//! Changed logs are refused.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Parses the lines of a log as JSON.
fn json_lines(log: &[u8]) -> Option<Vec<Value>> {
    std::str::from_utf8(log).ok()?.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

/// Asserts that a changed log is refused, or that its lines have the same JSON values (the change is one of white space, escapes or the
/// order of members) and it resolves to the same document.
fn assert_refused_or_equal(name: &str, changed: &[u8], original: &[u8], did: &str, resolved: &VerifiedDocument) {
    let proofs = read_fixture(name, "did-witness.json");
    if let Ok(verified) = resolve(did, changed, proofs.as_deref()) {
        assert_eq!(json_lines(changed), json_lines(original), "{name}: {:?}", String::from_utf8_lossy(changed));
        assert_eq!(&verified, resolved);
    }
}

#[test]
fn no_bit_of_a_log_can_be_flipped() {
    for name in ["services", "witness-threshold"] {
        let log = read_fixture(name, "did.jsonl").expect("a log");
        let did = did_of(&log);
        let resolved = resolve(&did, &log, read_fixture(name, "did-witness.json").as_deref()).expect("it resolves");
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 1 << (at % 8);
            assert_refused_or_equal(name, &changed, &log, &did, &resolved);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_range_of_a_log_can_be_replaced(
        name in prop::sample::select(vec!["basic-update", "key-rotation", "multi-update", "portable-move", "witness-threshold"]),
        at in any::<prop::sample::Index>(),
        taken in 0_usize..3,
        put in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let log = read_fixture(name, "did.jsonl").expect("a log");
        let did = did_of(&log);
        let resolved = resolve(&did, &log, read_fixture(name, "did-witness.json").as_deref()).expect("it resolves");
        let at = at.index(log.len());
        let mut changed = log.clone();
        changed.splice(at..(at + taken).min(log.len()), put);
        assert_refused_or_equal(name, &changed, &log, &did, &resolved);
    }
}
