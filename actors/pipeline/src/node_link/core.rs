//! Decisions of the node link: the meaning of a frame, and the moment when no inclusion can pass unseen. Pure.

use std::time::Duration;

use serde_json::json;
use svc_net::{
    upstream::BlockHead,
    websocket::{Reading, StreamProtocol},
};
use svc_wire::comet_rpc::{self, CometEvent, ExecTxResult, RpcResponse};

/// Ids of the two subscribe requests.
const TX_SUBSCRIPTION_ID: u64 = 1;
const BLOCK_SUBSCRIPTION_ID: u64 = 2;
/// Acknowledgements that a connection needs before no inclusion can pass unseen.
const SUBSCRIPTIONS: u8 = 2;
/// Time between two status checks. While the WebSocket is down they are the only source of heights.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// Status checks between two comparisons with the other nodes. Each also asks the node for its version: an upgrade has to be noticed within a
/// minute.
const COMPARISON_PERIOD: u64 = 5;
/// Status checks between two pinned blocks.
const PIN_PERIOD: u64 = 60;
/// Status checks between two questions for the price of gas: an hour.
const PRICE_PERIOD: u64 = 3_600;

/// A frame of the node.
#[derive(Debug, PartialEq)]
pub enum NodeFrame {
    /// A block contains a transaction of the account.
    Included { height: u64, hash: String, result: Box<ExecTxResult> },
    /// The node has a new block.
    Block {
        /// The block.
        head: BlockHead,
        /// Hash of the block before.
        parent: String,
    },
    /// A subscription is acknowledged.
    Acknowledged,
}

/// The subscriptions of a connection: the account's transactions, and the headers of new blocks.
#[derive(Debug, Clone)]
pub struct NodeStream {
    address: String,
    acknowledged: u8,
}

impl NodeStream {
    /// The stream of an account.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), acknowledged: 0 }
    }
}

impl StreamProtocol for NodeStream {
    type Frame = NodeFrame;

    fn requests(&self) -> Vec<String> {
        // The slash ends the address, so that no longer address matches.
        let transactions = format!("tm.event='Tx' AND tx.acc_seq CONTAINS '{}/'", self.address);
        let subscribe =
            |id, query: &str| comet_rpc::build_request(id, "subscribe", json!({ "query": query })).to_string();
        vec![
            subscribe(TX_SUBSCRIPTION_ID, &transactions),
            subscribe(BLOCK_SUBSCRIPTION_ID, "tm.event='NewBlockHeader'"),
        ]
    }

    fn read(&mut self, text: &str) -> Result<Reading<NodeFrame>, String> {
        let Ok(response) = serde_json::from_str::<RpcResponse>(text) else {
            return Err("the node sent a frame that is not JSON-RPC".to_owned());
        };
        if let Some(error) = response.error {
            return Err(format!("the node refused a subscription: {error}"));
        }
        match response.result.as_ref().and_then(CometEvent::parse) {
            Some(CometEvent::Tx { height, hash, result }) => {
                Ok(NodeFrame::Included { height, hash, result: Box::new(result) }.into())
            }
            Some(CometEvent::NewBlock { header }) => match BlockHead::parse(header.height, &header.time) {
                Some(head) => Ok(NodeFrame::Block { head, parent: header.last_block_id.hash }.into()),
                None => Err(format!("the header has the time {:?}", header.time)),
            },
            None => {
                self.acknowledged = self.acknowledged.saturating_add(1);
                Ok(Reading { is_confirmed: self.acknowledged == SUBSCRIPTIONS, ..NodeFrame::Acknowledged.into() })
            }
        }
    }
}

/// Effects of a status check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatusCheck {
    /// The connection leads to a node that is no longer used.
    pub reconnects: bool,
    /// The node is compared with the others.
    pub compares_nodes: bool,
    /// The newest block is pinned in the journal.
    pub pins_block: bool,
    /// The known blocks are compared with the node unless its headers show them.
    pub compares_history: bool,
    /// The node is asked for its minimum price of gas.
    pub asks_price: bool,
}

/// State of the node link.
#[derive(Debug, Default)]
pub struct NodeLinkCore {
    /// Origin that the open connection leads to.
    connected_origin: Option<String>,
    status_checks: u64,
    /// Whether the known blocks are being compared with the node.
    is_comparing: bool,
    /// Whether a block came meanwhile that has to be compared too.
    has_missed_block: bool,
    /// Height of the newest block with a transaction of the account that no pin covers.
    unpinned_inclusion: Option<u64>,
}

impl NodeLinkCore {
    /// A comparison of the known blocks with the node is due; yields whether it begins, since one is under way at a time.
    pub fn begin_comparison(&mut self) -> bool {
        self.has_missed_block = self.is_comparing;
        !std::mem::replace(&mut self.is_comparing, true)
    }

    /// A comparison has ended; yields whether another one is due.
    pub fn end_comparison(&mut self) -> bool {
        self.is_comparing = false;
        std::mem::take(&mut self.has_missed_block)
    }

    /// A block contains a transaction of the account.
    pub fn on_inclusion(&mut self, height: u64) {
        self.unpinned_inclusion = self.unpinned_inclusion.max(Some(height));
    }

    /// The newest known block is at `known`; yields whether it is pinned at once, because it, or one below it, has a transaction of the
    /// account.
    pub fn pins_inclusion(&mut self, known: u64) -> bool {
        self.unpinned_inclusion.take_if(|height| *height <= known).is_some()
    }

    /// A connection is open.
    pub fn on_connected(&mut self, origin: &str) {
        self.connected_origin = Some(origin.to_owned());
    }

    /// The connection has ended.
    pub fn on_disconnected(&mut self) {
        self.connected_origin = None;
    }

    /// The status of the node shows a block while the connection is subscribed. A block that no header announced shows that the node
    /// has stopped sending headers, although it answers pings; yields whether the connection is replaced. Without such a block the
    /// chain is quiet.
    pub fn on_status(&self, known_height: u64, head: &BlockHead) -> bool {
        self.connected_origin.is_some() && head.height > known_height
    }

    /// The status timer has fired while the node at `origin` is in use.
    pub fn on_status_check(&mut self, origin: &str) -> StatusCheck {
        self.status_checks += 1;
        StatusCheck {
            reconnects: self.connected_origin.as_ref().is_some_and(|connected| connected != origin),
            // A node that stalls or falls behind keeps its WebSocket.
            compares_nodes: self.status_checks % COMPARISON_PERIOD == 1,
            compares_history: self.status_checks.is_multiple_of(COMPARISON_PERIOD),
            pins_block: self.status_checks.is_multiple_of(PIN_PERIOD),
            asks_price: self.status_checks.is_multiple_of(PRICE_PERIOD),
        }
    }
}
