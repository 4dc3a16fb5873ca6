//! Flows between agents.

pub(in crate::e2e) mod flow_adversaries;
pub(in crate::e2e) mod flow_faults;
pub(in crate::e2e) mod flow_process;
pub(in crate::e2e) mod flow_reference;
pub(in crate::e2e) mod flow_rotation;
pub(in crate::e2e) mod flow_silence;
pub(in crate::e2e) mod flows;
pub(in crate::e2e) mod lying_index;
pub(in crate::e2e) mod no_beginning;
pub(in crate::e2e) mod onboarding_service;
pub(in crate::e2e) mod peer_generation;
