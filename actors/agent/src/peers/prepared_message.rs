//! A message as it leaves.

use std::time::Instant;

use svc_didcomm::endpoint::Endpoint;

use crate::store::MessageRoute;

/// A message that can be sent.
pub(super) struct Sealed {
    /// The envelope.
    pub envelope: String,
    /// The endpoints of the peer, in its order.
    pub endpoints: Vec<Endpoint>,
}

/// A message that was encrypted while the one before it was on its way.
pub(crate) struct PreparedMessage {
    /// Place in the order of the outbox.
    pub(super) number: i64,
    /// The DIDs that it was encrypted for.
    pub(super) route: MessageRoute,
    /// The message.
    pub(super) sealed: Sealed,
    /// The time: keys of either side may change while the message before it is on its way.
    pub(super) prepared_at: Instant,
}
