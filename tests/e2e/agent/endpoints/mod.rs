//! Access of peers to endpoints, and calls of them.

pub(in crate::e2e) mod access;
pub(in crate::e2e) mod access_adversaries;
pub(in crate::e2e) mod access_process;
pub(in crate::e2e) mod access_protocol;
pub(in crate::e2e) mod peer_flow;
pub(in crate::e2e) mod peer_flow_adversaries;
pub(in crate::e2e) mod peer_flow_traces;
pub(in crate::e2e) mod peer_tokens;
