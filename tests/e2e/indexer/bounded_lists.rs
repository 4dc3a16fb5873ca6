//! Lists of the node that have a bound and no cursor: an index reads them whole, or does not begin.

use serde_json::Value;
use svc_devnet::Devnet;
use svc_indexer::{IndexerConfig, verify_index};
use tempfile::TempDir;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, genesis::chain_with_genesis, read_ok, start_chain_and_indexer,
};
use crate::e2e::harness::poll_until;

/// Ids that the walk over the ids of authorizations does not reach.
const GAP: u64 = 5_000;

/// A store in a file, for a chain.
pub fn config_of(other: &Devnet, directory: &TempDir, name: &str) -> IndexerConfig {
    let database = format!("sqlite://{}?mode=rwc", directory.path().join(name).display());
    IndexerConfig::new(other.node.origin(), database)
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}

/// Gives the last entry of a list an id behind a gap, as if the ones between were revoked. Returns the id.
fn move_last(state: &mut Value, list: &str, sequence: &str) -> u64 {
    let last = state[list].as_array_mut().and_then(|list| list.last_mut()).expect("an entry");
    let id = number(&last["id"]) + GAP;
    last["id"] = id.to_string().into();
    state[sequence] = (id + 1).to_string().into();
    id
}

fn ids(answer: &Value) -> Vec<u64> {
    answer["authorizations"].as_array().expect("a list").iter().map(|one| number(&one["id"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn authorizations_behind_a_gap_of_ids_are_in_every_index() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let mut document = grounds.devnet.node.export_genesis().expect("exported");
    let delegation = &mut document["app_state"]["de"];
    let operator = move_last(delegation, "operator_authorizations", "operator_authorization_seq");
    let vs_operator = move_last(delegation, "vs_operator_authorizations", "vsoa_seq");
    let other = chain_with_genesis(document).await;
    other.node.produce_block().expect("a block");
    let newest = *other.node.watch_heights().borrow();
    let directory = tempfile::tempdir().expect("a directory");
    for start in [1, newest] {
        let config = config_of(&other, &directory, &format!("{start}.db"));
        let config = IndexerConfig { start_height: Some(start), ..config };
        let replica = IndexerReplica::launch(config.clone()).await;
        await_indexed(&replica.origin, newest).await;
        for (path, moved) in [("operator-authorizations", operator), ("vs-operator-authorizations", vs_operator)] {
            let answer = read_ok(&replica.origin, &format!("/v4/delegation/{path}?limit=1024")).await;
            assert!(ids(&answer).contains(&moved), "start {start}: {answer}");
        }
        let found = verify_index(&config, None).await.expect("compared");
        assert_eq!(found.difference_count, 0, "{:#?}", found.differences);
    }
}

/// A chain whose genesis has copies of its session, changed at these seconds.
pub async fn chain_with_sessions(document: &Value, seconds: impl Iterator<Item = u32>) -> Devnet {
    let mut document = document.clone();
    let sessions = document["app_state"]["pp"]["participant_sessions"].as_array_mut().expect("sessions");
    let one = sessions.first().expect("a session").clone();
    for (index, second) in seconds.enumerate() {
        let mut copy = one.clone();
        copy["id"] = format!("00000000-0000-4000-8000-{index:012}").into();
        copy["modified"] = format!("2025-01-01T00:00:{second:02}Z").into();
        sessions.push(copy);
    }
    chain_with_genesis(document).await
}

#[tokio::test(flavor = "multi_thread")]
async fn more_sessions_than_a_list_has_are_all_read_or_the_index_does_not_begin() {
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let document = grounds.devnet.node.export_genesis().expect("exported");
    let directory = tempfile::tempdir().expect("a directory");
    // Two instants share more than a page.
    let other = chain_with_sessions(&document, (0..1_100).map(|index| 10 + index % 2)).await;
    let config = config_of(&other, &directory, "two.db");
    let replica = IndexerReplica::launch(config.clone()).await;
    await_indexed(&replica.origin, *other.node.watch_heights().borrow()).await;
    for index in [0, 1, 1_023, 1_024, 1_099] {
        read_ok(&replica.origin, &format!("/v4/participant/participant-session/00000000-0000-4000-8000-{index:012}"))
            .await;
    }
    let found = verify_index(&config, None).await.expect("compared");
    assert!(found.difference_count == 0 && found.entities > 1_100, "{} {:#?}", found.entities, found.differences);

    // One instant has more than a page, and no block of it is there.
    let other = chain_with_sessions(&document, (0..1_100).map(|_| 10)).await;
    let replica = IndexerReplica::launch(config_of(&other, &directory, "one.db")).await;
    poll_until("the status names the list", async || {
        let status = read_ok(&replica.origin, "/v4/indexer/status").await;
        let message = status["last_error"]["message"].as_str().unwrap_or_default();
        message.contains("the list of participant sessions may be cut")
    })
    .await;
    assert_eq!(read_ok(&replica.origin, "/v4/indexer/block-height").await["height"], 0);
}
