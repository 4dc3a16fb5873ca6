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
mod decision;
mod facts;
mod following;
mod hearing;
mod messages;
mod payment;
mod record_json;
mod requests;
mod schedule;
mod service;
mod settings;
mod steps;
#[cfg(test)]
mod testing;
mod validation_call;

pub use self::{
    calls::FlowCall,
    decision::ValidationTerms,
    hearing::FlowStateChange,
    requests::{FlowRequest, ShownFlow},
    service::FlowService,
    settings::{FlowFormat, FlowSettings, PublishedSchemas},
};
pub(crate) use self::{
    claims::ClaimSources,
    hearing::{FlowHearing, HeardFacts, HearingParts, PeerStanding, UnknownFacts},
    messages::messages_of,
    record_json::flow_json,
    schedule::next_look,
    service::FlowParts,
};
