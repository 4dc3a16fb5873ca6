//! A network with a council of validators: its group anchors no corporation, and nothing of it is data of the index.

use std::time::Duration;

use serde_json::{Value, json};
use svc::network::ChainAndIndexer;
use svc_indexer::{IndexerConfig, verify_index};
use svc_wire::{
    address::{Address, group_policy_address},
    proto_registry::NodeGeneration,
};

use super::{IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, config, produce_blocks, read_at, read_ok};

const SUBMIT: &str = "/cosmos.group.v1.MsgSubmitProposal";
const VOTE: &str = "/cosmos.group.v1.MsgVote";
const EXEC: &str = "/cosmos.group.v1.MsgExec";
/// Longer than the wait before the execution, and shorter than the voting.
const WAIT: Duration = Duration::from_secs(12);

async fn start_with_council(scenario: &str) -> ChainAndIndexer {
    let mut config = config(scenario, None);
    config.devnet.generation = NodeGeneration::N4;
    ChainAndIndexer::launch(&config).await.expect("chain and indexer start")
}

/// Submits a proposal of a group, and votes for it; returns its id.
async fn propose(grounds: &ChainAndIndexer, policy: &str, messages: Value) -> u64 {
    let proposal = json!({
        "group_policy_address": policy, "proposers": ["$member"], "messages": messages, "exec": "EXEC_UNSPECIFIED",
        "metadata": "", "title": "a title", "summary": "a summary",
    });
    let submitted = grounds.devnet.send_messages("member", &[(SUBMIT, proposal)]).await.expect("submitted");
    let id = submitted[0]["proposal_id"].as_str().expect("an id").to_owned();
    let vote = json!({"proposal_id": id, "voter": "$member", "option": "VOTE_OPTION_YES", "metadata": ""});
    grounds.devnet.send_messages("member", &[(VOTE, vote)]).await.expect("voted");
    id.parse().expect("a number")
}

fn ids(body: &Value, list: &str, member: &str) -> Vec<u64> {
    body[list].as_array().expect("a list").iter().map(|row| row[member].as_u64().expect("an id")).collect()
}

/// Asserts that an index has the proposal of the corporation, and nothing of the council.
async fn assert_hides_council(grounds: &ChainAndIndexer, origin: &str, of_council: u64, of_corporation: u64) {
    let member = grounds.devnet.address("member");
    let read = async |path: String| read_ok(origin, &path).await;
    let votes = read(format!("/v4/group/votes?voter={member}")).await;
    let found = ids(&votes, "votes", "proposal_id");
    assert!(found.contains(&of_corporation) && !found.contains(&of_council), "{votes}");
    let votes = read(format!("/v4/group/votes?proposal_id={of_council}")).await;
    assert_eq!(votes["votes"], json!([]));
    for filter in ["", "?status=SUBMITTED", &format!("?proposer={member}")] {
        let proposals = read(format!("/v4/group/proposals{filter}")).await;
        let found = ids(&proposals, "proposals", "id");
        assert!(found.contains(&of_corporation) && !found.contains(&of_council), "{filter}: {proposals}");
    }
    assert_eq!(read_at(origin, &format!("/v4/group/proposal/{of_council}"), None).await.status, 404);
    let memberships = read(format!("/v4/group/corporations-by-member?account={member}")).await;
    assert_eq!(ids(&memberships, "memberships", "corporation_id"), [1], "{memberships}");
    let group = read("/v4/group/get/1".to_owned()).await;
    assert_eq!(group["group"]["group_id"], 2, "the group of corporation 1: {group}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_council_and_its_proposals_are_in_no_read_and_its_changes_are_seen() {
    let grounds = start_with_council("corporation").await;
    let origin = grounds.indexer_origin();
    let council = Address::from_bytes("svc", &group_policy_address(1)).expect("an address").to_string();
    assert_eq!(grounds.devnet.address("gov"), council);
    let before = read_ok(&origin, "/v4/exchange-rate/list").await;
    // Parameters change without an event, and a rate with one.
    let params = read_ok(&origin, "/v4/credential-schema/params").await["params"].clone();
    let size = params["credential_schema_schema_max_size"].as_u64().expect("a size") + 1;
    let mut changed = params;
    changed["credential_schema_schema_max_size"] = size.into();
    let messages = json!([
        {"@type": "/svc.cs.v1.MsgUpdateParams", "authority": council, "params": changed},
        {"@type": "/svc.xr.v1.MsgSetExchangeRateState", "authority": council, "id": "1", "state": false},
    ]);
    let of_council = propose(&grounds, &council, messages).await;
    let id = of_council.to_string();
    let of_corporation = propose(&grounds, "$corporation", json!([])).await;
    let height = produce_blocks(&grounds, 1).await;
    assert_hides_council(&grounds, &origin, of_council, of_corporation).await;

    // Subscribers without a filter hear of its transactions.
    let events = read_ok(&origin, "/v4/indexer/events?limit=500").await;
    let of_group: Vec<&Value> = events["events"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|event| event["payload"]["entity_id"] == id)
        .filter(|event| event["payload"]["entity_type"] == "GroupProposal")
        .collect();
    assert_eq!(of_group.len(), 2, "submitted and voted: {events}");
    for event in of_group {
        assert!(event["did"].is_null() && event["payload"].get("corporation_id").is_none_or(Value::is_null), "{event}");
    }
    // An index that begins while the proposals are open.
    let config = IndexerConfig {
        start_height: Some(height),
        ..IndexerConfig::new(grounds.devnet.node.origin(), "sqlite::memory:")
    };
    let late = IndexerReplica::launch(config).await;
    await_indexed(&late.origin, height).await;
    assert_hides_council(&grounds, &late.origin, of_council, of_corporation).await;

    grounds.devnet.node.advance_clock(WAIT);
    let execute = json!({"proposal_id": id, "executor": "$member"});
    grounds.devnet.send_messages("member", &[(EXEC, execute)]).await.expect("executed");
    let height = produce_blocks(&grounds, 1).await;
    let params = read_ok(&origin, "/v4/credential-schema/params").await;
    assert_eq!(params["params"]["credential_schema_schema_max_size"], size, "{params}");
    let after = read_ok(&origin, "/v4/exchange-rate/list").await;
    assert_ne!(before["exchange_rates"], after["exchange_rates"], "{after}");
    assert_hides_council(&grounds, &origin, of_council, of_corporation).await;
    for block in 1..=height {
        let changes = read_at(&origin, "/v4/indexer/changes", Some(block)).await.body;
        let rows = changes["activity"].as_array().expect("a list");
        let is_of_council = |row: &Value| row["entity_type"] == "GroupProposal" && row["entity_id"] == id;
        assert!(!rows.iter().any(is_of_council), "{changes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marketplace_runs_under_a_council_and_its_index_agrees_with_the_node() {
    let grounds = start_with_council(MARKETPLACE_SCENARIO).await;
    let height = produce_blocks(&grounds, 1).await;
    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let config = IndexerConfig::new(grounds.devnet.node.origin(), database);
    let replica = IndexerReplica::launch(config.clone()).await;
    await_indexed(&replica.origin, height).await;
    let found = verify_index(&config, Some(height)).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
    let corporations = read_ok(&replica.origin, "/v4/corporation/list?sort=id").await;
    for corporation in ids(&corporations, "corporations", "id") {
        let group = read_ok(&replica.origin, &format!("/v4/group/get/{corporation}")).await;
        assert_eq!(group["group"]["group_id"], corporation + 1, "{group}");
    }
    let proposals = read_ok(&replica.origin, "/v4/group/proposals?limit=1024").await;
    let council = grounds.devnet.address("gov");
    for proposal in proposals["proposals"].as_array().expect("a list") {
        assert!(proposal["corporation_id"] != 0 && proposal["group_policy_address"] != council, "{proposal}");
    }
}
