//! Peers that talk DIDComm: the parts that transports, sessions and requests of callers share.
//!
//! ```text
//! transport -> receive: keys, sender, from_prior, rate -> session of the peer -> gate -> one transaction
//! request or answer -> outbox in the store -> session of the peer -> sending: document, envelope, endpoints
//! ```

mod access_arrival;
mod access_presentations;
mod access_requests;
mod admission;
mod applicant;
mod arrival_outcome;
mod exchange_requests;
mod flow_facts;
mod known_peers;
mod open_questions;
mod peer_resolution;
mod receive;
mod refusal_log;
mod refusals;
mod requests;
mod resolver;
mod sending;
mod service;
mod session_work;
mod settings;

pub use self::{
    access_presentations::GrantPresentation,
    access_requests::PeerAccessRequest,
    flow_facts::{FlowFacts, UnknownFacts},
    peer_resolution::{PeerEndpoint, PeerResolution},
    requests::{InvitationRequest, SentInvitation},
    resolver::PeerResolver,
    service::{PeerParts, PeerService},
    settings::{PeerAdmission, PeerSettings, PeerTransport},
};
