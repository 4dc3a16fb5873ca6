//! The first refusals of a node with a council, and the messages about its validators.

use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use svc_ledger::{ExecMode, run_ante, simulate};
use svc_wire::{
    address::{Address, group_policy_address},
    proto::cosmos::authz::v1beta1::MsgExec,
    proto_registry::NodeGeneration,
};

use super::{
    outcomes::attribute,
    test_ledger::{TestLedger, account, corporation, merge_members},
};

const GROUP: &str = "/cosmos.group.v1.";

#[derive(Clone, PartialEq, Message)]
struct NewAdmin {
    #[prost(string, tag = "1")]
    admin: String,
    #[prost(uint64, tag = "2")]
    group_id: u64,
    #[prost(string, tag = "3")]
    new_admin: String,
}

fn executed(messages: Vec<Any>) -> Any {
    let value = MsgExec { grantee: account("member"), msgs: messages }.encode_to_vec();
    Any { type_url: "/cosmos.authz.v1beta1.MsgExec".to_owned(), value }
}

fn proposed(policy: &str, messages: Vec<Any>) -> Any {
    let proposal = svc_wire::proto::cosmos::group::v1::MsgSubmitProposal {
        group_policy_address: policy.to_owned(),
        proposers: vec![account("member")],
        messages,
        ..Default::default()
    };
    Any { type_url: format!("{GROUP}MsgSubmitProposal"), value: proposal.encode_to_vec() }
}

fn staking(name: &str) -> Any {
    Any { type_url: format!("/cosmos.staking.v1beta1.{name}"), value: Vec::new() }
}

fn begin(seats: &[&str]) -> TestLedger {
    TestLedger::begin(NodeGeneration::N4, 0, seats).expect("a genesis")
}

fn policy(sequence: u64) -> String {
    Address::from_bytes("svc", &group_policy_address(sequence)).expect("an address").to_string()
}

/// The answer to a message in each mode of the ante chain, which has to be the same.
fn answer(world: &TestLedger, message: Any) -> (String, u32, String) {
    let mut world = world.clone();
    let bytes = world.sign("member", &world.unsigned("member", vec![message]));
    let checked = run_ante(&mut world.state.clone(), &world.chain, world.block(), &bytes, ExecMode::Check);
    let checked = checked.err().map(|(error, _)| (error.codespace.to_owned(), error.code, error.text));
    let simulated = simulate(&world.state, &world.chain, world.block(), &bytes);
    let delivered = world.run_block(&[bytes]).remove(0);
    let delivered = (delivered.codespace, delivered.code, delivered.log);
    assert_eq!((simulated.codespace, simulated.code, simulated.log), delivered);
    if let Some(checked) = checked {
        assert_eq!(checked, delivered);
    }
    delivered
}

#[test]
fn staking_is_refused_however_deep_it_is_nested() {
    let world = begin(&["member", "alice"]);
    let names = ["Delegate", "Undelegate", "BeginRedelegate", "CancelUnbondingDelegation", "CreateValidator"];
    for name in names.map(|name| format!("Msg{name}")) {
        let mut nested = staking(&name);
        for depth in 0..=10 {
            let (codespace, code, text) = answer(&world, nested.clone());
            assert_eq!((codespace.as_str(), code), ("poa", 9), "{name} at {depth}: {text}");
            let expected =
                format!("/cosmos.staking.v1beta1.{name}: staking message not allowed under proof of authority");
            assert_eq!(text, expected);
            nested = if depth % 2 == 0 { executed(vec![nested]) } else { proposed(&policy(1), vec![nested]) };
        }
        let (codespace, code, _) = answer(&world, nested);
        assert_eq!((codespace.as_str(), code), ("sdk", 2), "{name}: the SDK unpacks no deeper");
    }
    let (codespace, code, _) = answer(&world, staking("MsgEditValidator"));
    assert_ne!((codespace.as_str(), code), ("poa", 9));
    let broken = Any { type_url: format!("{GROUP}MsgSubmitProposal"), value: vec![0xff] };
    assert_eq!(answer(&world, executed(vec![broken])).1, 2, "what cannot be unpacked is refused as such");
    // Without a council nothing of this is refused by it.
    let older = TestLedger::begin(NodeGeneration::N3, 0, &["member"]).expect("a genesis");
    assert_ne!(answer(&older, staking("MsgDelegate")).0, "poa");
}

#[test]
fn the_council_stays_in_its_own_hands_and_other_groups_are_free() {
    let mut world = begin(&["member", "alice"]);
    world.send_ok("member", "co.MsgCreateCorporation", corporation("did:web:a"));
    let (council, own) = (policy(1), policy(2));
    let percentage = |share: &str| {
        json!({
            "@type": "/cosmos.group.v1.PercentageDecisionPolicy", "percentage": share,
            "windows": {"voting_period": "60s", "min_execution_period": "0s"},
        })
    };
    let threshold = json!({
        "@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1",
        "windows": {"voting_period": "60s", "min_execution_period": "0s"},
    });
    let pack = |name: &str, value: Value| world.pack(&format!("{GROUP}{name}"), &value);
    let decision = |address: &str, decision: &Value| {
        let change = json!({"admin": address, "group_policy_address": address, "decision_policy": decision});
        pack("MsgUpdateGroupPolicyDecisionPolicy", change)
    };
    let members = |id: u64, address: &str, updates: &[(&str, &str)]| {
        let rows = updates.iter().map(|(name, weight)| json!({"address": account(name), "weight": weight}));
        let rows: Vec<Value> = rows.collect();
        pack("MsgUpdateGroupMembers", json!({"admin": address, "group_id": id, "member_updates": rows}))
    };
    let admin = |name: &str, id: u64, new: &str| {
        let change = NewAdmin { admin: council.clone(), group_id: id, new_admin: new.to_owned() };
        Any { type_url: format!("{GROUP}{name}"), value: change.encode_to_vec() }
    };
    for refused in [
        admin("MsgUpdateGroupAdmin", 1, &own),
        decision(&council, &threshold),
        decision(&council, &percentage("0.6665")),
        members(1, &council, &[("bob", "2")]),
        members(1, &council, &[("bob", "0.5")]),
        members(1, &council, &[("alice", "0"), ("member", "0")]),
    ] {
        for nested in [refused.clone(), proposed(&council, vec![refused.clone()]), executed(vec![refused.clone()])] {
            let (codespace, code, text) = answer(&world, nested);
            assert_eq!((codespace.as_str(), code), ("poa", 12), "{}: {text}", refused.type_url);
            assert!(text.ends_with(": message would break the council's self-administration"), "{text}");
        }
    }
    for passing in [
        admin("MsgUpdateGroupAdmin", 1, &council),
        admin("MsgUpdateGroupAdmin", 2, &account("bob")),
        decision(&council, &percentage("0.6666")),
        decision(&council, &percentage("1")),
        decision(&own, &threshold),
        members(1, &council, &[("alice", "0"), ("bob", "1")]),
        members(2, &own, &[("bob", "7")]),
    ] {
        let (codespace, code, text) = answer(&world, proposed(&council, vec![passing.clone()]));
        assert_ne!(codespace, "poa", "{} {code}: {text}", passing.type_url);
    }
}

#[test]
fn a_seat_may_leave_unless_it_is_the_last() {
    let mut world = begin(&["member", "alice"]);
    let leave = |name: &str| json!({"address": account(name), "group_id": 1});
    world.send_ok("alice", "/cosmos.group.v1.MsgLeaveGroup", leave("alice"));
    let refusal = ("poa", 12, "the last council member cannot leave");
    world.assert_refused("member", "/cosmos.group.v1.MsgLeaveGroup", &leave("member"), refusal);
}

/// Decides a proposal of the council with the votes of both seats; returns the reason of its failure, or nothing.
fn decide(world: &mut TestLedger, message: Value) -> String {
    let proposal = json!({
        "group_policy_address": policy(1), "proposers": [account("member")], "messages": [message], "title": "t", "summary": "s",
    });
    let outcome = world.send_ok("member", &format!("{GROUP}MsgSubmitProposal"), proposal);
    let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
    let id: u64 = id.trim_matches('"').parse().expect("a number");
    for seat in ["member", "alice"] {
        let vote = json!({"proposal_id": id, "voter": account(seat), "option": "VOTE_OPTION_YES"});
        let _ = world.send_message(seat, &format!("{GROUP}MsgVote"), &vote);
    }
    world.advance(11);
    let outcome =
        world.send_ok("member", &format!("{GROUP}MsgExec"), json!({"proposal_id": id, "executor": account("member")}));
    attribute(&outcome, "cosmos.group.v1.EventExec", "logs").trim_matches('"').to_owned()
}

#[test]
fn the_council_adds_and_removes_validators_and_keeps_the_last() {
    let mut world = begin(&["member", "alice"]);
    let supply = |world: &TestLedger| {
        let request = json!({"denom": "usvc"});
        let reply = world.query("/cosmos.bank.v1beta1.Query/SupplyOf", request);
        reply["amount"]["amount"].as_str().expect("an amount").parse::<u128>().expect("a number")
    };
    let of_council = |name: &str, address: &str| json!({"@type": format!("/svc.poa.v1.{name}"), "authority": policy(1), "validator_address": address});
    let before = supply(&world);
    let (member, alice, bob) = (account("member"), account("alice"), account("bob"));
    let own = |name: &str| json!({"validator_address": account(name)});

    let by_member = merge_members(&of_council("MsgAddValidator", &bob), &json!({"authority": member, "@type": null}));
    world.assert_refused(
        "member",
        "poa.MsgAddValidator",
        &by_member,
        ("poa", 2, "expected council authority as signer"),
    );
    world.assert_refused("bob", "poa.MsgSelfRemoveValidator", &own("bob"), ("poa", 7, "address is not a validator"));
    for (message, expected) in [
        (of_council("MsgAddValidator", &bob), "address is not a council member"),
        (of_council("MsgAddValidator", &alice), "address already has a validator with bonded tokens"),
        (of_council("MsgRemoveValidator", &bob), "address is not a validator"),
        (of_council("MsgRemoveValidator", &alice), ""),
        (of_council("MsgRemoveValidator", &member), "cannot remove the last bonded validator"),
    ] {
        let reason = decide(&mut world, message.clone());
        assert!(reason.contains(expected) && reason.is_empty() == expected.is_empty(), "{message}: {reason}");
    }
    assert_eq!(supply(&world), before - 1_000_000, "the bond is burned");
    let council = world.query("/svc.poa.v1.Query/Council", json!({}));
    assert_eq!(council["members_without_validator"], json!([alice]));
    let last = ("poa", 11, "cannot remove the last bonded validator");
    world.assert_refused("member", "poa.MsgSelfRemoveValidator", &own("member"), last);

    assert_eq!(decide(&mut world, of_council("MsgAddValidator", &alice)), "");
    assert_eq!(supply(&world), before);
    let outcome = world.send_ok("member", "poa.MsgSelfRemoveValidator", own("member"));
    assert_eq!(attribute(&outcome, "remove_validator", "tokens"), "1000000");

    let older = TestLedger::begin(NodeGeneration::N3, 0, &["member"]).expect("a genesis");
    let bytes = Any { type_url: "/svc.poa.v1.MsgSelfRemoveValidator".to_owned(), value: Vec::new() };
    assert_eq!(answer(&older, bytes).1, 2, "the message is none of an older node's");
}
