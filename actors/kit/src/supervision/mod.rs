//! Supervision as data: the specification of each child, its restart policy, and the children that are restarted with it.
//!
//! The vocabulary is that of OTP: permanent, transient and temporary children; one-for-one and rest-for-one groups; an intensity
//! (a number of restarts in a period). Restarts are delayed by an exponential backoff that starts again after a healthy run. A
//! handler that runs too long counts as a crash.
//!
//! A supervisor is itself an actor. It owns the specifications, the restart history and the ractor cells of its children. Its
//! address, [`Supervisor`], sends to it; ractor reports exits to it. It guarantees that each child is running, waiting for its
//! backoff, or stopped for good, and that the handle of the child shows which. When it exceeds its intensity it stops its
//! children and fails; then its own supervisor, or the actor it was
//! [linked](Supervisor::start_linked) to, decides.

mod actor;
pub mod core;
mod spec;
mod supervisor;
#[cfg(test)]
mod tests;

pub use core::RestartMode;
pub use spec::{ChildSpec, SupervisorSpec};
pub use supervisor::{ActorReport, Supervisor, SupervisorError};
