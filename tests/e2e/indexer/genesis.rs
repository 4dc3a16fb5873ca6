//! A chain that begins with the state of another one: no event announces the state of a genesis.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use svc_devnet::{Devnet, DevnetConfig, GenesisFile};
use svc_indexer::{IndexerConfig, verify_index};
use svc_wire::indexer_reads::HttpMethod;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, read_ok,
    read_shapes::{sample_query, send_sample},
    start_chain_and_indexer,
};

/// Reads that are about earlier blocks, about the index itself, or about verdicts: a chain that begins with a state has no
/// messages, no sums and no verdicts of the chain that it came from.
fn is_about_history(operation: &str) -> bool {
    let (module, name) = operation.split_once('.').expect("a module");
    ["indexer", "vt", "trqp"].contains(&module)
        || ["getProposal", "listVotes", "listProposals"].contains(&name)
        || (module == "stats" && name != "countParticipants")
        || ["History", "Snapshot"].iter().any(|end| name.ends_with(end))
}

/// Sums of earlier messages, which the chain that begins with a state starts at zero; verdicts and heights.
const SUMS: [&str; 11] = [
    "trust_data",
    "issued",
    "verified",
    "ecosystem_slash_events",
    "ecosystem_slashed_amount",
    "ecosystem_slashed_amount_repaid",
    "network_slash_events",
    "network_slashed_amount",
    "network_slashed_amount_repaid",
    "block_height",
    "next_cursor",
];

fn without_sums(mut body: Value) -> Value {
    match &mut body {
        Value::Object(members) => {
            members.retain(|name, _| !SUMS.contains(&name.as_str()));
            members.values_mut().for_each(|member| *member = without_sums(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_sums(item.take())),
        _ => {}
    }
    body
}

/// The store numbers fee grants as it finds them, and lists have the order of ids.
fn without_order(body: &Value) -> Value {
    let Some(grants) = body.get("fee_grants").and_then(Value::as_array) else { return body.clone() };
    let by_pair: BTreeMap<String, Value> = grants
        .iter()
        .map(|grant| {
            let mut grant = grant.clone();
            grant.as_object_mut().and_then(|members| members.remove("id"));
            (format!("{} {}", grant["grantor_corporation_id"], grant["grantee"]), grant)
        })
        .collect();
    by_pair.into_values().collect()
}

/// A chain of its own that begins with a document, with a block.
pub async fn chain_with_genesis(document: Value) -> Devnet {
    let genesis = GenesisFile::from_document(document).expect("a genesis");
    let config = DevnetConfig {
        block_time: None,
        scenario: "empty".to_owned(),
        genesis: Some(genesis),
        ..DevnetConfig::default()
    };
    let other = Devnet::launch(config).await.expect("starts");
    if *other.node.watch_heights().borrow() == 0 {
        other.node.produce_block().expect("a block");
    }
    other
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_the_genesis_is_in_the_index_from_its_first_block_on() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    // Executed proposals are gone from the state; an open one with a vote is in it.
    let proposal = json!({
        "group_policy_address": "$registry", "proposers": ["$member"], "metadata": "open", "messages": [], "exec": "EXEC_UNSPECIFIED",
        "title": "open", "summary": "open",
    });
    let submitted = grounds.devnet.send_messages("member", &[("/cosmos.group.v1.MsgSubmitProposal", proposal)]).await;
    let submitted = submitted.expect("submitted");
    let vote = json!({"proposal_id": submitted[0]["proposal_id"], "voter": "$member", "option": "VOTE_OPTION_NO", "metadata": "m"});
    grounds.devnet.send_messages("member", &[("/cosmos.group.v1.MsgVote", vote)]).await.expect("voted");
    // The other chain begins one block later; header times have steps of a second.
    let document = grounds.devnet.node.export_genesis().expect("exported");
    grounds.devnet.node.produce_block().expect("a block");
    let newest = *grounds.devnet.node.watch_heights().borrow();
    let other = chain_with_genesis(document.clone()).await;
    let again = other.node.export_genesis().expect("exported");
    let parts = |document: &Value| document["app_state"].as_object().expect("parts").len();
    assert!(parts(&again) == parts(&document) && again["chain_id"] == document["chain_id"]);

    let directory = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite://{}?mode=rwc", directory.path().join("index.db").display());
    let config = IndexerConfig::new(other.node.origin(), database);
    let replica = IndexerReplica::launch(config.clone()).await;
    let height = *other.node.watch_heights().borrow();
    await_indexed(&replica.origin, height).await;
    await_indexed(&grounds.indexer_origin(), newest).await;
    let mut compared = 0;
    for endpoint in svc_indexer::read_endpoints().expect("the table of reads") {
        let operation = endpoint.operation.as_str();
        if is_about_history(operation) || endpoint.method != HttpMethod::Get {
            continue;
        }
        let own = send_sample(&grounds.indexer_origin(), endpoint, &grounds, None).await;
        let taken = send_sample(&replica.origin, endpoint, &grounds, None).await;
        let shown = |body: Value| without_order(&without_sums(body));
        let query = sample_query(operation, &grounds);
        assert_eq!((taken.status, shown(taken.body)), (own.status, shown(own.body)), "{operation} {query}");
        compared += 1;
    }
    assert!(compared > 30, "{compared} reads");
    let id = submitted[0]["proposal_id"].as_str().expect("an id");
    for path in [format!("/v4/group/proposal/{id}"), format!("/v4/group/votes?proposal_id={id}")] {
        let [own, taken] = [read_ok(&grounds.indexer_origin(), &path).await, read_ok(&replica.origin, &path).await];
        // The store numbers votes as it finds them.
        let shown = |body: Value| {
            let mut body = without_sums(body);
            for vote in body.get_mut("votes").and_then(Value::as_array_mut).into_iter().flatten() {
                vote["id"] = Value::Null;
            }
            body
        };
        assert_eq!(shown(own), shown(taken), "{path}");
    }
    let found = verify_index(&config, Some(1)).await.expect("compared");
    assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
    assert!(found.entities > 60, "{} entities", found.entities);
}
