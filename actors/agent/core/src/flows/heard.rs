//! The conditions of a message about a flow. Pure.

use std::collections::BTreeSet;

use svc_didcomm::flow::{Guard, ParticipantRead};

/// The participants of a request, as the node shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedFlow {
    /// Schema.
    pub schema_id: u64,
    /// The validator's participant, which is ours.
    pub validator_participant_id: u64,
    /// Whether a credential follows.
    pub is_holder: bool,
}

/// The conditions of a message, as the node shows them.
#[derive(Debug, Clone, Default)]
pub struct HeardFacts {
    /// Conditions that hold.
    pub facts: BTreeSet<Guard>,
    /// The participant of an onboarding request.
    pub read: Option<ParticipantRead>,
    /// The participants of a request that fits.
    pub requested: Option<RequestedFlow>,
}

/// Whether a peer is a verifiable service, or about to be one by the flow that it begins.
#[derive(Debug, Clone, Copy)]
pub struct PeerStanding {
    /// It is trusted.
    pub is_trusted: bool,
    /// It is exempt from the gate.
    pub is_exempt: bool,
}
