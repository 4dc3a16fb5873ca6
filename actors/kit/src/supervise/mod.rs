//! Supervision as data: what each child is, when it is started again, and who falls with it.
//!
//! The vocabulary is OTP's: permanent, transient and temporary children; one-for-one and rest-for-one groups; an intensity
//! (so many restarts in a window) beyond which a supervisor gives up and its own supervisor decides. Restarts are delayed by
//! an exponential backoff that starts over once a child has stayed healthy. A handler that runs too long counts as a crash.

mod actor;
mod address;
pub mod core;
mod spec;

pub use address::{Report, SuperviseError, Supervisor};
pub use spec::{ChildSpec, SupervisorSpec};
