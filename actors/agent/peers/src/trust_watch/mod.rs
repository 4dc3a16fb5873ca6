//! The trust watch: a change of a verdict ends the decision about that peer that the gate keeps.
//!
//! It owns a WebSocket to the indexer's trust stream. A connection begins with an empty memory of the gate, because changes of the time
//! without one are unknown. Without the stream a decision is kept for its time, and no longer.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_kit::{Handle, impl_actor_message, supervision::ChildSpec};
use svc_net::{upstream::UpstreamEndpoints, websocket::LinkEvent};
use svc_wire::trust_stream::TrustBlock;

use crate::gate::TrustGate;

/// Messages of the watch's own connection.
pub enum Msg {
    /// The WebSocket connected, disconnected or received a block.
    Link(LinkEvent<TrustBlock>),
}

impl_actor_message!(Msg { Link });

/// Arguments of the watch.
pub struct Args {
    /// The indexers, one of which is in use.
    pub indexer: UpstreamEndpoints,
    /// Forgets decisions.
    pub gate: TrustGate,
}

/// Messages that may wait; only the watch itself sends to it.
const MAILBOX: usize = 16;

/// Returns the child specification that starts the actor.
pub fn child_spec(args: Args) -> ChildSpec {
    ChildSpec::worker::<actor::TrustWatch>(&Handle::new("trust_watch", "trust_watch", MAILBOX), args)
}
