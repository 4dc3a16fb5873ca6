//! Flows of this agent with its peers: participants that are validated, and credentials that are issued between two agents. The states and
//! their table are in `svc_didcomm::flow`; here is everything that reads the node, writes to the chain and changes the store.
//!
//! ```text
//! message of a peer -> hearing: reads of the node -> the message's transaction
//! call of an operator -> requests -> one transaction
//! registry event -> directory -> reads of the participant -> one transaction a flow
//! a flow with work -> its session -> steps: node, chain, peer -> one transaction
//! ```

mod calls;
mod chain;
mod change_notes;
mod claims;
mod following;
mod hearing;
mod requests;
mod service;
mod settings;
mod steps;
mod validation_call;

pub use self::{
    calls::FlowCall,
    claims::ClaimSources,
    hearing::{FlowHearing, FlowStateChange, HearingParts},
    requests::{FlowRequest, ShownFlow},
    service::{FlowParts, FlowService},
    settings::{FlowFormat, FlowSettings, PublishedSchemas},
};
