//! The node link's decisions, frame by frame.

use std::time::Duration;

use serde_json::{Value, json};
use svc_net::{
    upstream::BlockHead,
    websocket::{Reading, StreamProtocol},
};

use super::core::{NodeFrame, NodeLinkCore, NodeStream, STATUS_INTERVAL, StatusCheck};
use crate::chain::node_release::UNSURE_TIME;

fn acknowledgement(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()
}

fn head(height: u64) -> BlockHead {
    BlockHead::parse(height, "2026-01-01T00:00:00Z").expect("a time")
}

fn block(height: u64) -> String {
    let header = json!({"height": height.to_string(), "time": "2026-01-01T00:00:00Z", "chain_id": "c", "last_block_id": {"hash": "A6"}});
    let data = json!({"type": "tendermint/event/NewBlockHeader", "value": {"header": header}});
    json!({"jsonrpc": "2.0", "id": 2, "result": {"query": "q", "data": data}}).to_string()
}

#[test]
fn a_connection_is_subscribed_after_both_acknowledgements() {
    let mut stream = NodeStream::new("svc1x");
    let requests: Vec<Value> =
        stream.requests().iter().map(|request| serde_json::from_str(request).expect("JSON")).collect();
    assert_eq!(requests[0]["params"]["query"], "tm.event='Tx' AND tx.acc_seq CONTAINS 'svc1x/'");
    assert_eq!(requests[1]["params"]["query"], "tm.event='NewBlockHeader'");
    assert_eq!(requests.len(), 2);
    let acknowledged = |is_confirmed| Ok(Reading { is_confirmed, ..NodeFrame::Acknowledged.into() });
    assert_eq!(stream.read(&acknowledgement(1)), acknowledged(false));
    assert_eq!(stream.read(&block(7)), Ok(NodeFrame::Block { head: head(7), parent: "A6".to_owned() }.into()));
    assert_eq!(stream.read(&acknowledgement(2)), acknowledged(true));
}

#[test]
fn a_frame_that_breaks_the_protocol_ends_the_connection() {
    let mut stream = NodeStream::new("svc1x");
    let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "max_subscriptions_per_client", "data": ""}});
    for (text, expected) in [("not JSON", "not JSON-RPC"), (&refusal.to_string(), "refused a subscription")] {
        let reason = stream.read(text).expect_err(text);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_block_that_no_header_announced_replaces_the_connection() {
    let mut core = NodeLinkCore::default();
    assert!(!core.on_status(7, &head(8)), "there is no connection");
    core.on_connected("http://a");
    assert!(!core.on_status(7, &head(7)), "the chain is quiet");
    assert!(core.on_status(7, &head(8)));
}

#[test]
fn a_connection_follows_the_choice_of_node_and_nodes_are_compared_every_fifth_check() {
    let mut core = NodeLinkCore::default();
    let first = core.on_status_check("http://a");
    assert_eq!(first, StatusCheck { compares_nodes: true, ..StatusCheck::default() });
    core.on_connected("http://a");
    assert_eq!(core.on_status_check("http://a"), StatusCheck::default());
    let elsewhere = core.on_status_check("http://b");
    assert_eq!(elsewhere, StatusCheck { reconnects: true, ..StatusCheck::default() });
    core.on_disconnected();
    let compared: Vec<bool> = (0..7).map(|_| core.on_status_check("http://b").compares_nodes).collect();
    assert_eq!(compared, [false, false, true, false, false, false, false]);
}

#[test]
fn an_upgrade_at_any_moment_is_looked_for_within_a_minute() {
    const MINUTE: Duration = Duration::from_secs(60);
    // The node is asked for its version with each comparison.
    let mut core = NodeLinkCore::default();
    let looks: Vec<u32> = (1..=300).filter(|_| core.on_status_check("http://a").compares_nodes).collect();
    let longest = looks.windows(2).map(|pair| STATUS_INTERVAL * (pair[1] - pair[0])).max().expect("two looks");
    assert!(looks[0] == 1 && longest <= MINUTE, "{looks:?}");
    // A node that states no version has its messages compared again at the first look after this time.
    assert!(UNSURE_TIME + longest <= MINUTE, "{UNSURE_TIME:?} and {longest:?}");
}

#[test]
fn one_comparison_runs_at_a_time_and_a_block_meanwhile_asks_for_another() {
    let mut core = NodeLinkCore::default();
    assert!(core.begin_comparison());
    assert!(!core.end_comparison());
    assert!(core.begin_comparison() && !core.begin_comparison() && !core.begin_comparison());
    assert!(core.end_comparison() && core.begin_comparison() && !core.end_comparison());
}

#[test]
fn the_block_of_an_own_transaction_is_pinned_once_it_is_known() {
    let mut core = NodeLinkCore::default();
    assert!(!core.pins_inclusion(9));
    core.on_inclusion(10);
    core.on_inclusion(8);
    assert!(!core.pins_inclusion(9) && core.pins_inclusion(10) && !core.pins_inclusion(11));
}
