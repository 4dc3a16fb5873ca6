//! Logs of others, and logs made to deceive.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::did::forge::{Forge, Key, witnessed_by};

fn resolve(did: &str, log: &[u8], witnesses: Option<&[u8]>) -> Result<Verified, LogError> {
    let scid = did.split(':').nth(2).expect("a SCID");
    let log = Log::read(did, scid, log)?;
    log.verify(log.needs_witnesses().then_some(()).and(witnesses))
}

fn verdict(log: &Forge) -> Result<Verified, LogError> {
    resolve(&log.did, log.text().as_bytes(), None)
}

fn fixture(name: &str, file: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/didwebvh").join(name).join(file);
    std::fs::read(path).ok()
}

fn did_of(log: &[u8]) -> String {
    let text = std::str::from_utf8(log).expect("text");
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an entry");
    last["state"]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn the_methods_own_vectors_resolve_to_their_results() {
    for name in [
        "basic-create",
        "basic-update",
        "key-rotation",
        "multi-update",
        "multiple-update-keys",
        "portable",
        "portable-move",
        "pre-rotation",
        "pre-rotation-consume",
        "services",
        "witness-threshold",
    ] {
        let log = fixture(name, "did.jsonl").expect("a log");
        let result = fixture(name, "resolutionResult.json").expect("a result");
        let mut expected: Value = serde_json::from_slice(&result).expect("a result");
        let mut expected = expected["didDocument"].take();
        let did = did_of(&log);
        // The suite writes the services that the method adds with relative ids; here they are URLs, as DID Core wants ids of services.
        for service in expected["service"].as_array_mut().into_iter().flatten() {
            if let Some(fragment @ ("#files" | "#whois")) = service["id"].as_str() {
                service["id"] = format!("{did}{fragment}").into();
            }
        }
        let verified = resolve(&did, &log, fixture(name, "did-witness.json").as_deref()).expect(name);
        assert_eq!(verified.document, expected, "{name}");
        assert_eq!(verified.ttl, None, "{name}");
    }
}

#[test]
fn vectors_that_must_not_resolve_say_why() {
    let log = fixture("deactivate", "did.jsonl").expect("a log");
    assert_eq!(resolve(&did_of(&log), &log, None), Err(LogError::Deactivated));
    // Its last entry lowers the threshold that it has to reach. The suite's result takes that, the text of the method does not:
    // witnesses change after the entry that changes them.
    let (log, proofs) =
        (fixture("witness-update", "did.jsonl").expect("a log"), fixture("witness-update", "did-witness.json"));
    let refused = resolve(&did_of(&log), &log, proofs.as_deref()).expect_err("refused");
    assert!(matches!(&refused, LogError::Witness(reason) if reason.contains("threshold")), "{refused:?}");
    // Witnesses that nobody heard.
    let log = fixture("witness-threshold", "did.jsonl").expect("a log");
    for proofs in [None, Some(&b"[]"[..])] {
        assert!(matches!(resolve(&did_of(&log), &log, proofs), Err(LogError::Witness(_))));
    }
    for proofs in ["", "{}", "[{}]", "\u{0}", "[[[[", "[{\"versionId\":\"x\",\"proof\":[]}]"] {
        let refused = resolve(&did_of(&log), &log, Some(proofs.as_bytes())).expect_err("refused");
        assert!(matches!(refused, LogError::Witness(_)), "{proofs}: {refused:?}");
    }
}

#[test]
fn a_log_made_after_the_text_of_the_method_resolves() {
    let (first, second, third) = (Key::new(1), Key::new(2), Key::new(3));
    let mut log = Forge::new("example.org%3A8443:agents:a", &first, |entry| {
        entry["parameters"]["ttl"] = 60.into();
        entry["parameters"]["portable"] = true.into();
    });
    log.add(&first, |entry| {
        entry["parameters"] = json!({"updateKeys": [second.public], "nextKeyHashes": [third.hash()]})
    });
    log.add(&third, |entry| {
        entry["parameters"] = json!({"updateKeys": [third.public], "nextKeyHashes": [], "ttl": 90})
    });
    log.add(&third, |entry| {
        entry["state"]["service"] =
            json!([{"id": "#admin-api", "type": "VsAgentAdminAPI", "serviceEndpoint": "https://a.example"}]);
    });
    let verified = verdict(&log).expect("it resolves");
    assert_eq!(verified.ttl, Some(90));
    let kinds: Vec<&Value> =
        verified.document["service"].as_array().expect("services").iter().map(|service| &service["type"]).collect();
    assert_eq!(kinds, ["VsAgentAdminAPI", "relativeRef", "LinkedVerifiablePresentation"]);
    // Moved: the new DID resolves, the old one is another document's.
    let old = log.did.clone();
    let new = format!("did:webvh:{}:b.example.org", log.scid);
    log.add(&third, |entry| {
        entry["state"]["id"] = new.as_str().into();
        entry["state"]["alsoKnownAs"] = json!([old]);
    });
    assert!(matches!(verdict(&log), Err(LogError::Document(reason)) if reason.contains(&new)));
    assert_eq!(resolve(&new, log.text().as_bytes(), None).expect("moved").document["id"], new.as_str());
}

/// Whether a log is refused as broken, for a reason that tells.
fn is_broken(log: &Forge, told: &str) {
    match verdict(log) {
        Err(LogError::Invalid(reason)) => assert!(reason.contains(told), "{told}: {reason}"),
        other => panic!("{told}: {other:?}"),
    }
}

#[test]
fn every_rule_of_the_method_is_enforced() {
    let (own, other) = (Key::new(1), Key::new(2));
    let new = |change: &dyn Fn(&mut Value)| Forge::new("example.org", &own, change);
    let parameter =
        |name: &'static str, value: Value| move |entry: &mut Value| entry["parameters"][name] = value.clone();
    let plain = || new(&|_| {});

    // Keys.
    is_broken(&new(&parameter("updateKeys", json!([other.public]))), "not authorized");
    is_broken(&new(&parameter("updateKeys", json!([]))), "cannot be empty");
    is_broken(plain().add(&other, |_| {}), "not authorized");
    is_broken(plain().add(&other, parameter("updateKeys", json!([other.public]))), "not authorized");
    let mut rotated = plain();
    rotated.add(&own, parameter("updateKeys", json!([other.public])));
    assert!(verdict(&rotated).is_ok());
    is_broken(rotated.add(&own, |_| {}), "not authorized");
    is_broken(plain().add(&own, parameter("updateKeys", json!([]))).add(&own, |_| {}), "takes all update keys away");
    assert!(verdict(plain().add(&own, parameter("updateKeys", json!([])))).is_ok());

    // Keys announced before.
    let announced = || new(&parameter("nextKeyHashes", json!([other.hash()])));
    let keys = |key: &Key, next: &[&Key]| {
        let next: Vec<String> = next.iter().map(|key| key.hash()).collect();
        json!({"updateKeys": [key.public], "nextKeyHashes": next})
    };
    assert!(verdict(announced().add(&other, |entry| entry["parameters"] = keys(&other, &[&own]))).is_ok());
    is_broken(announced().add(&own, |entry| entry["parameters"] = keys(&own, &[&own])), "nextKeyHashes");
    is_broken(announced().add(&own, |entry| entry["parameters"] = keys(&own, &[])), "nextKeyHashes");
    is_broken(announced().add(&own, |_| {}), "nextKeyHashes");
    is_broken(announced().add(&other, parameter("updateKeys", json!([other.public]))), "nextKeyHashes");

    // Whose it is.
    let state = |state: Value| move |entry: &mut Value| entry["state"] = state.clone();
    is_broken(plain().add(&own, state(json!({}))).add(&own, |_| {}), "its id null is no DID with this SCID");
    is_broken(plain().add(&own, state(json!({"id": "did:web:example.org"}))), "is no DID with this SCID");
    is_broken(plain().add(&own, state(json!({"id": "did:webvh:QmOther:example.org"}))), "is no DID with this SCID");
    is_broken(&new(&|entry| entry["state"]["n"] = 9_007_199_254_740_993_u64.into()), "a double does not hold exactly");
    for number in ["+2", "02", "3"] {
        let mut renumbered = plain();
        renumbered.add(&own, |_| {});
        let id = renumbered.entries[1]["versionId"].as_str().expect("an id").replacen('2', number, 1);
        renumbered.entries[1]["versionId"] = id.into();
        is_broken(&renumbered, "its versionId is");
    }
    is_broken(&new(&parameter("nextKeyHashes", json!(vec!["x"; 101]))), "more than 100 nextKeyHashes");

    // Times.
    let at = |time: &'static str| move |entry: &mut Value| entry["versionTime"] = time.into();
    is_broken(&new(&at("2999-01-01T00:00:00Z")), "future");
    is_broken(plain().add(&own, at("2020-01-01T00:00:00Z")), "versionTime");
    is_broken(plain().add(&own, at("2019-12-31T23:59:59Z")), "versionTime");
    is_broken(&new(&at("2020-01-01T00:00:00.5Z")), "\"versionTime\" cannot be verified as it is written");
    is_broken(&new(&at("2020-01-01T00:00:00+00:00")), "\"versionTime\" cannot be verified as it is written");

    // Form.
    is_broken(&new(&parameter("method", json!("did:webvh:0.5"))), "its method is");
    is_broken(
        &new(&|entry| drop(entry["parameters"].as_object_mut().map(|all| all.remove("method")))),
        "its method is",
    );
    is_broken(&new(&parameter("method", Value::Null)), "\"method\" in \"parameters\" cannot be verified");
    is_broken(plain().add(&own, parameter("method", json!("did:webvh:2.0"))), "its method is");
    is_broken(&new(&parameter("extra", json!(1))), "\"extra\" in \"parameters\" cannot be verified as it is written");
    is_broken(&new(&|entry| entry["extra"] = 1.into()), "\"extra\" cannot be verified as it is written");
    is_broken(plain().add(&own, parameter("scid", json!("x"))), "scid");
    is_broken(plain().add(&own, parameter("portable", json!(true))), "ortable");
    is_broken(&new(&parameter("deactivated", json!(true))), "deactivated");
    is_broken(&new(&|entry| entry["state"]["id"] = "did:webvh:other:example.org".into()), "SCID");
    is_broken(plain().add(&own, |entry| entry["state"]["id"] = "did:webvh:other:example.org".into()), "SCID");
    let moved = |scid: &str| format!("did:webvh:{scid}:b.example.org");
    let scid = plain().scid;
    is_broken(plain().add(&own, |entry| entry["state"]["id"] = moved(&scid).into()), "portable");
    let services = plain().add(&own, |entry| entry["state"]["service"] = "x".into()).text();
    assert!(matches!(resolve(&plain().did, services.as_bytes(), None), Err(LogError::Document(_))));

    // Order.
    let mut ended = plain();
    ended.add(&own, parameter("deactivated", json!(true)));
    assert_eq!(verdict(&ended), Err(LogError::Deactivated));
    is_broken(ended.add(&own, |_| {}), "past the deactivation");
    let whole = {
        let mut log = plain();
        log.add(&own, |_| {}).add(&own, |_| {});
        log
    };
    for order in [&[0, 2][..], &[1, 2], &[1, 0, 2], &[0, 1, 1, 2], &[0, 2, 1], &[0, 0], &[]] {
        let entries = order.iter().map(|index| whole.entries[*index].clone()).collect();
        let log = Forge { entries, did: whole.did.clone(), scid: whole.scid.clone() };
        assert!(matches!(verdict(&log), Err(LogError::Invalid(_) | LogError::Scid(_))), "{order:?}");
    }
    // A log that is cut short cannot be told from one that never was longer.
    let cut = Forge { entries: whole.entries[..2].to_vec(), did: whole.did.clone(), scid: whole.scid.clone() };
    assert!(verdict(&cut).is_ok());
}

#[test]
fn another_dids_log_is_told_from_a_broken_one() {
    let (own, other) = (Key::new(1), Key::new(2));
    let victim = Forge::new("example.org", &own, |_| {});
    // Somebody's own log under the DID of another: hashes and proofs are right, the SCID is not.
    let mut thief = Forge::new("example.org", &other, |_| {});
    thief.claim(&victim.scid, &other);
    assert_eq!(thief.did, victim.did);
    let refused = verdict(&thief).expect_err("refused");
    assert!(matches!(&refused, LogError::Scid(reason) if reason.contains("makes the SCID")), "{refused:?}");
    // Another log altogether.
    let log = Forge::new("example.org", &other, |_| {});
    let refused = resolve(&victim.did, log.text().as_bytes(), None).expect_err("refused");
    assert_eq!(refused, LogError::Scid(format!("it has the SCID {:?}", log.scid)));
    // What was changed after the DID was made, hash or proof.
    for (pointer, code) in [("/state/@context/0", "scid"), ("/versionId", "log"), ("/proof/0/proofValue", "log")] {
        let mut log = Forge::new("example.org", &own, |_| {});
        let value = log.entries[0].pointer_mut(pointer).expect("a value");
        *value = value.as_str().expect("text").replace(['2', 'h'], "3").into();
        let refused = verdict(&log).expect_err("refused");
        assert_eq!(matches!(refused, LogError::Scid(_)), code == "scid", "{pointer}: {refused:?}");
        assert_eq!(matches!(refused, LogError::Invalid(_)), code == "log", "{pointer}: {refused:?}");
    }
}

#[test]
fn witnesses_are_heard_from_the_entry_that_names_them() {
    let (own, one, two, stranger) = (Key::new(1), Key::new(11), Key::new(12), Key::new(13));
    let with = |threshold| {
        move |entry: &mut Value| {
            entry["parameters"]["witness"] = witnessed_by(threshold, &[&Key::new(11), &Key::new(12)]);
        }
    };
    let heard = |log: &Forge, proofs: Vec<Value>| {
        resolve(&log.did, log.text().as_bytes(), Some(Value::Array(proofs).to_string().as_bytes())).map(|_| ())
    };
    let first = Forge::new("example.org", &own, with(2));
    assert_eq!(heard(&first, vec![first.approval(0, &[&one, &two])]), Ok(()));
    for proofs in [
        vec![],
        vec![first.approval(0, &[&one])],
        vec![first.approval(0, &[&one, &one])],
        vec![first.approval(0, &[&one, &stranger])],
    ] {
        assert!(matches!(heard(&first, proofs), Err(LogError::Witness(_))));
    }
    // Named by the second entry, which they have to approve, or a later one.
    let mut second = Forge::new("example.org", &own, |_| {});
    second.add(&own, with(1));
    assert!(matches!(heard(&second, vec![]), Err(LogError::Witness(_))), "it is the entry that names them");
    assert!(matches!(heard(&second, vec![second.approval(0, &[&one])]), Err(LogError::Witness(_))), "too early");
    assert_eq!(heard(&second, vec![second.approval(1, &[&one])]), Ok(()));
    second.add(&own, |_| {});
    assert_eq!(heard(&second, vec![second.approval(2, &[&two])]), Ok(()), "a later word covers what was before");
    // Dismissed by an entry that they still have to approve.
    second.add(&own, |entry| entry["parameters"]["witness"] = json!({}));
    assert!(matches!(heard(&second, vec![second.approval(2, &[&two])]), Err(LogError::Witness(_))));
    assert_eq!(heard(&second, vec![second.approval(3, &[&two])]), Ok(()));
    second.add(&own, |_| {});
    assert_eq!(heard(&second, vec![second.approval(3, &[&two])]), Ok(()), "nobody is asked any more");
    // Words about another log.
    let elsewhere = Forge::new("other.example.org", &own, with(1));
    assert!(matches!(heard(&second, vec![elsewhere.approval(0, &[&one])]), Err(LogError::Witness(_))));
    let duplicate =
        Forge::new("example.org", &own, |entry| entry["parameters"]["witness"] = witnessed_by(2, &[&one, &one]));
    assert!(heard(&duplicate, vec![duplicate.approval(0, &[&one])]).is_err());
}

#[test]
fn work_is_bounded_before_it_is_done() {
    let own = Key::new(1);
    let log = Forge::new("example.org", &own, |_| {});
    let line = log.text();
    let too_long = |text: &str| match resolve(&log.did, text.as_bytes(), None) {
        Err(LogError::TooLong(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(too_long(&line.repeat(MAX_ENTRIES + 1)).contains("1000 entries"));
    let witnesses: Vec<Key> = (0..=100).map(Key::new).collect();
    let named: Vec<&Key> = witnesses.iter().collect();
    let mut many = Forge::new("example.org", &own, |entry| entry["parameters"]["witness"] = witnessed_by(1, &named));
    for _ in 0..99 {
        many.add(&own, |_| {});
    }
    let refused = resolve(&many.did, many.text().as_bytes(), Some(b"[]")).expect_err("refused");
    assert!(matches!(&refused, LogError::TooLong(reason) if reason.contains("10000 times")), "{refused:?}");
    // Base58 of this length takes half a minute.
    let long = format!("z{}", "x".repeat(400_000));
    for (member, value) in [("proofValue", long.clone()), ("verificationMethod", format!("did:key:{long}#{long}"))] {
        let mut log = Forge::new("example.org", &own, |_| {});
        log.entries[0]["proof"][0][member] = value.into();
        is_broken(&log, "more than 512 characters");
    }
    let mut witnessed =
        Forge::new("example.org", &own, |entry| entry["parameters"]["witness"] = witnessed_by(1, &[&own]));
    let mut approval = witnessed.approval(0, &[&own]);
    approval["proof"][0]["proofValue"] = long.into();
    let proofs = json!([approval]).to_string();
    let refused = resolve(&witnessed.did, witnessed.text().as_bytes(), Some(proofs.as_bytes())).expect_err("refused");
    assert!(matches!(&refused, LogError::Witness(reason) if reason.contains("512")), "{refused:?}");
    witnessed.entries.clear();
    is_broken(&witnessed, "empty");
    for text in [&b"\xff"[..], b"\n", b"{}", b"null", b"[]", b"<html>", b"{\"parameters\":{}}"] {
        assert!(matches!(resolve(&log.did, text, None), Err(LogError::Invalid(_))), "{text:?}");
    }
}

/// A log, with the values its lines say.
fn values(log: &[u8]) -> Option<Vec<Value>> {
    std::str::from_utf8(log).ok()?.lines().map(|line| serde_json::from_str(line).ok()).collect()
}

/// A changed log is refused, or its lines say the same JSON values as before (white space, escapes, the order of members) and it resolves
/// to the same.
fn is_refused_or_the_same(name: &str, changed: &[u8], original: &[u8], did: &str, resolved: &Verified) {
    let proofs = fixture(name, "did-witness.json");
    if let Ok(verified) = resolve(did, changed, proofs.as_deref()) {
        assert_eq!(values(changed), values(original), "{name}: {:?}", String::from_utf8_lossy(changed));
        assert_eq!(&verified, resolved);
    }
}

#[test]
fn no_byte_of_a_log_can_be_turned() {
    for name in ["services", "witness-threshold"] {
        let log = fixture(name, "did.jsonl").expect("a log");
        let did = did_of(&log);
        let resolved = resolve(&did, &log, fixture(name, "did-witness.json").as_deref()).expect("it resolves");
        for at in 0..log.len() {
            let mut changed = log.clone();
            changed[at] ^= 1 << (at % 8);
            is_refused_or_the_same(name, &changed, &log, &did, &resolved);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_in_a_log_can_be_changed(
        name in prop::sample::select(vec!["basic-update", "key-rotation", "multi-update", "portable-move", "witness-threshold"]),
        at in any::<prop::sample::Index>(),
        taken in 0_usize..3,
        put in prop::collection::vec(any::<u8>(), 0..3),
    ) {
        let log = fixture(name, "did.jsonl").expect("a log");
        let did = did_of(&log);
        let resolved = resolve(&did, &log, fixture(name, "did-witness.json").as_deref()).expect("it resolves");
        let at = at.index(log.len());
        let mut changed = log.clone();
        changed.splice(at..(at + taken).min(log.len()), put);
        is_refused_or_the_same(name, &changed, &log, &did, &resolved);
    }
}
