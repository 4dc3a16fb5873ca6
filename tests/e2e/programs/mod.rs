//! The programs: commands, starts, homes, ports and traces.

pub(in crate::e2e) mod cli;
pub(in crate::e2e) mod devnet_home;
pub(in crate::e2e) mod otlp_trace;
pub(in crate::e2e) mod port_check;
pub(in crate::e2e) mod service_starts;
