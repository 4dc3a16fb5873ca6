//! The node link: the node's WebSocket with one subscription for the account's transactions and one for new blocks.
//!
//! It owns the connection and the [`BlockClock`]. Only its own connection and timers send
//! to it. It forwards inclusions and blocks to the confirmer and to the signer, and asks both to check everything in flight once
//! a connection is subscribed. When it dies, the next incarnation opens a new connection, and the confirmer looks every pending
//! hash up, so that it finds an inclusion that no connection reported.
//!
//! A node allows five subscriptions a connection. One subscription therefore covers all transactions of the account: it matches
//! `tx.acc_seq`, which the ante handler emits also for a transaction that fails in execution.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_kit::{RetainedState, impl_actor_message};
use svc_net::{
    upstream::{BlockClock, BlockHead, NodeClient},
    websocket::LinkEvent,
};

pub use self::{actor::NodeLink, core::NodeFrame};

use crate::{
    chain::{gas_price::GasPriceWatch, node_release::ReleaseWatch},
    confirmer::ConfirmerHandle,
    journal::JournalHandle,
    known_history::HistoryCheck,
    signer::SignerHandle,
};

/// Messages of the link's own connection and timers.
pub enum Msg {
    /// The WebSocket connected, disconnected or received a frame.
    Link(LinkEvent<NodeFrame>),
    /// The node's status shows this block as the newest.
    StatusRead(BlockHead),
    /// The timer for checking the node's status and the choice of node has fired.
    CheckStatus,
    /// The known blocks were compared with the node.
    HistoryChecked(HistoryCheck),
}

impl_actor_message!(Msg { Link, StatusRead, CheckStatus, HistoryChecked });

/// Arguments of a node link.
pub struct Args {
    /// The node, or one of several.
    pub node: NodeClient,
    /// The price of gas, which the link keeps current.
    pub prices: GasPriceWatch,
    /// Its release, which the link keeps current.
    pub release: ReleaseWatch,
    /// Address of the signing account.
    pub address: String,
    /// Height and pace of the chain.
    pub clock: RetainedState<BlockClock>,
    /// Knows the newest block of the chain, and pins blocks.
    pub journal: JournalHandle,
    /// Hears of inclusions and blocks.
    pub confirmer: ConfirmerHandle,
    /// Hears of blocks.
    pub signer: SignerHandle,
}
