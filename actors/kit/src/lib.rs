//! Everything about actors as such, so that the actors of the three systems hold only their own decisions.
//!
//! ractor gives processes, mailboxes, links between parent and child, and kill. This crate adds what OTP has and ractor has
//! not: [child specifications](supervise::ChildSpec) with restart policies, [handles](Handle) that survive restarts, a bound on
//! every mailbox, errors that tell *not delivered*, *died meanwhile*, *refused* and *timed out* apart, handler spans as roots
//! linked to the sender, detection of stuck handlers, observation, and draining. Beside it stand the two kinds of connection
//! actors keep, a reconnecting WebSocket [`link`] and an [`upstream`] HTTP client, and what is needed to follow somebody else's
//! document safely: [`hosts`] that may be contacted, a way to [`fetch`] from them, and [`did`] resolution.

pub mod actor;
pub mod backoff;
pub mod did;
pub mod fetch;
pub mod hosts;
pub mod link;
mod retained;
pub mod runtime;
pub mod supervise;
mod tasks;
pub mod upstream;
pub mod wall;
pub mod weight;
pub mod ws;

pub use actor::{AskError, Behaviour, Context, Failure, Handle, Intent, Mailbox, Reply};
pub use retained::Retained;
pub use tasks::{Saturated, TaskGroup};
