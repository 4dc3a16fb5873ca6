//! Flows of this agent with its peers: the shell around the pure core of `svc_didcomm::flow`.

mod calls;
mod chain;
mod claims;
mod facts;
mod messages;
mod payment;
mod record_json;
#[cfg(test)]
mod testing;

pub(crate) use self::{messages::messages_of, record_json::flow_json};
