//! A message as it leaves.

use std::time::Instant;

use svc_agent_store::MessageRoute;
use svc_didcomm::endpoint::Endpoint;

/// A message that can be sent.
pub(crate) struct Sealed {
    /// The envelope.
    pub envelope: String,
    /// The endpoints of the peer, in its order.
    pub endpoints: Vec<Endpoint>,
}

/// A message that was encrypted while the one before it was on its way.
pub(crate) struct PreparedMessage {
    /// Place in the order of the outbox.
    pub(crate) number: i64,
    /// The DIDs that it was encrypted for.
    pub(crate) route: MessageRoute,
    /// The message.
    pub(crate) sealed: Sealed,
    /// The time: keys of either side may change while the message before it is on its way.
    pub(crate) prepared_at: Instant,
}
