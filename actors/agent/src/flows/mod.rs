//! Flows of this agent with its peers: the shell around the pure core of `svc_didcomm::flow`.

#[cfg_attr(not(test), expect(dead_code, reason = "the actors of flows are not built yet"))]
mod calls;
#[cfg_attr(not(test), expect(dead_code, reason = "the actors of flows are not built yet"))]
mod chain;
#[cfg_attr(not(test), expect(dead_code, reason = "the actors of flows are not built yet"))]
mod claims;
#[cfg_attr(not(test), expect(dead_code, reason = "the actors of flows are not built yet"))]
mod facts;
mod messages;
mod record_json;

pub(crate) use self::{messages::messages_of, record_json::flow_json};
