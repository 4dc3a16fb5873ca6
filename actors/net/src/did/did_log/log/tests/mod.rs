//! Tests of the verification with the vectors of the method and with built logs.

mod tampering;
mod witnesses;

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::did::log_builder::{DidLogBuilder, LogSigningKey, witness_parameter};

fn resolve(did: &str, log: &[u8], witnesses: Option<&[u8]>) -> Result<VerifiedDocument, DidLogError> {
    let scid = did.split(':').nth(2).expect("a SCID");
    let log = DidLog::parse(did, scid, log)?;
    log.verify(log.needs_witnesses().then_some(()).and(witnesses))
}

fn resolve_built_log(log: &DidLogBuilder) -> Result<VerifiedDocument, DidLogError> {
    resolve(&log.did, log.text().as_bytes(), None)
}

fn read_fixture(name: &str, file: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/didwebvh").join(name).join(file);
    std::fs::read(path).ok()
}

fn did_of(log: &[u8]) -> String {
    let text = std::str::from_utf8(log).expect("text");
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("an entry");
    last["state"]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn the_vectors_of_the_method_resolve_to_their_results() {
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
        let log = read_fixture(name, "did.jsonl").expect("a log");
        let result = read_fixture(name, "resolutionResult.json").expect("a result");
        let mut expected: Value = serde_json::from_slice(&result).expect("a result");
        let mut expected = expected["didDocument"].take();
        let did = did_of(&log);
        // The suite has relative ids for the services that the method adds; DID Core requires URLs.
        for service in expected["service"].as_array_mut().into_iter().flatten() {
            if let Some(fragment @ ("#files" | "#whois")) = service["id"].as_str() {
                service["id"] = format!("{did}{fragment}").into();
            }
        }
        let verified = resolve(&did, &log, read_fixture(name, "did-witness.json").as_deref()).expect(name);
        assert_eq!(verified.document, expected, "{name}");
        assert_eq!(verified.ttl, None, "{name}");
    }
}

#[test]
fn vectors_that_must_not_resolve_have_the_right_error() {
    let log = read_fixture("deactivate", "did.jsonl").expect("a log");
    assert_eq!(resolve(&did_of(&log), &log, None), Err(DidLogError::Deactivated));
    // The last entry lowers the threshold that it has to reach. The result of the suite accepts this, the text of the method does
    // not: new witnesses are in force after the entry that changes them.
    let (log, proofs) = (
        read_fixture("witness-update", "did.jsonl").expect("a log"),
        read_fixture("witness-update", "did-witness.json"),
    );
    let refused = resolve(&did_of(&log), &log, proofs.as_deref()).expect_err("refused");
    assert!(matches!(&refused, DidLogError::InvalidWitness(reason) if reason.contains("threshold")), "{refused:?}");
    // The proofs of the witnesses are missing.
    let log = read_fixture("witness-threshold", "did.jsonl").expect("a log");
    for proofs in [None, Some(&b"[]"[..])] {
        assert!(matches!(resolve(&did_of(&log), &log, proofs), Err(DidLogError::InvalidWitness(_))));
    }
    for proofs in ["", "{}", "[{}]", "\u{0}", "[[[[", "[{\"versionId\":\"x\",\"proof\":[]}]"] {
        let refused = resolve(&did_of(&log), &log, Some(proofs.as_bytes())).expect_err("refused");
        assert!(matches!(refused, DidLogError::InvalidWitness(_)), "{proofs}: {refused:?}");
    }
}

#[test]
fn a_log_built_from_the_text_of_the_method_resolves() {
    let (first, second, third) = (LogSigningKey::new(1), LogSigningKey::new(2), LogSigningKey::new(3));
    let mut log = DidLogBuilder::new("example.org%3A8443:agents:a", &first, |entry| {
        entry["parameters"]["ttl"] = 60.into();
        entry["parameters"]["portable"] = true.into();
    });
    log.add_entry(&first, |entry| {
        entry["parameters"] = json!({"updateKeys": [second.public], "nextKeyHashes": [third.hash()]})
    });
    log.add_entry(&third, |entry| {
        entry["parameters"] = json!({"updateKeys": [third.public], "nextKeyHashes": [], "ttl": 90})
    });
    log.add_entry(&third, |entry| {
        entry["state"]["service"] =
            json!([{"id": "#admin-api", "type": "VsAgentAdminAPI", "serviceEndpoint": "https://a.example"}]);
    });
    let verified = resolve_built_log(&log).expect("it resolves");
    assert_eq!(verified.ttl, Some(90));
    let kinds: Vec<&Value> =
        verified.document["service"].as_array().expect("services").iter().map(|service| &service["type"]).collect();
    assert_eq!(kinds, ["VsAgentAdminAPI", "relativeRef", "LinkedVerifiablePresentation"]);
    // After a move the new DID resolves, and the document is not that of the old DID.
    let old = log.did.clone();
    let new = format!("did:webvh:{}:b.example.org", log.scid);
    log.add_entry(&third, |entry| {
        entry["state"]["id"] = new.as_str().into();
        entry["state"]["alsoKnownAs"] = json!([old]);
    });
    assert!(matches!(resolve_built_log(&log), Err(DidLogError::InvalidDocument(reason)) if reason.contains(&new)));
    assert_eq!(resolve(&new, log.text().as_bytes(), None).expect("moved").document["id"], new.as_str());
}

/// Asserts that a log is invalid, for a reason with this text.
fn assert_invalid(log: &DidLogBuilder, expected: &str) {
    match resolve_built_log(log) {
        Err(DidLogError::InvalidLog(reason)) => assert!(reason.contains(expected), "{expected}: {reason}"),
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn every_rule_of_the_method_is_enforced() {
    let (own, other) = (LogSigningKey::new(1), LogSigningKey::new(2));
    let new = |change: &dyn Fn(&mut Value)| DidLogBuilder::new("example.org", &own, change);
    let parameter =
        |name: &'static str, value: Value| move |entry: &mut Value| entry["parameters"][name] = value.clone();
    let plain = || new(&|_| {});

    // Keys.
    assert_invalid(&new(&parameter("updateKeys", json!([other.public]))), "not authorized");
    assert_invalid(&new(&parameter("updateKeys", json!([]))), "cannot be empty");
    assert_invalid(plain().add_entry(&other, |_| {}), "not authorized");
    assert_invalid(plain().add_entry(&other, parameter("updateKeys", json!([other.public]))), "not authorized");
    let mut rotated = plain();
    rotated.add_entry(&own, parameter("updateKeys", json!([other.public])));
    assert!(resolve_built_log(&rotated).is_ok());
    assert_invalid(rotated.add_entry(&own, |_| {}), "not authorized");
    assert_invalid(
        plain().add_entry(&own, parameter("updateKeys", json!([]))).add_entry(&own, |_| {}),
        "takes all update keys away",
    );
    assert!(resolve_built_log(plain().add_entry(&own, parameter("updateKeys", json!([])))).is_ok());

    // Pre-rotation.
    let announced = || new(&parameter("nextKeyHashes", json!([other.hash()])));
    let keys = |key: &LogSigningKey, next: &[&LogSigningKey]| {
        let next: Vec<String> = next.iter().map(|key| key.hash()).collect();
        json!({"updateKeys": [key.public], "nextKeyHashes": next})
    };
    assert!(
        resolve_built_log(announced().add_entry(&other, |entry| entry["parameters"] = keys(&other, &[&own]))).is_ok()
    );
    assert_invalid(announced().add_entry(&own, |entry| entry["parameters"] = keys(&own, &[&own])), "nextKeyHashes");
    assert_invalid(announced().add_entry(&own, |entry| entry["parameters"] = keys(&own, &[])), "nextKeyHashes");
    assert_invalid(announced().add_entry(&own, |_| {}), "nextKeyHashes");
    assert_invalid(announced().add_entry(&other, parameter("updateKeys", json!([other.public]))), "nextKeyHashes");

    // Ids.
    let state = |state: Value| move |entry: &mut Value| entry["state"] = state.clone();
    assert_invalid(
        plain().add_entry(&own, state(json!({}))).add_entry(&own, |_| {}),
        "its id null is no DID with this SCID",
    );
    assert_invalid(plain().add_entry(&own, state(json!({"id": "did:web:example.org"}))), "is no DID with this SCID");
    assert_invalid(
        plain().add_entry(&own, state(json!({"id": "did:webvh:QmOther:example.org"}))),
        "is no DID with this SCID",
    );
    assert_invalid(
        &new(&|entry| entry["state"]["n"] = 9_007_199_254_740_993_u64.into()),
        "a double does not hold exactly",
    );
    for number in ["+2", "02", "3"] {
        let mut renumbered = plain();
        renumbered.add_entry(&own, |_| {});
        let id = renumbered.entries[1]["versionId"].as_str().expect("an id").replacen('2', number, 1);
        renumbered.entries[1]["versionId"] = id.into();
        assert_invalid(&renumbered, "its versionId is");
    }
    assert_invalid(&new(&parameter("nextKeyHashes", json!(vec!["x"; 101]))), "more than 100 nextKeyHashes");

    // Times.
    let at = |time: &'static str| move |entry: &mut Value| entry["versionTime"] = time.into();
    assert_invalid(&new(&at("2999-01-01T00:00:00Z")), "future");
    assert_invalid(plain().add_entry(&own, at("2020-01-01T00:00:00Z")), "versionTime");
    assert_invalid(plain().add_entry(&own, at("2019-12-31T23:59:59Z")), "versionTime");
    assert_invalid(&new(&at("2020-01-01T00:00:00.5Z")), "\"versionTime\" cannot be verified as it is written");
    assert_invalid(&new(&at("2020-01-01T00:00:00+00:00")), "\"versionTime\" cannot be verified as it is written");

    // Form.
    assert_invalid(&new(&parameter("method", json!("did:webvh:0.5"))), "its method is");
    assert_invalid(
        &new(&|entry| drop(entry["parameters"].as_object_mut().map(|all| all.remove("method")))),
        "its method is",
    );
    assert_invalid(&new(&parameter("method", Value::Null)), "\"method\" in \"parameters\" cannot be verified");
    assert_invalid(plain().add_entry(&own, parameter("method", json!("did:webvh:2.0"))), "its method is");
    assert_invalid(
        &new(&parameter("extra", json!(1))),
        "\"extra\" in \"parameters\" cannot be verified as it is written",
    );
    assert_invalid(&new(&|entry| entry["extra"] = 1.into()), "\"extra\" cannot be verified as it is written");
    assert_invalid(plain().add_entry(&own, parameter("scid", json!("x"))), "scid");
    assert_invalid(plain().add_entry(&own, parameter("portable", json!(true))), "ortable");
    assert_invalid(&new(&parameter("deactivated", json!(true))), "deactivated");
    assert_invalid(&new(&|entry| entry["state"]["id"] = "did:webvh:other:example.org".into()), "SCID");
    assert_invalid(
        plain().add_entry(&own, |entry| entry["state"]["id"] = "did:webvh:other:example.org".into()),
        "SCID",
    );
    let moved = |scid: &str| format!("did:webvh:{scid}:b.example.org");
    let scid = plain().scid;
    assert_invalid(plain().add_entry(&own, |entry| entry["state"]["id"] = moved(&scid).into()), "portable");
    let services = plain().add_entry(&own, |entry| entry["state"]["service"] = "x".into()).text();
    assert!(matches!(resolve(&plain().did, services.as_bytes(), None), Err(DidLogError::InvalidDocument(_))));

    // Order.
    let mut ended = plain();
    ended.add_entry(&own, parameter("deactivated", json!(true)));
    assert_eq!(resolve_built_log(&ended), Err(DidLogError::Deactivated));
    assert_invalid(ended.add_entry(&own, |_| {}), "past the deactivation");
    let whole = {
        let mut log = plain();
        log.add_entry(&own, |_| {}).add_entry(&own, |_| {});
        log
    };
    for order in [&[0, 2][..], &[1, 2], &[1, 0, 2], &[0, 1, 1, 2], &[0, 2, 1], &[0, 0], &[]] {
        let entries = order.iter().map(|index| whole.entries[*index].clone()).collect();
        let log = DidLogBuilder { entries, did: whole.did.clone(), scid: whole.scid.clone() };
        assert!(
            matches!(resolve_built_log(&log), Err(DidLogError::InvalidLog(_) | DidLogError::ScidMismatch(_))),
            "{order:?}"
        );
    }
    // A truncated log is a valid shorter log.
    let cut = DidLogBuilder { entries: whole.entries[..2].to_vec(), did: whole.did.clone(), scid: whole.scid.clone() };
    assert!(resolve_built_log(&cut).is_ok());
}

#[test]
fn the_log_of_another_did_and_an_invalid_log_have_different_errors() {
    let (own, other) = (LogSigningKey::new(1), LogSigningKey::new(2));
    let victim = DidLogBuilder::new("example.org", &own, |_| {});
    // An attacker's own log under the DID of the victim: hashes and proofs are right, the SCID is wrong.
    let mut thief = DidLogBuilder::new("example.org", &other, |_| {});
    thief.claim_scid(&victim.scid, &other);
    assert_eq!(thief.did, victim.did);
    let refused = resolve_built_log(&thief).expect_err("refused");
    assert!(matches!(&refused, DidLogError::ScidMismatch(reason) if reason.contains("makes the SCID")), "{refused:?}");
    // An unrelated log.
    let log = DidLogBuilder::new("example.org", &other, |_| {});
    let refused = resolve(&victim.did, log.text().as_bytes(), None).expect_err("refused");
    assert_eq!(refused, DidLogError::ScidMismatch(format!("it has the SCID {:?}", log.scid)));
    // A change after the DID was made, of a hash or a proof.
    for (pointer, code) in [("/state/@context/0", "scid"), ("/versionId", "log"), ("/proof/0/proofValue", "log")] {
        let mut log = DidLogBuilder::new("example.org", &own, |_| {});
        let value = log.entries[0].pointer_mut(pointer).expect("a value");
        *value = value.as_str().expect("text").replace(['2', 'h'], "3").into();
        let refused = resolve_built_log(&log).expect_err("refused");
        assert_eq!(matches!(refused, DidLogError::ScidMismatch(_)), code == "scid", "{pointer}: {refused:?}");
        assert_eq!(matches!(refused, DidLogError::InvalidLog(_)), code == "log", "{pointer}: {refused:?}");
    }
}

#[test]
fn the_limits_are_checked_before_the_work() {
    let own = LogSigningKey::new(1);
    let log = DidLogBuilder::new("example.org", &own, |_| {});
    let line = log.text();
    let too_long = |text: &str| match resolve(&log.did, text.as_bytes(), None) {
        Err(DidLogError::TooLong(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert!(too_long(&line.repeat(MAX_ENTRIES + 1)).contains("10000 entries"));
    let witnesses: Vec<LogSigningKey> = (0..=100).map(LogSigningKey::new).collect();
    let named: Vec<&LogSigningKey> = witnesses.iter().collect();
    let mut many =
        DidLogBuilder::new("example.org", &own, |entry| entry["parameters"]["witness"] = witness_parameter(1, &named));
    for _ in 0..99 {
        many.add_entry(&own, |_| {});
    }
    let refused = resolve(&many.did, many.text().as_bytes(), Some(b"[]")).expect_err("refused");
    assert!(matches!(&refused, DidLogError::TooLong(reason) if reason.contains("10000 times")), "{refused:?}");
    // Base58 of this length would take half a minute.
    let long = format!("z{}", "x".repeat(400_000));
    for (member, value) in [("proofValue", long.clone()), ("verificationMethod", format!("did:key:{long}#{long}"))] {
        let mut log = DidLogBuilder::new("example.org", &own, |_| {});
        log.entries[0]["proof"][0][member] = value.into();
        assert_invalid(&log, "more than 512 characters");
    }
    let mut witnessed =
        DidLogBuilder::new("example.org", &own, |entry| entry["parameters"]["witness"] = witness_parameter(1, &[&own]));
    let mut approval = witnessed.witness_proof(0, &[&own]);
    approval["proof"][0]["proofValue"] = long.into();
    let proofs = json!([approval]).to_string();
    let refused = resolve(&witnessed.did, witnessed.text().as_bytes(), Some(proofs.as_bytes())).expect_err("refused");
    assert!(matches!(&refused, DidLogError::InvalidWitness(reason) if reason.contains("512")), "{refused:?}");
    let named = DidLogBuilder::new("example.org", &own, |entry| {
        entry["parameters"]["witness"] = json!({"threshold": 1, "witnesses": [{"id": "did:key:z".repeat(100)}]});
    });
    assert_invalid(&named, "a witness with an id of more than 512 characters");
    // A message is short although it quotes a long text.
    let long = "\u{7f}".repeat(1 << 20);
    let mut purposed = DidLogBuilder::new("example.org", &own, |_| {});
    purposed.entries[0]["proof"][0]["proofPurpose"] = long.as_str().into();
    let texts = [json!(long).to_string(), json!([{"versionId": long, "proof": [{"type": 1}]}]).to_string()];
    let refusals = texts.iter().map(|text| resolve(&witnessed.did, witnessed.text().as_bytes(), Some(text.as_bytes())));
    for refused in refusals.chain([resolve_built_log(&purposed)]) {
        let message = format!("{:?}", refused.expect_err("refused"));
        assert!(message.len() < 8_000, "{} bytes", message.len());
    }
    witnessed.entries.clear();
    assert_invalid(&witnessed, "empty");
    for text in [&b"\xff"[..], b"\n", b"{}", b"null", b"[]", b"<html>", b"{\"parameters\":{}}"] {
        assert!(matches!(resolve(&log.did, text, None), Err(DidLogError::InvalidLog(_))), "{text:?}");
    }
}
