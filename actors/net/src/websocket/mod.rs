//! WebSockets: a link that a client keeps open, and the server side of an upgrade.

mod link;
pub mod server;
mod stream;

pub(crate) use link::REPLACED;
pub use link::{ConnectionEpoch, LinkConfig, LinkEvent, WebSocketLink};
pub use stream::{Patience, Reading, StreamProtocol};
