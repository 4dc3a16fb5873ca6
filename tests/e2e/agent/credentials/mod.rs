//! The credentials of agents, and the ecosystems that they belong to.

pub(in crate::e2e) mod claims;
pub(in crate::e2e) mod first_generation;
pub(in crate::e2e) mod identity;
pub(in crate::e2e) mod identity_faults;
pub(in crate::e2e) mod identity_process;
pub(in crate::e2e) mod own_ecosystem;
