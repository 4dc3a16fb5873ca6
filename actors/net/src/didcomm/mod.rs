//! Transports of DIDComm: one message per POST, or per message of a WebSocket. The bytes are opaque here.

mod budget;
mod inbound;
mod outbound;
mod sockets;

pub use budget::{BudgetShare, ByteBudget};
pub use inbound::{InboundDoor, InboundLimits, MessageReceiver, PostBody, Receipt, is_message_type};
pub use outbound::{OutboundClient, PeerSocket, SendResult};
