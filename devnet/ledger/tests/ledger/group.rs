//! x/group: the group of a corporation.

use serde_json::{Value, json};

use super::{
    outcomes::{assert_has, attribute},
    test_ledger::{TestLedger, account, coin, corporation, ecosystem, merge_members},
};

const SUBMIT: &str = "/cosmos.group.v1.MsgSubmitProposal";
const VOTE: &str = "/cosmos.group.v1.MsgVote";
const EXEC: &str = "/cosmos.group.v1.MsgExec";
const WITHDRAW: &str = "/cosmos.group.v1.MsgWithdrawProposal";

/// Creates a corporation with three members of weight 1 and a threshold of 2.
fn trio() -> TestLedger {
    let mut world = TestLedger::new();
    let members: Vec<Value> =
        ["alice", "bob", "carol"].iter().map(|name| json!({"address": account(name), "weight": "1"})).collect();
    let policy = json!({
        "@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "2",
        "windows": {"voting_period": "300s", "min_execution_period": "0s"},
    });
    let terms = json!({"members": members, "decision_policy": policy});
    let outcome =
        world.send_ok("member", "co.MsgCreateCorporation", merge_members(&corporation("did:web:trio"), &terms));
    world.saved_names.insert("trio".into(), attribute(&outcome, "create_corporation", "policy_address"));
    let funds =
        json!({"from_address": account("member"), "to_address": world.saved_names["trio"], "amount": [coin(1_000)]});
    world.send_ok("member", "/cosmos.bank.v1beta1.MsgSend", funds);
    world
}

fn payment(world: &TestLedger) -> Value {
    json!({"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": world.saved_names["trio"], "to_address": account("dave"), "amount": [coin(100)]})
}

fn proposal(world: &TestLedger, changes: Value) -> Value {
    merge_members(
        &json!({
            "group_policy_address": world.saved_names["trio"], "proposers": [account("alice")], "messages": [payment(world)],
            "title": "t", "summary": "s",
        }),
        &changes,
    )
}

#[test]
fn two_of_three_decide_and_the_second_vote_executes() {
    let mut world = trio();
    let good = proposal(&world, json!({}));
    world.assert_refused(
        "alice",
        SUBMIT,
        &merge_members(&good, &json!({"proposers": [account("dave")]})),
        ("sdk", 8, ""),
    );
    world.assert_refused(
        "dave",
        SUBMIT,
        &merge_members(&good, &json!({"proposers": [account("dave")]})),
        ("group", 7, "not in group"),
    );
    let foreign = json!([{"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": account("bob"), "to_address": account("bob"), "amount": [coin(1)]}]);
    world.assert_refused(
        "alice",
        SUBMIT,
        &merge_members(&good, &json!({"messages": foreign})),
        ("group", 7, "authorization"),
    );
    let outcome = world.send_ok("alice", SUBMIT, good);
    let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
    let id: u64 = id.trim_matches('"').parse().expect("a JSON-quoted number");
    let vote = |voter: &str, changes: Value| {
        merge_members(&json!({"proposal_id": id, "voter": account(voter), "option": "VOTE_OPTION_YES"}), &changes)
    };
    world.assert_refused("dave", VOTE, &vote("dave", json!({})), ("sdk", 38, "voter"));
    world.assert_refused("alice", VOTE, &vote("alice", json!({"option": 0})), ("group", 2, "vote option"));
    world.assert_refused("alice", VOTE, &vote("alice", json!({"proposal_id": 99})), ("sdk", 38, "99"));
    world.send_ok("alice", VOTE, vote("alice", json!({})));
    world.assert_refused("alice", VOTE, &vote("alice", json!({})), ("group", 3, "store vote"));
    let tally = world.query("/cosmos.group.v1.Query/TallyResult", json!({"proposal_id": id}))["tally"].clone();
    assert_has(&tally, &json!({"yes_count": "1", "no_count": "0"}));
    let votes = world.query("/cosmos.group.v1.Query/VotesByProposal", json!({"proposal_id": id}));
    assert_eq!(votes["votes"].as_array().expect("a list").len(), 1);
    let before = world.balance(&account("dave"), "usvc");
    let outcome = world.send_ok("bob", VOTE, vote("bob", json!({"exec": "EXEC_TRY"})));
    assert_eq!(world.balance(&account("dave"), "usvc"), before + 100);
    assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"");
    assert!(world.try_query("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": id})).is_err(), "pruned");
}

#[test]
fn proposals_are_rejected_expire_and_are_withdrawn() {
    let mut world = trio();
    let good = proposal(&world, json!({}));
    for id in [4, 5, 6] {
        let outcome = world.send_ok("alice", SUBMIT, good.clone());
        assert_eq!(attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id"), format!("\"{id}\""));
    }
    for voter in ["bob", "carol"] {
        world.send_ok(voter, VOTE, json!({"proposal_id": 4, "voter": account(voter), "option": "VOTE_OPTION_NO"}));
    }
    world.send_ok("alice", EXEC, json!({"proposal_id": 4, "executor": account("alice")}));
    let status = |world: &TestLedger, id: u64| {
        world.query("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": id}))["proposal"]["status"].clone()
    };
    assert_eq!(status(&world, 4), "PROPOSAL_STATUS_REJECTED");
    world.assert_refused(
        "dave",
        WITHDRAW,
        &json!({"proposal_id": 5, "address": account("dave")}),
        ("group", 7, "neither"),
    );
    world.send_ok("alice", WITHDRAW, json!({"proposal_id": 5, "address": account("alice")}));
    assert_eq!(status(&world, 5), "PROPOSAL_STATUS_WITHDRAWN");
    world.advance(301);
    assert_eq!(status(&world, 6), "PROPOSAL_STATUS_REJECTED");
    world.assert_refused(
        "bob",
        VOTE,
        &json!({"proposal_id": 6, "voter": account("bob"), "option": "VOTE_OPTION_YES"}),
        ("group", 6, "not open"),
    );
}

#[test]
fn a_group_changes_itself_and_members_leave() {
    let mut world = trio();
    let policy = world.saved_names["trio"].clone();
    let run = |world: &mut TestLedger, messages: Value| {
        let first = proposal(world, json!({"messages": messages, "exec": "EXEC_TRY"}));
        let outcome = world.send_ok("alice", SUBMIT, first);
        let id = attribute(&outcome, "cosmos.group.v1.EventSubmitProposal", "proposal_id");
        let id: u64 = id.trim_matches('"').parse().expect("a number");
        world.send_ok(
            "bob",
            VOTE,
            json!({"proposal_id": id, "voter": account("bob"), "option": "VOTE_OPTION_YES", "exec": "EXEC_TRY"}),
        )
    };
    let update = json!([{"@type": "/cosmos.group.v1.MsgUpdateGroupMembers", "admin": policy, "group_id": 4,
        "member_updates": [{"address": account("carol"), "weight": "0"}, {"address": account("dave"), "weight": "5"}]}]);
    run(&mut world, update);
    let info = world.query("/cosmos.group.v1.Query/GroupInfo", json!({"group_id": 4}))["info"].clone();
    assert_has(&info, &json!({"total_weight": "7", "version": "2", "admin": policy}));
    let groups = world.query("/cosmos.group.v1.Query/GroupsByMember", json!({"address": account("dave")}));
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
    let outcome = world.send_ok("dave", SUBMIT, alone);
    assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_SUCCESS\"");
    assert_eq!(world.balance(&account("dave"), "usvc"), before + 100 - 5_000, "5 of 7 are more than 0.6");
    assert_eq!(
        world.query("/cosmos.group.v1.Query/GroupPolicyInfo", json!({"address": policy}))["info"]["metadata"],
        "p"
    );
    world.assert_refused(
        "alice",
        "/cosmos.group.v1.MsgUpdateGroupMetadata",
        &json!({"admin": account("alice"), "group_id": 4, "metadata": "x"}),
        ("group", 7, "admin"),
    );
    world.send_ok("bob", "/cosmos.group.v1.MsgLeaveGroup", json!({"address": account("bob"), "group_id": 4}));
    world.assert_refused(
        "bob",
        "/cosmos.group.v1.MsgLeaveGroup",
        &json!({"address": account("bob"), "group_id": 4}),
        ("sdk", 38, "not part"),
    );
    assert_eq!(world.query("/cosmos.group.v1.Query/GroupInfo", json!({"group_id": 4}))["info"]["total_weight"], "6");
}

#[test]
fn a_failing_inner_message_does_not_fail_the_outer_transaction() {
    let mut world = TestLedger::new();
    let policy = world.saved_names["a"].clone();
    let revoke = json!({"corporation": policy, "operator": policy, "grantee": account("dave")});
    let failure = |world: &mut TestLedger, name: &str, value: Value| {
        let state = world.query("de.ListOperatorAuthorizations", json!({}));
        let outcome = world.submit_proposal("a", &[(name, value)]);
        assert_eq!(attribute(&outcome, "cosmos.group.v1.EventExec", "result"), "\"PROPOSAL_EXECUTOR_RESULT_FAILURE\"");
        assert_eq!(world.query("de.ListOperatorAuthorizations", json!({})), state);
        attribute(&outcome, "cosmos.group.v1.EventExec", "logs")
    };
    assert!(
        failure(&mut world, "de.MsgRevokeOperatorAuthorization", revoke).contains("operator authorization not found")
    );
    // Every other delegable message requires an authorization of the policy address, also inside a proposal.
    let create = merge_members(&ecosystem("did:web:x"), &json!({"corporation": policy, "operator": policy}));
    assert!(failure(&mut world, "ec.MsgCreateEcosystem", create.clone()).contains("authorization check failed"));
    let own = json!({"corporation": policy, "operator": policy, "grantee": policy, "msg_types": ["/svc.ec.v1.MsgCreateEcosystem"]});
    world.pass_proposal("a", &[("de.MsgGrantOperatorAuthorization", own), ("ec.MsgCreateEcosystem", create)]);
}
