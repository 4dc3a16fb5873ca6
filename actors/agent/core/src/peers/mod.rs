//! Records of peers, their form as JSON, and the consequences of a peer's message.

mod access_answer;
mod changes;
mod connection_end;
mod event;
mod reaction;
mod records;

pub use access_answer::{AccessAnswer, AccessDecision, GrantQuery, GrantRows, grant_of_message};
pub use changes::{Changes, RowChange};
pub use connection_end::{ConnectionEnd, ConnectionsOf, EndOutcome};
pub use event::PeerEvent;
pub use reaction::{Reaction, react};
pub use records::{
    BasicMessageFilter, ConnectionFilter, ConnectionRole, ExchangeFilter, ExchangeState, MessageRole, OwnPeerDid,
    PeerLimits, StoredBasicMessage, StoredConnection, StoredExchange, Verdict,
};
