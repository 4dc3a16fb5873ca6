//! Agents as processes of their own.

pub(in crate::e2e) mod agent_process;
mod another_history;
pub(in crate::e2e) mod chain_of_others;
pub(in crate::e2e) mod planned_upgrade;
pub(in crate::e2e) mod process;
pub(in crate::e2e) mod signed_fields;
pub(in crate::e2e) mod store_file;
pub(in crate::e2e) mod two_agents;
pub(in crate::e2e) mod whole_way;
