//! Flows of this agent with its peers: the shell around the pure core of `svc_didcomm::flow`.

mod record_json;

pub(crate) use record_json::flow_json;
