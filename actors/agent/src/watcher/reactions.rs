//! The effects of registry events within the agent.

use std::collections::BTreeSet;

use svc_agent_flows::{FlowDirectory, NamedParticipant};
use svc_agent_identity::{credentials::CredentialHandle, resolution::ResolutionHandle};
use svc_wire::event_stream::IndexerEvent;

/// Modules of events about grants and participants, and those about schemas and digests too.
const GRANT_MODULES: [&str; 2] = ["de", "pp"];
const CREDENTIAL_MODULES: [&str; 5] = ["cs", "de", "di", "ec", "pp"];

/// The event types that the agent acts on. Events of the others are delivered all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HandledEvents {
    /// All types.
    #[default]
    All,
    /// No type.
    None,
    /// All types but these.
    Except(BTreeSet<String>),
}

impl HandledEvents {
    fn contains(&self, event_type: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Except(types) => !types.contains(event_type),
        }
    }

    /// Whether participants that were revoked, slashed or changed may take credentials out of the document.
    pub(crate) fn withdraws_credentials(&self) -> bool {
        ["RevokeParticipant", "SlashParticipantTrustDeposit", "SetParticipantEffectiveUntil"]
            .into_iter()
            .all(|event_type| self.contains(event_type))
    }
}

/// Acts on events about grants, participants, schemas and digests.
pub(super) fn act_on(
    events: &[IndexerEvent],
    handled: &HandledEvents,
    resolution: &ResolutionHandle,
    credentials: &CredentialHandle,
    flows: &FlowDirectory,
) {
    let has_event_of = |modules: &[&str]| {
        let is_of = |event: &&IndexerEvent| modules.contains(&event.payload.module.as_str());
        events.iter().filter(is_of).any(|event| handled.contains(&event.event_type))
    };
    if has_event_of(&GRANT_MODULES) {
        resolution.registry_changed();
        flows.grants_changed();
    }
    if has_event_of(&CREDENTIAL_MODULES) {
        credentials.registry_changed();
    }
    let participant = |event: &IndexerEvent| {
        let is_one = event.payload.entity_type.as_deref() == Some("Participant");
        let id = event.payload.entity_id.as_deref().filter(|_| is_one)?.parse().ok()?;
        Some(NamedParticipant { id, height: event.block_height })
    };
    let handled = events.iter().filter(|event| handled.contains(&event.event_type));
    flows.participants_changed(handled.filter_map(participant).collect());
}
