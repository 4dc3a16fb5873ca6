//! A message that has passed every check which needs no decision about its sender.

use svc_agent_core::peers::OwnPeerDid;
use svc_didcomm::{from_prior::FromPrior, message::Message};

/// A message of a peer whose sender and recipient are proven.
#[derive(Debug)]
pub(crate) struct ProvenMessage {
    /// The message.
    pub message: Message,
    /// DID of the key that encrypted it.
    pub sender: String,
    /// Our DID that it was encrypted for.
    pub recipient: String,
    /// The invitation of that DID.
    pub invitation: Option<OwnPeerDid>,
    /// Its `from_prior`, whose signature was verified.
    pub prior: Option<FromPrior>,
    /// The DID by which the peer is known, which the gate is asked about.
    pub public_did: String,
    /// Whether no connection with it is known.
    pub is_stranger: bool,
}
