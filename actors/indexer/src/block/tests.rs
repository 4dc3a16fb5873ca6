use prost::Message;
use prost_types::Any;
use serde_json::json;
use svc_wire::{
    proto::cosmos::{
        authz::v1beta1::MsgExec,
        group::v1::{MsgUpdateGroupMetadata, MsgVote, VoteOption},
        tx::v1beta1::{TxBody, TxRaw},
    },
    proto_registry::Namespace,
};

use super::*;

fn known_messages() -> KnownMessages {
    KnownMessages::compiled(&Namespace::compiled()).expect("the compiled schema")
}

fn event(kind: &str, attributes: &[(&str, &str)]) -> serde_json::Value {
    let attributes: Vec<_> = attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    json!({"type": kind, "attributes": attributes})
}

fn facts(messages: Vec<Any>, code: u32, events: serde_json::Value, own: serde_json::Value) -> BlockFacts {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let body = TxBody { messages, ..TxBody::default() };
    let raw = TxRaw { body_bytes: body.encode_to_vec(), ..TxRaw::default() };
    let block: CommittedBlock = serde_json::from_value(json!({
        "block_id": {"hash": "AB"},
        "block": {
            "header": {"chain_id": "c", "height": "5", "time": "2026-01-01T00:00:00.5Z"},
            "data": {"txs": [STANDARD.encode(raw.encode_to_vec())]},
        },
    }))
    .expect("a block");
    let results = json!({
        "height": "5", "finalize_block_events": own,
        "txs_results": [{"code": code, "gas_wanted": "0", "gas_used": "0", "events": events}],
    });
    decode_block(&block, &serde_json::from_value(results).expect("results"), &known_messages()).expect("facts")
}

fn types(facts: &BlockFacts) -> Vec<&str> {
    facts.events.iter().map(|event| &*event.event_type.name).collect()
}

#[test]
fn a_creation_changes_its_entity_once_and_has_one_event_with_its_sender() {
    let facts = facts(
        Vec::new(),
        0,
        json!([
            event("use_feegrant", &[("granter", "p"), ("grantee", "o")]),
            event("message", &[("action", "/svc.ec.v1.MsgCreateEcosystem"), ("sender", "o"), ("msg_index", "0")]),
            event("add_gf_document", &[("ecosystem_id", "3"), ("msg_index", "0")]),
            event("create_ecosystem", &[("ecosystem_id", "3"), ("msg_index", "0")]),
        ]),
        json!([]),
    );
    let allowance = EntityRef::FeeAllowance { granter: "p".into(), grantee: "o".into() };
    assert_eq!(facts.entities.keys().cloned().collect::<Vec<_>>(), [EntityRef::Ecosystem(3), allowance]);
    let causes: Vec<_> = facts.entities[&EntityRef::Ecosystem(3)].iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(causes, ["CreateEcosystem"], "the message, once, although two of its events changed the entity");
    assert_eq!(types(&facts), ["CreateNewEcosystem"]);
    assert_eq!(facts.events[0].position.sender, "o");
}

#[test]
fn an_unknown_message_becomes_an_event() {
    let message = |url: &str| Any { type_url: url.into(), value: vec![1, 2, 3] };
    let messages = vec![
        message("/svc.pp.v1.MsgInventNewThing"),
        message("/svc.zz.v2beta1.MsgOther"),
        message("/cosmos.bank.v1beta1.MsgSend"),
        message("/svc.co.v1.MsgUpdateCorporation"),
    ];
    let read = facts(messages.clone(), 0, json!([]), json!([]));
    assert_eq!(types(&read), ["InventNewThing", "Other"]);
    let places: Vec<_> =
        read.events.iter().map(|event| (&*event.event_type.module, event.position.message_index)).collect();
    assert_eq!(places, [("pp", 0), ("zz", 1)]);
    assert!(
        facts(messages, 5, json!([]), json!([])).events.is_empty(),
        "a failed transaction has no events of messages"
    );
}

#[test]
fn group_messages_have_distinct_events_and_votes_are_recorded() {
    let pack = |url: &str, value: Vec<u8>| Any { type_url: url.into(), value };
    let update = MsgUpdateGroupMetadata { admin: "a".into(), group_id: 9, metadata: "m".into() };
    let vote =
        MsgVote { proposal_id: 7, voter: "v".into(), option: VoteOption::NoWithVeto.into(), ..MsgVote::default() };
    let messages = vec![
        pack("/cosmos.group.v1.MsgUpdateGroupMetadata", update.encode_to_vec()),
        pack("/cosmos.group.v1.MsgVote", vote.encode_to_vec()),
    ];
    let events = json!([
        event("cosmos.group.v1.EventUpdateGroup", &[("group_id", "\"9\""), ("msg_index", "0")]),
        event("cosmos.group.v1.EventVote", &[("proposal_id", "\"7\""), ("msg_index", "1")]),
    ]);
    let facts = facts(messages, 0, events, json!([]));
    assert_eq!(types(&facts), ["UpdateGroupMetadata", "Vote"]);
    assert_eq!(facts.events[0].id("group_id"), Some(9));
    assert_eq!(facts.events[1].text("proposal_id"), Some("7"), "typed attributes carry JSON");
    assert_eq!((facts.votes[0].proposal, facts.votes[0].option.as_str()), (7, "NO_WITH_VETO"));
    assert!(matches!(facts.unresolved[0].entity, UnresolvedRef::GroupById(9)));
}

#[test]
fn events_of_the_block_itself_come_last_under_the_hash_of_the_block() {
    let own = json!([
        event("create_exchange_rate", &[("id", "4"), ("authority", "gov"), ("mode", "EndBlock")]),
        event("yield_distribution", &[]),
    ]);
    let facts = facts(Vec::new(), 0, json!([event("update_exchange_rate", &[("id", "3"), ("msg_index", "0")])]), own);
    assert_eq!(types(&facts), ["UpdateExchangeRate", "CreateExchangeRate"]);
    let last = &facts.events[1].position;
    assert_eq!(
        (last.tx_hash.as_str(), last.tx_index, last.sender.as_str(), last.is_transaction),
        ("AB", 1, "gov", false)
    );
    assert!(facts.entities.contains_key(&EntityRef::Params("td")), "the yield changes the value of a share");
}

#[test]
fn the_event_of_a_message_comes_ahead_of_those_that_it_caused() {
    let of = |index: &str, kinds: &[&str]| {
        let names = [
            ("participant_id", "7"),
            ("corporation_id", "1"),
            ("grantee", "g"),
            ("authz_id", "2"),
            ("session_id", "s"),
            ("digest", "sha384-AAEC"),
            ("msg_index", index),
        ];
        kinds.iter().map(|kind| event(kind, &names)).collect::<Vec<_>>()
    };
    let emitted = [
        of("0", &["adjust_trust_deposit", "grant_vs_operator_authorization", "start_participant_op"]),
        of("1", &["adjust_trust_deposit", "set_participant_op_to_validated"]),
        of("2", &["grant_fee_allowance", "grant_operator_authorization"]),
        of("5", &["adjust_trust_deposit", "store_digest", "create_update_csps"]),
        // A proposal runs messages: the event of the message that runs it comes first.
        of("3", &["cosmos.group.v1.EventExec", "grant_fee_allowance", "grant_operator_authorization"]),
        of(
            "4",
            &["cosmos.group.v1.EventVote", "cosmos.group.v1.EventExec", "adjust_trust_deposit", "renew_participant_op"],
        ),
    ];
    let facts = facts(Vec::new(), 0, json!(emitted.concat()), json!([]));
    let first = |index: u32| facts.events.iter().find(|event| event.position.message_index == index).expect("an event");
    let names: Vec<&str> = (0..6).map(|index| &*first(index).event_type.name).collect();
    assert_eq!(
        names,
        [
            "StartParticipantOP",
            "SetParticipantOPToValidated",
            "GrantOperatorAuthorization",
            "Exec",
            "Vote",
            "CreateOrUpdateParticipantSession"
        ]
    );
    assert_eq!(types(&facts).len(), emitted.concat().len(), "none is lost");
}

#[test]
fn events_with_the_same_key_are_merged() {
    let adjust = |corporation: &str, index: &str| {
        event("adjust_trust_deposit", &[("corporation_id", corporation), ("msg_index", index)])
    };
    let events = json!([adjust("1", "0"), adjust("2", "0"), adjust("1", "0"), adjust("1", "1")]);
    let facts = facts(Vec::new(), 0, events, json!([]));
    let entities: Vec<_> =
        facts.events.iter().map(|event| (event.id("corporation_id"), event.position.message_index)).collect();
    assert_eq!(entities, [(Some(1), 0), (Some(2), 0), (Some(1), 1)]);
}

#[test]
fn each_event_of_a_proposal_has_an_index_of_its_own() {
    let of = |index: &str, kind: &str, participant: &str| {
        let names =
            [("participant_id", participant), ("corporation_id", "1"), ("proposal_id", "3"), ("msg_index", index)];
        event(kind, &names)
    };
    let message = || Any { type_url: "/cosmos.group.v1.MsgExec".into(), value: Vec::new() };
    let emitted = json!([
        of("0", "adjust_trust_deposit", "7"),
        of("0", "renew_participant_op", "7"),
        of("0", "adjust_trust_deposit", "7"),
        of("0", "renew_participant_op", "7"),
        of("0", "revoke_participant", "8"),
        of("0", "cosmos.group.v1.EventExec", "0"),
        of("1", "trigger_resolver", "9"),
        of("1", "trigger_resolver", "9"),
    ]);
    // The last message has no event.
    let mut facts = facts(vec![message(), message(), message()], 0, emitted, json!([]));
    facts.separate_nested_events();
    let found: Vec<_> =
        facts.events.iter().map(|event| (event.position.message_index, &*event.event_type.name)).collect();
    assert_eq!(
        found,
        [
            (0, "Exec"),
            (1, "TriggerResolver"),
            (3, "RenewParticipantOP"),
            (4, "RenewParticipantOP"),
            (5, "RevokeParticipant"),
            (6, "AdjustTrustDeposit"),
        ]
    );
}

#[test]
fn the_messages_of_an_authz_execution_have_indexes_of_their_own() {
    let of = |index: &str, nested: &[&str], kind: &str, participant: &str| {
        let mut names = vec![("participant_id", participant), ("corporation_id", "1"), ("proposal_id", "3")];
        // Each MsgExec adds its attribute after that of the one inside, and the transaction its own after all.
        names.extend(nested.iter().rev().map(|place| ("authz_msg_index", *place)));
        names.push(("msg_index", index));
        event(kind, &names)
    };
    let exec = |msgs: Vec<Any>| Any {
        type_url: "/cosmos.authz.v1beta1.MsgExec".into(),
        value: MsgExec { grantee: "o".into(), msgs }.encode_to_vec(),
    };
    let vote = MsgVote { proposal_id: 3, voter: "m".into(), option: VoteOption::Yes as i32, ..MsgVote::default() };
    let vote = Any { type_url: "/cosmos.group.v1.MsgVote".into(), value: vote.encode_to_vec() };
    let unknown = Any { type_url: "/svc.pp.v1.MsgInventNewThing".into(), value: Vec::new() };
    let emitted = json!([
        of("0", &["0"], "adjust_trust_deposit", "7"),
        of("0", &["0"], "renew_participant_op", "7"),
        of("0", &["1"], "adjust_trust_deposit", "7"),
        of("0", &["1"], "renew_participant_op", "7"),
        of("0", &["2", "0"], "revoke_participant", "8"),
        of("0", &["2", "1"], "revoke_participant", "8"),
        of("1", &[], "trigger_resolver", "9"),
    ]);
    let message = || Any { type_url: "/cosmos.bank.v1beta1.MsgSend".into(), value: Vec::new() };
    let inner = exec(vec![message(), message(), vote, unknown]);
    let mut facts = facts(vec![exec(vec![message(), message(), inner]), message()], 0, emitted, json!([]));
    facts.separate_nested_events();
    let found: Vec<_> =
        facts.events.iter().map(|event| (event.position.message_index, &*event.event_type.name)).collect();
    assert_eq!(
        found,
        [
            (0, "RenewParticipantOP"),
            (0, "AdjustTrustDeposit"),
            (1, "TriggerResolver"),
            (2, "RenewParticipantOP"),
            (2, "AdjustTrustDeposit"),
            (3, "RevokeParticipant"),
            (4, "RevokeParticipant"),
            (5, "InventNewThing"),
        ]
    );
    assert_eq!(facts.votes.len(), 1, "a vote inside counts");
}
