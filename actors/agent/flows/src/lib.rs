//! The agent's flows: validations and credentials between two agents, one session a flow, and the steps of this agent in them.
//!
//! This crate is no API: it is a part of `svc-agent`, which names all that a program may use.

mod flow_directory;
mod flow_session;
mod flows;

pub use flow_directory::{FlowDirectory, NamedParticipant};
pub use flows::{
    ClaimSources, FlowCall, FlowFormat, FlowHearing, FlowParts, FlowRequest, FlowService, FlowSettings,
    FlowStateChange, HearingParts, PublishedSchemas, ShownFlow,
};
