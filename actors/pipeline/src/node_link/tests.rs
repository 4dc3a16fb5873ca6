//! The node link's decisions, frame by frame.

use serde_json::json;
use svc_net::websocket::ConnectionEpoch;

use super::core::{FrameMeaning, NodeLinkCore, StatusCheck};
use crate::chain::block_clock::BlockHead;

fn acknowledgement(id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string()
}

fn head(height: u64) -> BlockHead {
    BlockHead::parse(height, "2026-01-01T00:00:00Z").expect("a time")
}

fn block(height: u64) -> String {
    let header = json!({"height": height.to_string(), "time": "2026-01-01T00:00:00Z", "chain_id": "c", "app_hash": ""});
    let data = json!({"type": "tendermint/event/NewBlockHeader", "value": {"header": header}});
    json!({"jsonrpc": "2.0", "id": 2, "result": {"query": "q", "data": data}}).to_string()
}

#[test]
fn a_connection_is_subscribed_after_both_acknowledgements_and_again_after_a_reconnect() {
    let mut core = NodeLinkCore::default();
    for _ in 0..2 {
        let [transactions, blocks] = core.on_connected(ConnectionEpoch::default(), "http://a", "svc1x");
        assert_eq!(transactions["params"]["query"], "tm.event='Tx' AND tx.acc_seq CONTAINS 'svc1x/'");
        assert_eq!(blocks["params"]["query"], "tm.event='NewBlockHeader'");
        assert_eq!(core.on_text(&acknowledgement(1)), FrameMeaning::Acknowledged);
        assert_eq!(core.on_text(&block(7)), FrameMeaning::Block(head(7)));
        assert_eq!(core.on_text(&acknowledgement(2)), FrameMeaning::Subscribed);
        core.on_disconnected();
    }
}

#[test]
fn a_frame_that_breaks_the_protocol_ends_the_connection() {
    let mut core = NodeLinkCore::default();
    let refusal = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "max_subscriptions_per_client", "data": ""}});
    for (text, expected) in [("not JSON", "not JSON-RPC"), (&refusal.to_string(), "refused a subscription")] {
        match core.on_text(text) {
            FrameMeaning::Broken(reason) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_block_that_no_header_announced_replaces_the_connection() {
    let mut core = NodeLinkCore::default();
    assert_eq!(core.on_status(7, &head(8)), None, "there is no connection");
    let epoch = ConnectionEpoch::default();
    core.on_connected(epoch, "http://a", "svc1x");
    assert_eq!(core.on_status(7, &head(7)), None, "the chain is quiet");
    assert_eq!(core.on_status(7, &head(8)), Some(epoch));
}

#[test]
fn a_connection_follows_the_choice_of_node_and_nodes_are_compared_every_fifth_check() {
    let mut core = NodeLinkCore::default();
    let first = core.on_status_check("http://a");
    assert_eq!(first, StatusCheck { compares_nodes: true, ..StatusCheck::default() });
    let epoch = ConnectionEpoch::default();
    core.on_connected(epoch, "http://a", "svc1x");
    assert_eq!(core.on_status_check("http://a"), StatusCheck::default());
    let elsewhere = core.on_status_check("http://b");
    assert_eq!(elsewhere, StatusCheck { reconnect: Some(epoch), ..StatusCheck::default() });
    core.on_disconnected();
    let compared: Vec<bool> = (0..7).map(|_| core.on_status_check("http://b").compares_nodes).collect();
    assert_eq!(compared, [false, false, true, false, false, false, false]);
}
