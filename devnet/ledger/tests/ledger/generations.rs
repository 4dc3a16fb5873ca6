//! The rules of later generations of the node: windows, slashes, DIDs, digests and the fees of VS operators.

use serde_json::{Value, json};
use svc_wire::proto_registry::NodeGeneration;

use super::{
    outcomes::attribute,
    participants::{set_validated, with_root_participant},
    schema::schema,
    test_ledger::{TestLedger, account, coin, merge_members, unregistered},
};

const START: &str = "pp.MsgStartParticipantOP";
const VALIDATED: &str = "pp.MsgSetParticipantOPToValidated";

/// A ledger of a generation with a root participant of corporation a.
pub fn with_root(generation: NodeGeneration) -> TestLedger {
    // A validation without an end of its own.
    let mut world = with_root_participant(json!({"issuer_grantor_validation_validity_period": {"value": 0}}));
    world.chain.become_generation(generation).expect("descriptors");
    world
}

fn start(world: &mut TestLedger, corporation: &str, application: Value) -> u64 {
    world.create_entity(corporation, START, application)
}

fn application(did: &str) -> Value {
    json!({"role": "ISSUER_GRANTOR", "validator_participant_id": 1, "did": did})
}

#[test]
fn siblings_are_those_of_one_did_and_a_successor_follows_when_its_predecessor_has_ended() {
    let mut world = with_root(NodeGeneration::N1);
    let first = start(&mut world, "b", application("did:web:b"));
    let end = world.time_at(1_000);
    set_validated(&mut world, "a", first, json!({"effective_until": end}));
    // Another service of the corporation, and the successor of the first.
    let other = start(&mut world, "b", application("did:web:b:second"));
    let successor = start(&mut world, "b", application("did:web:b"));
    set_validated(&mut world, "a", other, json!({}));
    world.assert_refusals(
        "a",
        VALIDATED,
        &json!({"id": successor}),
        &[(json!({}), unregistered("existing participant 2 would be effective at the same time"))],
    );
    // Without an end nothing can follow, and the way out is named.
    let mut endless = world.clone();
    let next = start(&mut endless, "b", application("did:web:b:second"));
    endless.assert_refusals(
        "a",
        VALIDATED,
        &json!({"id": next}),
        &[(json!({}), unregistered("never expires: end it with MsgSetParticipantEffectiveUntil first"))],
    );
    world.advance(1_001);
    set_validated(&mut world, "a", successor, json!({}));
}

#[test]
fn a_root_may_begin_at_once_and_one_window_begins_when_another_ends() {
    let mut world = with_root(NodeGeneration::N1);
    let root = |did: &str, changes: Value| merge_members(&json!({"schema_id": 1, "did": did}), &changes);
    world.create_entity("a", "pp.MsgCreateRootParticipant", root("did:web:a:2", json!({})));
    let (from, until) = (world.time_at(500), world.time_at(1_000));
    let window = json!({"effective_from": from, "effective_until": until});
    world.create_entity("a", "pp.MsgCreateRootParticipant", root("did:web:a:3", window));
    let good = root("did:web:a:3", json!({"effective_from": until}));
    world.assert_refusals(
        "a",
        "pp.MsgCreateRootParticipant",
        &good,
        &[(json!({"effective_from": from}), unregistered("would be effective at the same time"))],
    );
    world.create_entity("a", "pp.MsgCreateRootParticipant", good);
}

#[test]
fn a_slash_is_repaid_before_anything_new_is_begun() {
    let mut world = with_root(NodeGeneration::N1);
    let first = start(&mut world, "b", application("did:web:b"));
    set_validated(&mut world, "a", first, json!({}));
    world.send_as_operator(
        "a",
        "pp.MsgSlashParticipantTrustDeposit",
        json!({"id": first, "amount": 10, "reason": "a test"}),
    );
    world.assert_refusals(
        "b",
        START,
        &application("did:web:b:2"),
        &[(json!({}), unregistered("send MsgRepayParticipantSlashedTrustDeposit first"))],
    );
    world.send_as_operator("b", "pp.MsgRepayParticipantSlashedTrustDeposit", json!({"id": first}));
    start(&mut world, "b", application("did:web:b:2"));
}

#[test]
fn a_did_has_one_corporation_over_all_that_has_dids() {
    let mut world = with_root(NodeGeneration::N1);
    start(&mut world, "b", application("did:web:b:service"));
    world.assert_refusals(
        "c",
        START,
        &application("did:web:c"),
        &[
            (json!({"did": "did:web:a"}), ("pp", 1102, "belongs to corporation 1")),
            (json!({"did": "did:web:b:service"}), ("pp", 1102, "has it in participant 2")),
        ],
    );
    world.assert_refusals(
        "c",
        "co.MsgUpdateCorporation",
        &json!({"did": "did:web:c:2"}),
        &[
            (json!({"did": "did:web:a"}), ("co", 1102, "already exists")),
            (
                json!({"did": "did:web:b:service"}),
                ("co", 1114, "did is claimed by an entity owned by a different corporation"),
            ),
        ],
    );
}

#[test]
fn digests_of_documents_are_opaque_and_schemas_name_two_algorithms() {
    let store = json!({"digest": "0v+BAFGpnBX"});
    with_root(NodeGeneration::N0).assert_refusals(
        "a",
        "di.MsgStoreDigest",
        &store,
        &[(json!({}), ("sdk", 18, "invalid digest SRI"))],
    );
    let mut world = with_root(NodeGeneration::N1);
    world.send_as_operator("a", "di.MsgStoreDigest", store);
    world.assert_refusals(
        "a",
        "cs.MsgCreateCredentialSchema",
        &schema(json!({"digest_algorithm": "sha384"})),
        &[(json!({"digest_algorithm": "sha256"}), ("sdk", 18, "digest_algorithm must be sha384 or sha512"))],
    );
}

/// An application of a service's account with rights and paid fees.
pub fn with_rights(did: &str, changes: Value) -> Value {
    let rights = json!({
        "vs_operator": account("service"), "vs_operator_authz_msg_types": ["/svc.pp.v1.MsgSetParticipantOPToValidated"],
        "vs_operator_authz_with_feegrant": true, "vs_operator_authz_fee_spend_limit": [coin(7_000)],
    });
    merge_members(&merge_members(&application(did), &rights), &changes)
}

#[test]
fn fees_of_vs_operators_are_one_allowance_of_those_that_are_effective() {
    let mut world = with_root(NodeGeneration::N3);
    let text = "fee_spend_limit must be set and strictly positive iff with_feegrant is true";
    world.assert_refusals(
        "b",
        START,
        &with_rights("did:web:b", json!({})),
        &[
            (json!({"vs_operator_authz_fee_spend_limit": null}), ("de", 1117, text)),
            (json!({"vs_operator_authz_fee_spend_limit": [coin(0)]}), ("de", 1117, text)),
            (json!({"vs_operator_authz_with_feegrant": null}), ("de", 1117, text)),
            (json!({"vs_operator_authz_period": "60s"}), unregistered("a period requires a spend limit")),
        ],
    );
    let allowance = |world: &TestLedger| {
        let request = json!({"granter": world.saved_names["b"], "grantee": account("service")});
        world.try_query("/cosmos.feegrant.v1beta1.Query/Allowance", request).ok()
    };
    let limit_of = |world: &TestLedger| {
        let found = allowance(world).expect("an allowance");
        found["allowance"]["allowance"]["allowance"]["period_spend_limit"][0]["amount"].as_str().map(str::to_owned)
    };
    let first = start(&mut world, "b", with_rights("did:web:b", json!({})));
    let second = start(&mut world, "b", with_rights("did:web:b:2", json!({})));
    assert_eq!(allowance(&world), None, "neither is effective");
    set_validated(&mut world, "a", first, json!({}));
    assert_eq!(limit_of(&world).as_deref(), Some("7000"));
    let end = world.time_at(100);
    set_validated(&mut world, "a", second, json!({"effective_until": end}));
    assert_eq!(limit_of(&world).as_deref(), Some("14000"));
    world.advance(200);
    assert_eq!(limit_of(&world).as_deref(), Some("7000"), "the second has ended");
}

#[test]
fn a_record_lasts_as_long_as_its_participant() {
    let mut world = with_root(NodeGeneration::N3);
    let grantor = start(&mut world, "b", with_rights("did:web:b", json!({})));
    let issuer = json!({"role": "ISSUER", "validator_participant_id": grantor, "did": "did:web:c"});
    world.assert_refusals("c", START, &issuer, &[(json!({}), unregistered("is not active"))]);
    set_validated(&mut world, "a", grantor, json!({}));
    let applicant = start(&mut world, "c", issuer);
    let message = json!({"id": applicant});
    let sent = world.signer_message("b", "service", VALIDATED, &message);
    world.advance(10_000_000);
    let outcome = world.send_message("service", VALIDATED, &sent);
    assert_eq!(outcome.code, 0, "it has no expiration: {}", outcome.log);
    assert!(!attribute(&outcome, "set_participant_op_to_validated", "participant_id").is_empty());
}

#[test]
fn the_first_use_after_the_end_of_a_cycle_opens_the_next_one_with_the_whole_limit() {
    let mut world = with_root(NodeGeneration::N3);
    let cycle = json!({"vs_operator_authz_spend_limit": [coin(150)], "vs_operator_authz_period": "60s"});
    let grantor = start(&mut world, "b", with_rights("did:web:b", cycle));
    set_validated(&mut world, "a", grantor, json!({"validation_fees": 500}));
    let [first, second, third] = ["did:web:c", "did:web:c:2", "did:web:c:3"].map(|did| {
        let issuer = json!({"role": "ISSUER", "validator_participant_id": grantor, "did": did});
        start(&mut world, "c", issuer)
    });
    let record = |world: &TestLedger| {
        let found = world.query("de.ListVSOperatorAuthorizations", json!({"vs_operator": account("service")}));
        let record = found["vs_operator_authorizations"][0]["records"][0].clone();
        (record["remaining_spend"].clone(), record["expiration"].clone())
    };
    let validate = |world: &mut TestLedger, applicant: u64| {
        let message = world.signer_message("b", "service", VALIDATED, &json!({"id": applicant}));
        world.send_message("service", VALIDATED, &message)
    };
    assert_eq!(record(&world), (json!([coin(150)]), Value::Null), "no cycle before the first use");
    // The deposit of 20 % of 500 counts against the limit.
    let outcome = validate(&mut world, first);
    assert_eq!(outcome.code, 0, "{}", outcome.log);
    let end = world.time_at(60);
    assert_eq!(record(&world), (json!([coin(50)]), json!(end)));
    let outcome = validate(&mut world, second);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1108), "{}", outcome.log);
    assert_eq!(record(&world), (json!([coin(50)]), json!(end)), "within the cycle nothing is refilled");
    world.advance(100);
    assert_eq!(record(&world), (json!([coin(50)]), json!(end)), "the node states the rest of the cycle that has ended");
    let outcome = validate(&mut world, second);
    assert_eq!(outcome.code, 0, "{}", outcome.log);
    assert_eq!(attribute(&outcome, "vs_operator_authorization_updated", "participant_id"), grantor.to_string());
    let next = world.time_at(60);
    assert_eq!(record(&world), (json!([coin(50)]), json!(next)));
    let outcome = validate(&mut world, third);
    assert_eq!((outcome.codespace.as_str(), outcome.code), ("de", 1108), "{}", outcome.log);
}

#[test]
fn only_messages_of_the_generation_can_be_granted() {
    const POLICY: &str = "/svc.cs.v1.MsgRevokeSchemaAuthorizationPolicy";
    let grant = json!({"grantee": account("dave"), "msg_types": ["/svc.co.v1.MsgUpdateCorporation"]});
    for (generation, grantable) in
        [(NodeGeneration::N0, 28), (NodeGeneration::N1, 25), (NodeGeneration::N3, 25), (NodeGeneration::N4, 25)]
    {
        let mut world = with_root(generation);
        // The session message is delegable too, in the record of a VS operator alone.
        assert_eq!(world.chain.grantable_types().len(), grantable, "{generation}");
        let granted = merge_members(&grant, &json!({"msg_types": [POLICY]}));
        if generation == NodeGeneration::N0 {
            world.send_as_operator("a", "de.MsgGrantOperatorAuthorization", granted);
            continue;
        }
        let refused = unregistered("message type is not delegable: /svc.cs.v1.MsgRevokeSchemaAuthorizationPolicy");
        let cases = [(json!({"msg_types": [POLICY]}), refused)];
        world.assert_refusals("a", "de.MsgGrantOperatorAuthorization", &grant, &cases);
    }
}
