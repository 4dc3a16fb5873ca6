//! Decisions of the node link: the meaning of a frame, and the moment when no inclusion can pass unseen. Pure.

use serde_json::{Value, json};
use svc_net::websocket::ConnectionEpoch;
use svc_wire::comet_rpc::{self, CometEvent, ExecTxResult, RpcResponse};

use crate::chain::block_clock::BlockHead;

/// Ids of the two subscribe requests.
const TX_SUBSCRIPTION_ID: u64 = 1;
const BLOCK_SUBSCRIPTION_ID: u64 = 2;
/// Acknowledgements that a connection needs before no inclusion can pass unseen.
const SUBSCRIPTIONS: u8 = 2;
/// Status checks between two comparisons with the other nodes.
const COMPARISON_PERIOD: u64 = 5;
/// Status checks between two pinned blocks.
const PIN_PERIOD: u64 = 60;

/// The meaning of a frame of the node.
#[derive(Debug, PartialEq)]
pub enum FrameMeaning {
    /// A block contains a transaction of the account.
    Included { height: u64, hash: String, result: Box<ExecTxResult> },
    /// The node has a new block.
    Block(BlockHead),
    /// Both subscriptions are acknowledged.
    Subscribed,
    /// One subscription is acknowledged.
    Acknowledged,
    /// The frame breaks the protocol, or refuses a subscription.
    Broken(String),
}

/// Effects of a status check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatusCheck {
    /// The connection leads to a node that is no longer used.
    pub reconnect: Option<ConnectionEpoch>,
    /// The node is compared with the others.
    pub compares_nodes: bool,
    /// The newest block is pinned in the journal.
    pub pins_block: bool,
}

/// State of the node link.
#[derive(Debug, Default)]
pub struct NodeLinkCore {
    acknowledged_subscriptions: u8,
    /// The open connection and the origin it leads to.
    connection: Option<(ConnectionEpoch, String)>,
    status_checks: u64,
}

impl NodeLinkCore {
    /// A connection is open; yields the subscribe requests.
    pub fn on_connected(&mut self, epoch: ConnectionEpoch, origin: &str, address: &str) -> [Value; 2] {
        self.acknowledged_subscriptions = 0;
        self.connection = Some((epoch, origin.to_owned()));
        // The slash ends the address, so that no longer address matches.
        let transactions = format!("tm.event='Tx' AND tx.acc_seq CONTAINS '{address}/'");
        let subscribe = |id, query: &str| comet_rpc::build_request(id, "subscribe", json!({ "query": query }));
        [subscribe(TX_SUBSCRIPTION_ID, &transactions), subscribe(BLOCK_SUBSCRIPTION_ID, "tm.event='NewBlockHeader'")]
    }

    /// The connection has ended.
    pub fn on_disconnected(&mut self) {
        (self.acknowledged_subscriptions, self.connection) = (0, None);
    }

    /// A text has arrived.
    pub fn on_text(&mut self, text: &str) -> FrameMeaning {
        let Ok(response) = serde_json::from_str::<RpcResponse>(text) else {
            return FrameMeaning::Broken("the node sent a frame that is not JSON-RPC".to_owned());
        };
        if let Some(error) = response.error {
            return FrameMeaning::Broken(format!("the node refused a subscription: {error}"));
        }
        match response.result.as_ref().and_then(CometEvent::parse) {
            Some(CometEvent::Tx { height, hash, result }) => {
                FrameMeaning::Included { height, hash, result: Box::new(result) }
            }
            Some(CometEvent::NewBlock { header }) => match BlockHead::parse(header.height, &header.time) {
                Some(head) => FrameMeaning::Block(head),
                None => FrameMeaning::Broken(format!("the header has the time {:?}", header.time)),
            },
            None => {
                self.acknowledged_subscriptions = self.acknowledged_subscriptions.saturating_add(1);
                if self.acknowledged_subscriptions == SUBSCRIPTIONS {
                    FrameMeaning::Subscribed
                } else {
                    FrameMeaning::Acknowledged
                }
            }
        }
    }

    /// The status of the node shows a block while the connection is subscribed. A block that no header announced shows that the node
    /// has stopped sending headers, although it answers pings; yields the connection to replace. Without such a block the chain is
    /// quiet.
    pub fn on_status(&self, known_height: u64, head: &BlockHead) -> Option<ConnectionEpoch> {
        let (epoch, _) = self.connection.as_ref().filter(|_| head.height > known_height)?;
        Some(*epoch)
    }

    /// The status timer has fired while the node at `origin` is in use.
    pub fn on_status_check(&mut self, origin: &str) -> StatusCheck {
        self.status_checks += 1;
        let connection = self.connection.as_ref().filter(|(_, connected)| connected != origin);
        StatusCheck {
            reconnect: connection.map(|(epoch, _)| *epoch),
            // A node that stalls or falls behind keeps its WebSocket.
            compares_nodes: self.status_checks % COMPARISON_PERIOD == 1,
            pins_block: self.status_checks.is_multiple_of(PIN_PERIOD),
        }
    }
}
