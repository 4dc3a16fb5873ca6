//! co, ec and gf: corporations, ecosystems and governance frameworks.

use serde_json::json;

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types, has_event},
    test_ledger::{DIGEST_SRI, TestLedger, account, corporation, ecosystem, merge_members},
};

#[test]
fn create_corporation() {
    let mut world = TestLedger::new();
    let good = corporation("did:web:d");
    let name = "co.MsgCreateCorporation";
    for (changes, refusal) in [
        (json!({"members": []}), ("co", 1108, "member")),
        (json!({"members": [{"address": account("member"), "weight": "0"}]}), ("co", 1108, "weight")),
        (json!({"members": [{"address": account("member"), "weight": "x"}]}), ("co", 1108, "weight")),
        (json!({"members": [{"address": "svc1x", "weight": "1"}]}), ("sdk", 7, "member")),
        (json!({"decision_policy": null}), ("co", 1107, "decision policy")),
        (json!({"decision_policy": {"@type": "/cosmos.bank.v1beta1.MsgSend"}}), ("co", 1107, "decision policy")),
        (json!({"did": "web:b"}), ("co", 1109, "DID")),
        (json!({"language": "e n"}), ("co", 1104, "language")),
        (json!({"language": "en-a-language-tag-too-long"}), ("co", 1104, "language")),
        (json!({"doc_url": "ftp://x"}), ("co", 1105, "URL")),
        (json!({"doc_digest_sri": "md5-x"}), ("co", 1106, "digest")),
        (json!({"did": "did:web:a"}), ("co", 1102, "did:web:a")),
        (json!({"group_metadata": "x".repeat(256)}), ("group", 4, "metadata too long")),
        (
            json!({"members": [{"address": account("bob"), "weight": "1"}, {"address": account("bob"), "weight": "1"}]}),
            ("group", 3, "repeats"),
        ),
    ] {
        world.assert_refused("member", name, &merge_members(&good, &changes), refusal);
    }
    let outcome = world.send_ok("member", name, good);
    let policy = attribute(&outcome, "create_corporation", "policy_address");
    assert_eq!(world.response(&outcome), json!({"corporation_id": "4", "policy_address": policy}));
    let now = world.time_at(0);
    let stored = world.query("co.GetCorporation", json!({"corporation_id": 4}))["corporation"].clone();
    assert_has(
        &stored,
        &json!({"did": "did:web:d", "created": now, "modified": now, "language": "en", "active_version": 1}),
    );
    assert_has(
        &stored["versions"][0],
        &json!({"version": 1, "corporation_id": "4", "ecosystem_id": "0", "active_since": now}),
    );
    assert_event(
        &outcome,
        "create_corporation",
        &[("corporation_id", "4"), ("policy_address", &policy), ("did", "did:web:d")],
    );
    assert_event(
        &outcome,
        "add_gf_document",
        &[("corporation_id", "4"), ("gfv_id", "4"), ("gfd_id", "4"), ("version", "1"), ("language", "en")],
    );
}

#[test]
fn update_corporation() {
    let mut world = TestLedger::new();
    let name = "co.MsgUpdateCorporation";
    let good = json!({"did": "did:web:new"});
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"corporation": "cosmos1x"}), ("sdk", 7, "corporation")),
            (json!({"did": ""}), ("co", 1109, "DID")),
            (json!({"corporation": account("stranger")}), ("co", 1101, "not registered")),
            (json!({"did": "did:web:b"}), ("co", 1102, "did:web:b")),
        ],
    );
    world.assert_refusals_by("a", "stranger", name, &good, &[(json!({}), ("de", 1105, "authorization not found"))]);
    let silent = world.send_as_operator("a", name, json!({"did": "did:web:a"}));
    assert_eq!(event_types(&silent), ["message"], "the same DID again is a success without effect");
    let outcome = world.send_as_operator("a", name, good);
    let policy = world.saved_names["a"].clone();
    assert_event(
        &outcome,
        "update_corporation",
        &[("corporation_id", "1"), ("policy_address", &policy), ("did", "did:web:new")],
    );
    let stored = world.query("co.GetCorporation", json!({"corporation_id": 1}))["corporation"].clone();
    assert_has(&stored, &json!({"did": "did:web:new", "modified": world.time_at(0)}));
    world.send_as_operator("b", name, json!({"did": "did:web:a"}));
}

#[test]
fn create_update_and_archive_ecosystem() {
    let mut world = TestLedger::new();
    let name = "ec.MsgCreateEcosystem";
    let good = ecosystem("did:web:eco");
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"operator": "x"}), ("sdk", 7, "operator")),
            (json!({"did": "x"}), ("ec", 1106, "DID")),
            (json!({"language": "a-language-tag-too-long"}), ("ec", 1107, "language")),
            (json!({"doc_url": "x"}), ("ec", 1108, "URL")),
            (json!({"doc_digest_sri": ""}), ("ec", 1109, "digest")),
            (json!({"corporation": account("stranger")}), ("ec", 1102, "not registered")),
        ],
    );
    world.assert_refusals_by("a", "bob", name, &good, &[(json!({}), ("de", 1105, "authorization check failed: "))]);
    let outcome = world.send_as_operator("a", name, good.clone());
    assert_eq!(event_types(&outcome), ["message", "add_gf_document", "create_ecosystem"]);
    assert_eq!(world.response(&outcome), json!({"ecosystem_id": "1"}));
    assert_event(
        &outcome,
        "create_ecosystem",
        &[
            ("ecosystem_id", "1"),
            ("corporation_id", "1"),
            ("operator", &account("alice")),
            ("did", "did:web:eco"),
            ("language", "en"),
        ],
    );
    world.assert_refusals("b", name, &good, &[(json!({}), ("ec", 1104, "did:web:eco"))]);
    world.send_as_operator("a", name, good);

    let name = "ec.MsgUpdateEcosystem";
    let good = json!({"id": 1, "did": "did:web:moved"});
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"id": 0}), ("ec", 1110, "ecosystem id")),
            (json!({"did": "x"}), ("ec", 1106, "DID")),
            (json!({"id": 9}), ("ec", 1101, "9")),
        ],
    );
    world.assert_refusals("b", name, &good, &[(json!({}), ("ec", 1103, "does not control"))]);
    let mut other = world.clone();
    other.send_as_operator("b", "ec.MsgCreateEcosystem", ecosystem("did:web:moved"));
    other.assert_refusals("a", name, &good, &[(json!({}), ("ec", 1104, "did:web:moved"))]);
    assert!(!has_event(&world.send_as_operator("a", name, json!({"id": 1, "did": "did:web:eco"})), "update_ecosystem"));
    let outcome = world.send_as_operator("a", name, good);
    assert_event(
        &outcome,
        "update_ecosystem",
        &[("ecosystem_id", "1"), ("corporation_id", "1"), ("operator", &account("alice")), ("did", "did:web:moved")],
    );

    let name = "ec.MsgArchiveEcosystem";
    let good = json!({"id": 1, "archive": true});
    world.assert_refusals(
        "a",
        name,
        &good,
        &[
            (json!({"id": 0}), ("ec", 1110, "ecosystem id")),
            (json!({"id": 9}), ("ec", 1101, "9")),
            (json!({"archive": false}), ("ec", 1105, "target archive state")),
        ],
    );
    world.assert_refusals("c", name, &good, &[(json!({}), ("ec", 1103, "does not control"))]);
    let outcome = world.send_as_operator("a", name, good);
    assert_event(
        &outcome,
        "archive_ecosystem",
        &[
            ("ecosystem_id", "1"),
            ("corporation_id", "1"),
            ("operator", &account("alice")),
            ("did", "did:web:moved"),
            ("archive_status", "archived"),
        ],
    );
    world.send_as_operator("a", "ec.MsgUpdateEcosystem", json!({"id": 1, "did": "did:web:again"}));
    let back = world.send_as_operator("a", name, json!({"id": 1, "archive": false}));
    assert_eq!(attribute(&back, "archive_ecosystem", "archive_status"), "unarchived");
}

#[test]
fn frameworks_grow_version_by_version() {
    let mut world = TestLedger::new();
    world.send_as_operator("a", "ec.MsgCreateEcosystem", ecosystem("did:web:eco"));
    let (add, increase) = ("gf.MsgAddGovernanceFrameworkDocument", "gf.MsgIncreaseActiveGovernanceFrameworkVersion");
    let good =
        json!({"version": 2, "doc_language": "en", "doc_url": "https://a.example/2", "doc_digest_sri": DIGEST_SRI});
    world.assert_refusals(
        "a",
        add,
        &good,
        &[
            (json!({"corporation": "x"}), ("sdk", 7, "corporation")),
            (json!({"doc_language": "!"}), ("gf", 1105, "language")),
            (json!({"doc_url": "x"}), ("gf", 1106, "URL")),
            (json!({"doc_digest_sri": "x"}), ("gf", 1107, "digest")),
            (json!({"version": 0}), ("gf", 1104, "version")),
            (json!({"version": 1}), ("gf", 1104, "active 1")),
            (json!({"version": 3}), ("gf", 1104, "highest 1")),
            (json!({"ecosystem_id": 7}), ("gf", 1102, "7")),
            (json!({"corporation": account("stranger")}), ("de", 1105, "authorization not found")),
        ],
    );
    world.assert_refusals("b", add, &good, &[(json!({"ecosystem_id": 1}), ("gf", 1103, "not controlled"))]);
    world.assert_refusals(
        "a",
        increase,
        &json!({}),
        &[
            (json!({}), ("gf", 1108, "2 does not exist")),
            (json!({"ecosystem_id": 9}), ("gf", 1102, "9")),
            (json!({"operator": "x"}), ("sdk", 7, "operator")),
        ],
    );
    world.send_as_operator("a", add, merge_members(&good, &json!({"doc_language": "fr"})));
    world.assert_refusals("a", increase, &json!({}), &[(json!({}), ("gf", 1109, "en"))]);
    let outcome = world.send_as_operator("a", add, good.clone());
    assert_event(
        &outcome,
        "add_gf_document",
        &[
            ("corporation", &world.saved_names["a"].clone()),
            ("operator", &account("alice")),
            ("ecosystem_id", "0"),
            ("gfv_id", "5"),
            ("gfd_id", "6"),
            ("version", "2"),
            ("language", "en"),
            ("doc_url", "https://a.example/2"),
            ("doc_digest_sri", DIGEST_SRI),
        ],
    );
    let again = world.send_as_operator("a", add, merge_members(&good, &json!({"doc_url": "https://a.example/3"})));
    assert_eq!(attribute(&again, "add_gf_document", "gfd_id"), "6", "an existing document keeps its id");
    let outcome = world.send_as_operator("a", increase, json!({}));
    assert_eq!(attribute(&outcome, "increase_active_gf_version", "active_since"), world.time_at(0));
    let stored = world
        .query("co.GetCorporation", json!({"corporation_id": 1, "active_gf_only": true, "preferred_language": "FR"}));
    assert_has(&stored["corporation"], &json!({"active_version": 2, "modified": world.time_at(0)}));
    assert_eq!(stored["corporation"]["versions"][0]["documents"][0]["language"], "fr");
    world.send_as_operator("a", add, merge_members(&good, &json!({"ecosystem_id": 1})));
    assert_eq!(
        attribute(
            &world.send_as_operator("a", increase, json!({"ecosystem_id": 1})),
            "increase_active_gf_version",
            "version"
        ),
        "2"
    );
}
