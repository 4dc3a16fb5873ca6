//! The graph watch: the height that the graph service has processed.
//!
//! It owns the WebSocket to the graph; the position is retained by the tree. Only its own connection sends to it. It advances the
//! graph barrier, which reads with a minimum height wait for; a write never waits for the graph. When it dies, the next incarnation
//! connects again.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_kit::{Handle, RetainedState, impl_actor_message, supervision::ChildSpec};
use svc_net::{upstream::UpstreamError, websocket::LinkEvent};

pub use actor::GraphWatch;

use crate::{
    barrier::{Barrier, BarrierHandle},
    clients::graph::GraphClient,
    subscription::SubscriptionPosition,
};

/// Messages of the watch's own connection.
pub enum Msg {
    /// The WebSocket connected, disconnected or received a height.
    Link(LinkEvent<u64>),
}

impl_actor_message!(Msg { Link });

/// Arguments of a watch.
pub struct Args {
    /// Origin of the graph.
    pub origin: String,
    /// Position of the watch.
    pub position: RetainedState<SubscriptionPosition>,
    /// Hears of every height.
    pub barrier: BarrierHandle,
}

/// A graph service, as the operator uses it.
pub(crate) struct GraphService {
    pub client: GraphClient,
    pub barrier: BarrierHandle,
    pub position: RetainedState<SubscriptionPosition>,
}

/// The graph service at an origin, and the actors that follow it.
pub(crate) fn build(origin: &str, mailbox_limit: usize) -> Result<(GraphService, Vec<ChildSpec>), UpstreamError> {
    let client = GraphClient::new(origin)?;
    let position = RetainedState::new(SubscriptionPosition::default());
    let barrier = BarrierHandle::new("graph_barrier", mailbox_limit, RetainedState::default());
    let watch = Handle::new("graph_watch", "graph_watch", mailbox_limit);
    let args = Args { origin: client.origin().to_owned(), position: position.clone(), barrier: barrier.clone() };
    let children = vec![
        ChildSpec::worker::<Barrier>(barrier.actor(), barrier.args(false)),
        ChildSpec::worker::<GraphWatch>(&watch, args),
    ];
    Ok((GraphService { client, barrier, position }, children))
}
