//! The surface of MCP: tools, sessions, features and errors.

pub(in crate::e2e) mod agents;
pub(in crate::e2e) mod bad_input;
pub(in crate::e2e) mod graph_tools;
pub(in crate::e2e) mod light_answers;
pub(in crate::e2e) mod mcp_extension;
pub(in crate::e2e) mod mcp_features;
mod own_writes;
pub(in crate::e2e) mod sessions;
pub(in crate::e2e) mod stdio_start;
pub(in crate::e2e) mod tool_list_changes;
pub(in crate::e2e) mod tool_policy;
pub(in crate::e2e) mod trust_reads;
