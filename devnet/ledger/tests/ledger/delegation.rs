//! de: operator authorizations, their renewal, and the fee allowances that come with them.

use serde_json::{Value, json};
use svc_wire::account_key::AccountKey;

use super::{
    outcomes::{assert_event, assert_has, attribute, event_types},
    test_ledger::{TestLedger, account, coin, ecosystem, merge_members, unregistered},
};

const GRANT: &str = "de.MsgGrantOperatorAuthorization";
const REVOKE: &str = "de.MsgRevokeOperatorAuthorization";
const CREATE: &str = "ec.MsgCreateEcosystem";
const CREATE_URL: &str = "/svc.ec.v1.MsgCreateEcosystem";

fn grant_to(grantee: &str, changes: Value) -> Value {
    merge_members(&json!({"grantee": account(grantee), "msg_types": [CREATE_URL]}), &changes)
}

#[test]
fn grant_operator_authorization() {
    let mut world = TestLedger::new();
    let good = grant_to("dave", json!({}));
    world.assert_refusals(
        "a",
        GRANT,
        &good,
        &[
            (json!({"grantee": "x"}), unregistered("grantee")),
            (json!({"corporation": "x"}), unregistered("corporation")),
            (json!({"msg_types": []}), unregistered("must not be empty")),
            (json!({"msg_types": ["/svc.pp.v1.MsgCreateOrUpdateParticipantSession"]}), unregistered("not delegable")),
            (json!({"msg_types": ["/svc.co.v1.MsgCreateCorporation"]}), unregistered("not delegable")),
            (json!({"msg_types": [&CREATE_URL[1..]]}), unregistered("not delegable")),
            (json!({"authz_spend_limit": [coin(0)]}), ("sdk", 18, "authz_spend_limit")),
            (json!({"feegrant_spend_limit": [{"denom": "usvc", "amount": "-1"}]}), ("sdk", 18, "feegrant_spend_limit")),
            (json!({"authz_spend_limit_period": "0s"}), unregistered("must be positive")),
            (
                json!({"authz_spend_limit": [coin(1)], "authz_spend_limit_period": "60s"}),
                unregistered("expiration is required"),
            ),
            (json!({"feegrant_spend_limit_period": "-1s"}), unregistered("must be positive")),
            (json!({"corporation": account("stranger")}), ("co", 1101, "not registered")),
            (json!({"grantee": account("alice")}), unregistered("to itself")),
            (json!({"expiration": world.time_at(0)}), ("de", 1102, "past")),
            (
                json!({"with_feegrant": true, "feegrant_spend_limit": [coin(1)], "feegrant_spend_limit_period": "60s"}),
                unregistered("expiration"),
            ),
        ],
    );
    world.assert_refusals_by("a", "bob", GRANT, &good, &[(json!({}), ("de", 1105, "authorization not found"))]);
    let outcome = world.send_as_operator("a", GRANT, merge_members(&good, &json!({"authz_spend_limit_period": "60s"})));
    let stored = world.query("de.GetOperatorAuthorization", json!({"id": 4}))["operator_authorization"].clone();
    assert_has(
        &stored,
        &json!({"corporation_id": "1", "operator": account("dave"), "period": null, "expiration": null}),
    );
    assert_event(
        &outcome,
        "grant_operator_authorization",
        &[
            ("authz_id", "4"),
            ("corporation_id", "1"),
            ("grantee", &account("dave")),
            ("with_feegrant", "false"),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    // A second grant keeps the id and replaces the rest.
    let terms = json!({"msg_types": ["/svc.co.v1.MsgUpdateCorporation"], "expiration": world.time_at(100), "with_feegrant": true});
    let outcome = world.send_as_operator("a", GRANT, merge_members(&good, &terms));
    assert_eq!(
        event_types(&outcome),
        ["message", "set_feegrant", "grant_fee_allowance", "grant_operator_authorization"]
    );
    assert_eq!(attribute(&outcome, "grant_operator_authorization", "authz_id"), "4");
    let message = world.signer_message("a", "dave", CREATE, &ecosystem("did:web:x"));
    world.assert_refused("dave", CREATE, &message, ("de", 1107, CREATE_URL));
    // A grant without a fee grant removes the allowance.
    let outcome = world.send_as_operator("a", GRANT, good);
    assert_eq!(event_types(&outcome)[1..3], ["revoke_feegrant", "revoke_fee_allowance"]);
}

#[test]
fn a_fee_allowance_for_an_account_without_state_panics_as_on_a_node() {
    let mut world = TestLedger::new();
    let newcomer =
        AccountKey::from_bytes(&[99; 32]).expect("a key").public_key().address("svc").expect("an address").to_string();
    let terms = grant_to("dave", json!({"grantee": newcomer, "with_feegrant": true}));
    let message = world.operator_message("a", GRANT, &terms);
    let unsigned = world.unsigned("alice", vec![world.pack(GRANT, &message)]);
    let bytes = world.sign("alice", &unsigned);
    let outcome = world.run_block(&[bytes]).remove(0);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("sdk", 111_222));
    let start = "recovered: runtime error: invalid memory address or nil pointer dereference\nstack:\n";
    assert!(outcome.log.starts_with(start), "{}", outcome.log);
    let granted = world.query("de.ListOperatorAuthorizations", json!({"operator": newcomer}));
    assert_eq!(granted["operator_authorizations"], json!([]), "the authorization is undone with the allowance");
    world.send_as_operator("a", GRANT, grant_to("dave", json!({"grantee": newcomer})));
}

#[test]
fn authorizations_expire_renew_and_are_spent() {
    let mut world = TestLedger::new();
    let create = |world: &TestLedger| world.signer_message("a", "dave", CREATE, &ecosystem("did:web:x"));
    world.send_as_operator("a", GRANT, grant_to("dave", json!({"expiration": world.time_at(10)})));
    let message = create(&world);
    world.send_ok("dave", CREATE, message.clone());
    world.advance(10);
    world.assert_refused("dave", CREATE, &message, ("de", 1106, "expired"));
    let terms =
        json!({"expiration": world.time_at(10), "authz_spend_limit": [coin(5)], "authz_spend_limit_period": "60s"});
    world.send_as_operator("a", GRANT, grant_to("dave", terms));
    world.advance(100);
    let outcome = world.send_ok("dave", CREATE, message);
    assert_eq!(attribute(&outcome, "operator_authorization_updated", "authz_id"), "4");
    let stored = world.query("de.GetOperatorAuthorization", json!({"id": 4}))["operator_authorization"].clone();
    assert_has(&stored, &json!({"expiration": world.time_at(60), "remaining_spend": [coin(5)]}));
    // A renewal rolls back with a failing transaction.
    world.advance(100);
    let bad = world.signer_message("a", "dave", "ec.MsgUpdateEcosystem", &json!({"id": 1, "did": "did:web:y"}));
    world.assert_refused("dave", "ec.MsgUpdateEcosystem", &bad, ("de", 1107, "MsgUpdateEcosystem"));
    assert_eq!(world.query("de.GetOperatorAuthorization", json!({"id": 4}))["operator_authorization"], stored);
}

#[test]
fn revoke_operator_authorization() {
    let mut world = TestLedger::new();
    world.send_as_operator("a", GRANT, grant_to("dave", json!({"with_feegrant": true})));
    let good = json!({"grantee": account("dave")});
    world.assert_refusals(
        "a",
        REVOKE,
        &good,
        &[
            (json!({"grantee": "x"}), unregistered("grantee")),
            (json!({"corporation": account("stranger")}), ("co", 1101, "not registered")),
            (json!({"grantee": account("bob")}), ("de", 1109, "not found")),
        ],
    );
    let outcome = world.send_as_operator("a", REVOKE, good.clone());
    assert_eq!(
        event_types(&outcome),
        ["message", "revoke_feegrant", "revoke_fee_allowance", "revoke_operator_authorization"]
    );
    assert_event(
        &outcome,
        "revoke_operator_authorization",
        &[
            ("authz_id", "4"),
            ("corporation_id", "1"),
            ("grantee", &account("dave")),
            ("timestamp", &world.go_text_at(0)),
        ],
    );
    world.assert_refusals("a", REVOKE, &good, &[(json!({}), ("de", 1109, "not found"))]);
    world.send_as_operator("a", GRANT, grant_to("dave", json!({})));
    assert_eq!(
        world.query("de.ListOperatorAuthorizations", json!({"operator": account("dave")}))["operator_authorizations"]
            [0]["id"],
        "5"
    );
    // An operator can revoke its own authorization.
    world.send_as_operator("a", REVOKE, json!({"grantee": account("alice")}));
    world.assert_refusals("a", REVOKE, &good, &[(json!({}), ("de", 1105, "not found"))]);
}

#[test]
fn the_fee_allowance_pays_and_its_refusals_have_their_codes() {
    let mut world = TestLedger::new();
    let message = world.signer_message("a", "dave", CREATE, &ecosystem("did:web:x"));
    let paid = |world: &mut TestLedger| {
        let mut unsigned = world.unsigned("dave", vec![world.pack(CREATE, &message)]);
        unsigned.fee_granter = Some(world.saved_names["a"].clone());
        let bytes = world.sign("dave", &unsigned);
        let outcome = world.run_block(&[bytes]).remove(0);
        (outcome.codespace, outcome.code, outcome.log)
    };
    let code = |(codespace, code, _): (String, u32, String)| (codespace, code);
    let is = |codespace: &str, code: u32| (codespace.to_owned(), code);
    let missing = paid(&mut world);
    assert!(missing.2.starts_with(&format!(
        "{} does not allow to pay fees for {}",
        world.saved_names["a"],
        account("dave")
    )));
    assert_eq!(code(missing), is("sdk", 38));
    let granted = |world: &mut TestLedger, changes: Value| {
        world.send_as_operator("a", GRANT, grant_to("dave", merge_members(&json!({"with_feegrant": true}), &changes)));
    };
    granted(&mut world, json!({"msg_types": ["/svc.co.v1.MsgUpdateCorporation"]}));
    assert_eq!(code(paid(&mut world)), is("feegrant", 7));
    granted(&mut world, json!({"feegrant_spend_limit": [coin(4_999)]}));
    assert_eq!(code(paid(&mut world)), is("feegrant", 2));
    granted(&mut world, json!({"feegrant_spend_limit": [coin(5_000)]}));
    let before = (world.corporation_balance("a"), world.balance(&account("dave"), "usvc"));
    assert_eq!(code(paid(&mut world)), is("", 0));
    assert_eq!((world.corporation_balance("a"), world.balance(&account("dave"), "usvc")), (before.0 - 5_000, before.1));
    assert_eq!(code(paid(&mut world)), is("sdk", 38), "used up, and removed");
    // A periodic allowance refills at its reset, which is the expiration of the authorization, and then each period.
    let terms = json!({"feegrant_spend_limit": [coin(5_000)], "feegrant_spend_limit_period": "3600s", "expiration": world.time_at(100)});
    granted(&mut world, terms);
    assert_eq!(code(paid(&mut world)), is("", 0));
    assert_eq!(code(paid(&mut world)), is("feegrant", 2));
    world.advance(200);
    assert_eq!(code(paid(&mut world)), is("de", 1106), "the fee is paid again, the authorization is over");
    assert_eq!(code(paid(&mut world)), is("feegrant", 2));
    // A basic allowance ends with the authorization and is pruned.
    let terms = json!({"expiration": world.time_at(10)});
    granted(&mut world, terms);
    world.advance(20);
    assert_eq!(code(paid(&mut world)), is("sdk", 38));
}
