//! The agent's peers: the gate that admits them, one session a peer, access to endpoints on both sides, and the events that a backend
//! receives.
//!
//! This crate is no API: it is a part of `svc-agent`, which names all that a program may use.

mod access;
mod access_asker;
mod access_granter;
mod courier;
mod delivery;
mod gate;
mod peer_directory;
mod peer_session;
mod peers;
pub mod trust_watch;

pub use access::{AccessOwner, AccessSettings, AccessTerms, TermsFileError};
pub use access_asker::AccessAskerHandle;
pub use access_granter::{AccessGranterHandle, GranterParts};
pub use courier::{CourierConfig, CourierHandle, InvalidWebhookSecret, WebhookSecrets};
pub use delivery::{Delivery, DeliveryHandle};
pub use gate::TrustGate;
pub use peer_directory::PeerDirectory;
pub use peers::{
    FlowFacts, GrantPresentation, InvitationRequest, PeerAccessRequest, PeerAdmission, PeerEndpoint, PeerParts,
    PeerResolution, PeerResolver, PeerService, PeerSettings, PeerTransport, SentInvitation, UnknownFacts,
};
