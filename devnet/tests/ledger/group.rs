//! x/group: the group behind a corporation.

use serde_json::{Value, json};

use super::world::{World, account, assert_has, attribute, coin, corporation, ecosystem, with};

const SUBMIT: &str = "/cosmos.group.v1.MsgSubmitProposal";
const VOTE: &str = "/cosmos.group.v1.MsgVote";
const EXEC: &str = "/cosmos.group.v1.MsgExec";
const WITHDRAW: &str = "/cosmos.group.v1.MsgWithdrawProposal";

/// Three members of weight 1, two of whom decide.
fn trio() -> World {
    let mut world = World::new();
    let members: Vec<Value> =
        ["alice", "bob", "carol"].iter().map(|name| json!({"address": account(name), "weight": "1"})).collect();
    let policy = json!({
        "@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "2",
        "windows": {"voting_period": "300s", "min_execution_period": "0s"},
    });
    let terms = json!({"members": members, "decision_policy": policy});
    let outcome = world.ok("member", "co.MsgCreateCorporation", with(&corporation("did:web:trio"), &terms));
    world.names.insert("trio".into(), attribute(&outcome, "create_corporation", "policy_address"));
    let funds = json!({"from_address": account("member"), "to_address": world.names["trio"], "amount": [coin(1_000)]});
    world.ok("member", "/cosmos.bank.v1beta1.MsgSend", funds);
    world
}

fn payment(world: &World) -> Value {
    json!({"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": world.names["trio"], "to_address": account("dave"), "amount": [coin(100)]})
}

fn proposal(world: &World, changes: Value) -> Value {
    with(
        &json!({
            "group_policy_address": world.names["trio"], "proposers": [account("alice")], "messages": [payment(world)],
            "title": "t", "summary": "s",
        }),
        &changes,
    )
}

#[test]
fn two_of_three_decide_and_the_second_vote_executes() {
    let mut world = trio();
    let good = proposal(&world, json!({}));
    world.refused("alice", SUBMIT, &with(&good, &json!({"proposers": [account("dave")]})), ("sdk", 8, ""));
    world.refused("dave", SUBMIT, &with(&good, &json!({"proposers": [account("dave")]})), ("group", 7, "not in group"));
    let foreign = json!([{"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": account("bob"), "to_address": account("bob"), "amount": [coin(1)]}]);
    world.refused("alice", SUBMIT, &with(&good, &json!({"messages": foreign})), ("group", 7, "authorization"));
    let outcome = world.ok("alice", SUBMIT, good);
    let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
    let id: u64 = id.trim_matches('"').parse().expect("a JSON-quoted number");
    let vote = |voter: &str, changes: Value| {
        with(&json!({"proposal_id": id, "voter": account(voter), "option": "VOTE_OPTION_YES"}), &changes)
    };
    world.refused("dave", VOTE, &vote("dave", json!({})), ("sdk", 38, "voter"));
    world.refused("alice", VOTE, &vote("alice", json!({"option": 0})), ("group", 2, "vote option"));
    world.refused("alice", VOTE, &vote("alice", json!({"proposal_id": 99})), ("sdk", 38, "99"));
    world.ok("alice", VOTE, vote("alice", json!({})));
    world.refused("alice", VOTE, &vote("alice", json!({})), ("group", 3, "store vote"));
    let tally = world.ask("/cosmos.group.v1.Query/TallyResult", json!({"proposal_id": id}))["tally"].clone();
    assert_has(&tally, &json!({"yes_count": "1", "no_count": "0"}));
    let votes = world.ask("/cosmos.group.v1.Query/VotesByProposal", json!({"proposal_id": id}));
    assert_eq!(votes["votes"].as_array().expect("a list").len(), 1);
    let before = world.balance(&account("dave"), "usvc");
    let outcome = world.ok("bob", VOTE, vote("bob", json!({"exec": "EXEC_TRY"})));
    assert_eq!(world.balance(&account("dave"), "usvc"), before + 100);
    assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"");
    assert!(world.try_ask("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": id})).is_err(), "pruned");
}

#[test]
fn proposals_are_rejected_expire_and_are_withdrawn() {
    let mut world = trio();
    let good = proposal(&world, json!({}));
    for id in [4, 5, 6] {
        let outcome = world.ok("alice", SUBMIT, good.clone());
        assert_eq!(attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id"), format!("\"{id}\""));
    }
    for voter in ["bob", "carol"] {
        world.ok(voter, VOTE, json!({"proposal_id": 4, "voter": account(voter), "option": "VOTE_OPTION_NO"}));
    }
    world.ok("alice", EXEC, json!({"proposal_id": 4, "executor": account("alice")}));
    let status = |world: &World, id: u64| {
        world.ask("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": id}))["proposal"]["status"].clone()
    };
    assert_eq!(status(&world, 4), "PROPOSAL_STATUS_REJECTED");
    world.refused("dave", WITHDRAW, &json!({"proposal_id": 5, "address": account("dave")}), ("group", 7, "neither"));
    world.ok("alice", WITHDRAW, json!({"proposal_id": 5, "address": account("alice")}));
    assert_eq!(status(&world, 5), "PROPOSAL_STATUS_WITHDRAWN");
    world.advance(301);
    assert_eq!(status(&world, 6), "PROPOSAL_STATUS_REJECTED");
    world.refused(
        "bob",
        VOTE,
        &json!({"proposal_id": 6, "voter": account("bob"), "option": "VOTE_OPTION_YES"}),
        ("group", 6, "not open"),
    );
}

#[test]
fn a_group_changes_itself_and_members_leave() {
    let mut world = trio();
    let policy = world.names["trio"].clone();
    let run = |world: &mut World, messages: Value| {
        let first = proposal(world, json!({"messages": messages, "exec": "EXEC_TRY"}));
        let outcome = world.ok("alice", SUBMIT, first);
        let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
        let id: u64 = id.trim_matches('"').parse().expect("a number");
        world.ok(
            "bob",
            VOTE,
            json!({"proposal_id": id, "voter": account("bob"), "option": "VOTE_OPTION_YES", "exec": "EXEC_TRY"}),
        )
    };
    let update = json!([{"@type": "/cosmos.group.v1.MsgUpdateGroupMembers", "admin": policy, "group_id": 4,
        "member_updates": [{"address": account("carol"), "weight": "0"}, {"address": account("dave"), "weight": "5"}]}]);
    run(&mut world, update);
    let info = world.ask("/cosmos.group.v1.Query/GroupInfo", json!({"group_id": 4}))["info"].clone();
    assert_has(&info, &json!({"total_weight": "7", "version": "2", "admin": policy}));
    let groups = world.ask("/cosmos.group.v1.Query/GroupsByMember", json!({"address": account("dave")}));
    assert_eq!(groups["groups"][0]["id"], "4");
    let decision = json!({"@type": "/cosmos.group.v1.PercentageDecisionPolicy", "percentage": "0.6",
        "windows": {"voting_period": "60s", "min_execution_period": "0s"}});
    run(
        &mut world,
        json!([
            {"@type": "/cosmos.group.v1.MsgUpdateGroupPolicyDecisionPolicy", "admin": policy, "group_policy_address": policy, "decision_policy": decision},
        ]),
    );
    let before = world.balance(&account("dave"), "usvc");
    let alone = proposal(
        &world,
        json!({"proposers": [account("dave")], "exec": "EXEC_TRY", "messages": [
            {"@type": "/cosmos.group.v1.MsgUpdateGroupMetadata", "admin": policy, "group_id": 4, "metadata": "m"},
            {"@type": "/cosmos.group.v1.MsgUpdateGroupPolicyMetadata", "admin": policy, "group_policy_address": policy, "metadata": "p"},
            payment(&world),
        ]}),
    );
    let outcome = world.ok("dave", SUBMIT, alone);
    assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"");
    assert_eq!(world.balance(&account("dave"), "usvc"), before + 100 - 5_000, "5 of 7 are more than 0.6");
    assert_eq!(
        world.ask("/cosmos.group.v1.Query/GroupPolicyInfo", json!({"address": policy}))["info"]["metadata"],
        "p"
    );
    world.refused(
        "alice",
        "/cosmos.group.v1.MsgUpdateGroupMetadata",
        &json!({"admin": account("alice"), "group_id": 4, "metadata": "x"}),
        ("group", 7, "admin"),
    );
    world.ok("bob", "/cosmos.group.v1.MsgLeaveGroup", json!({"address": account("bob"), "group_id": 4}));
    world.refused(
        "bob",
        "/cosmos.group.v1.MsgLeaveGroup",
        &json!({"address": account("bob"), "group_id": 4}),
        ("sdk", 38, "not part"),
    );
    assert_eq!(world.ask("/cosmos.group.v1.Query/GroupInfo", json!({"group_id": 4}))["info"]["total_weight"], "6");
}

#[test]
fn what_fails_inside_leaves_the_outer_transaction_fine() {
    let mut world = World::new();
    let policy = world.names["a"].clone();
    let revoke = json!({"corporation": policy, "operator": policy, "grantee": account("dave")});
    let failure = |world: &mut World, name: &str, value: Value| {
        let state = world.ask("de.ListOperatorAuthorizations", json!({}));
        let outcome = world.propose_raw("a", &[(name, value)]);
        assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_FAILURE\"");
        assert_eq!(world.ask("de.ListOperatorAuthorizations", json!({})), state);
        attribute(&outcome, "cosmos.group.v1.EventExec", "logs")
    };
    assert!(
        failure(&mut world, "de.MsgRevokeOperatorAuthorization", revoke).contains("operator authorization not found")
    );
    // Every other delegable message needs an authorization of the policy address itself, also inside a proposal.
    let create = with(&ecosystem("did:web:x"), &json!({"corporation": policy, "operator": policy}));
    assert!(failure(&mut world, "ec.MsgCreateEcosystem", create.clone()).contains("authorization check failed"));
    let own = json!({"corporation": policy, "operator": policy, "grantee": policy, "msg_types": ["/svc.ec.v1.MsgCreateEcosystem"]});
    world.propose("a", &[("de.MsgGrantOperatorAuthorization", own), ("ec.MsgCreateEcosystem", create)]);
}
