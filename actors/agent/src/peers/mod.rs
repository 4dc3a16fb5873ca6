//! Peers that talk DIDComm: what is shared by the transports, the sessions and the requests of callers.
//!
//! ```text
//! transport -> receive: keys, sender, from_prior, rate -> session of the peer -> gate -> one transaction
//! request or answer -> outbox in the store -> session of the peer -> sending: document, envelope, endpoints
//! ```

mod admission;
mod event;
mod exchange_requests;
mod gate;
mod reaction;
mod receive;
mod refusal_log;
mod requests;
mod resolver;
mod sending;
mod service;
mod settings;

pub(crate) use self::{
    event::{PeerEvent, millis_text},
    gate::TrustGate,
    reaction::{Reaction, react},
    resolver::PeerResolver,
    service::{PeerParts, ProvenMessage},
};
pub use self::{
    requests::{InvitationRequest, SentInvitation},
    service::PeerService,
    settings::{PeerAdmission, PeerSettings, PeerTransport},
};
