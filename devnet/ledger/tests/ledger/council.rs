//! The council of validators: the first group, which anchors no corporation and has the place of governance.

use serde_json::{Value, json};
use svc_ledger::{GenesisState, authority_address, export_app_state, query};
use svc_wire::{
    address::{Address, group_policy_address},
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry},
};

use super::{
    outcomes::{attribute, has_event},
    test_ledger::{TestLedger, account, corporation, merge_members},
};

const SUBMIT: &str = "/cosmos.group.v1.MsgSubmitProposal";
const VOTE: &str = "/cosmos.group.v1.MsgVote";
const EXEC: &str = "/cosmos.group.v1.MsgExec";
const SEATS: [&str; 5] = ["member", "alice", "bob", "carol", "dave"];

fn begin(seats: &[&str]) -> TestLedger {
    TestLedger::begin(NodeGeneration::N4, 0, seats).expect("a genesis")
}

fn policy(sequence: u64) -> String {
    Address::from_bytes("svc", &group_policy_address(sequence)).expect("an address").to_string()
}

/// The answer about the council, or its refusal.
fn council(world: &TestLedger) -> Result<Value, (&'static str, u32)> {
    let reply = query(&world.state, &world.chain, world.block(), "/svc.poa.v1.Query/Council", &[]);
    let reply = reply.map_err(|error| (error.codespace, error.code))?;
    let newest = ProtoRegistry::compiled(&Namespace::compiled()).expect("loads").of_generation(NodeGeneration::N4);
    Ok(newest.expect("descriptors").decode("svc.poa.v1.QueryCouncilResponse", &reply).expect("decodes"))
}

/// Submits a proposal of the council with one message; returns its id.
fn submit(world: &mut TestLedger, message: Value) -> u64 {
    let proposal = json!({
        "group_policy_address": policy(1), "proposers": [account("member")], "messages": [message], "title": "t", "summary": "s",
    });
    let outcome = world.send_ok("member", SUBMIT, proposal);
    let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
    id.trim_matches('"').parse().expect("a number")
}

/// Votes yes with these seats, and executes; returns the result.
fn vote_and_execute(world: &mut TestLedger, id: u64, seats: &[&str]) -> String {
    for seat in seats {
        let vote = json!({"proposal_id": id, "voter": account(seat), "option": "VOTE_OPTION_YES"});
        world.send_ok(seat, VOTE, vote);
    }
    let outcome = world.send_ok("member", EXEC, json!({"proposal_id": id, "executor": account("member")}));
    let result = attribute(&outcome, "cosmos.group.v1.EventExec", "result");
    result.trim_matches('"').trim_start_matches("PROPOSAL_EXECUTOR_RESULT_").to_owned()
}

fn rate(authority: &str) -> Value {
    json!({
        "@type": "/svc.xr.v1.MsgCreateExchangeRate", "authority": authority, "base_asset_type": "TU", "base_asset": "tu",
        "quote_asset_type": "COIN", "quote_asset": "usvc", "rate": "1000000", "rate_scale": 6, "validity_duration": "3600s",
    })
}

#[test]
fn the_council_is_group_1_before_the_first_block_and_corporations_follow() {
    for count in 1..=SEATS.len() {
        let mut world = begin(&SEATS[..count]);
        let council_policy = policy(1);
        let group = world.query("/cosmos.group.v1.Query/GroupInfo", json!({"group_id": 1}))["info"].clone();
        assert_eq!((&group["admin"], &group["total_weight"]), (&json!(council_policy), &json!(count.to_string())));
        let info = json!({"address": council_policy});
        let info = world.query("/cosmos.group.v1.Query/GroupPolicyInfo", info)["info"].clone();
        assert_eq!((&info["group_id"], &info["admin"]), (&json!("1"), &json!(council_policy)));
        let decision = &info["decision_policy"];
        assert_eq!(decision["@type"], "/cosmos.group.v1.PercentageDecisionPolicy");
        assert_eq!(decision["percentage"], "0.6666");
        let listed = world.query("/cosmos.group.v1.Query/GroupMembers", json!({"group_id": 1}));
        let listed = listed["members"].as_array().expect("a list").clone();
        assert!(listed.len() == count && listed.iter().all(|seat| seat["member"]["weight"] == "1"), "{listed:?}");

        let shown = council(&world).expect("a council");
        assert_eq!((&shown["authority"], &shown["group_id"]), (&json!(council_policy), &json!("1")));
        let mut expected: Vec<String> = SEATS[..count].iter().map(|name| account(name)).collect();
        expected.sort();
        assert_eq!(shown["members"], json!(expected));
        assert_eq!((&shown["members_without_validator"], &shown["validators_without_seat"]), (&json!([]), &json!([])));

        let outcome = world.send_ok("member", "co.MsgCreateCorporation", corporation("did:web:a"));
        assert_eq!(attribute(&outcome, "create_corporation", "corporation_id"), "1");
        let own = attribute(&outcome, "create_corporation", "policy_address");
        assert_eq!(own, policy(2));
        let info = world.query("/cosmos.group.v1.Query/GroupPolicyInfo", json!({"address": own}));
        assert_eq!(info["info"]["group_id"], "2");
    }
}

#[test]
fn two_thirds_of_the_seats_decide_no_earlier_than_the_wait_allows() {
    for (count, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 4)] {
        let (mut world, wanted) = (begin(&SEATS[..count]), rate(&policy(1)));
        let id = submit(&mut world, wanted.clone());
        world.advance(11);
        assert_eq!(vote_and_execute(&mut world, id, &SEATS[..needed - 1]), "NOT_RUN", "{count} seats");
        assert_eq!(vote_and_execute(&mut world, id, &SEATS[needed - 1..needed]), "SUCCESS", "{count} seats");
        let early = submit(&mut world, wanted.clone());
        assert_eq!(vote_and_execute(&mut world, early, &SEATS[..needed]), "FAILURE", "{count} seats");
    }
}

#[test]
fn the_council_is_the_authority_and_governance_is_gone() {
    let mut world = begin(&["member"]);
    assert_eq!(authority_address(&world.state, &world.chain), policy(1));
    let by_member = merge_members(&rate(&account("member")), &json!({"@type": null}));
    let refusal = ("xr", 1100, "invalid authority; expected svc1");
    world.assert_refused("member", "xr.MsgCreateExchangeRate", &by_member, refusal);
    let id = submit(&mut world, rate(&policy(1)));
    world.advance(11);
    assert_eq!(vote_and_execute(&mut world, id, &["member"]), "SUCCESS");
    let stored = world.query("xr.GetExchangeRate", json!({"id": 1}))["exchange_rate"].clone();
    assert_eq!(stored["rate"], "1000000");
    let vote = json!({"proposal_id": 1, "voter": account("member"), "option": "VOTE_OPTION_YES"});
    world.assert_refused("member", "/cosmos.gov.v1.MsgVote", &vote, ("sdk", 2, "unable to resolve type URL"));
    for (path, request, code) in [
        ("/cosmos.gov.v1.Query/Params", json!({}), 6),
        ("/cosmos.auth.v1beta1.Query/ModuleAccountByName", json!({"name": "gov"}), 22),
    ] {
        let refused = world.try_query(path, request).expect_err(path);
        assert_eq!((refused.0.as_str(), refused.1), ("sdk", code), "{path}");
    }
    let bonds = world.query("/cosmos.auth.v1beta1.Query/ModuleAccountByName", json!({"name": "poa"}));
    assert_eq!(bonds["account"]["permissions"], json!(["minter"]), "{bonds}");
}

#[test]
fn the_council_changes_parameters_by_their_new_numbers() {
    let mut world = begin(&["member"]);
    let before = world.query("cs.Params", json!({}))["params"].clone();
    let schemas = merge_members(&before, &json!({"credential_schema_schema_max_size": "4096"}));
    let deposits = world.query("td.Params", json!({}))["params"].clone();
    let deposits = merge_members(&deposits, &json!({"trust_deposit_rate": deposits["user_agent_reward_rate"]}));
    for (module, params) in [("cs", schemas), ("td", deposits)] {
        let url = format!("/svc.{module}.v1.MsgUpdateParams");
        let id = submit(&mut world, json!({"@type": url, "authority": policy(1), "params": params}));
        world.advance(11);
        assert_eq!(vote_and_execute(&mut world, id, &["member"]), "SUCCESS", "{module}");
        assert_eq!(world.query(&format!("{module}.Params"), json!({}))["params"], params, "{module}");
    }
    // The state of a genesis keeps every parameter.
    let app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
    let genesis = GenesisState { app_state: Some(app_state), ..GenesisState::default() };
    assert_eq!(genesis.build_state(&world.chain).expect("a state").hash(), world.state.hash());
}

#[test]
fn a_chain_that_began_without_a_council_has_none() {
    for generation in NodeGeneration::ALL.into_iter().filter(|generation| *generation < NodeGeneration::N4) {
        let mut world = TestLedger::begin(generation, 0, &["member"]).expect("a genesis");
        let outcome = world.send_ok("member", "co.MsgCreateCorporation", corporation("did:web:a"));
        assert_eq!(attribute(&outcome, "create_corporation", "policy_address"), policy(1));
        assert!(has_event(&outcome, "create_corporation"));
        assert_eq!(council(&world), Err(("sdk", 6)), "{generation}");
        let authority = authority_address(&world.state, &world.chain);
        // Group 1 is that of a corporation, also after an upgrade.
        world.chain.become_generation(NodeGeneration::N4).expect("descriptors");
        assert_eq!(council(&world), Err(("sdk", 22)), "{generation}");
        assert_eq!(authority_address(&world.state, &world.chain), authority, "{generation}");
        assert_ne!(authority, policy(1));
        let app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
        let genesis = GenesisState { app_state: Some(app_state), ..GenesisState::default() };
        let refused = genesis.build_state(&world.chain).expect_err("without a council").to_string();
        assert!(refused.contains("group 1"), "{refused}");
    }
}

#[test]
fn a_genesis_has_its_council_or_is_refused() {
    let refused = TestLedger::begin(NodeGeneration::N4, 0, &[]).err().expect("refused").to_string();
    assert!(refused.contains("no account has bonded stake"), "{refused}");
    let world = begin(&["member", "alice"]);
    let app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
    let genesis = GenesisState { app_state: Some(app_state), ..GenesisState::default() };
    let again = genesis.build_state(&world.chain).expect("a state");
    assert_eq!(again.hash(), world.state.hash());
}
