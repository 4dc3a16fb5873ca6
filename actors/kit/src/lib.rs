//! Actors: supervision, handles, mailboxes, tasks, retained state and sessions.
//!
//! ractor has processes, mailboxes, links between parent and child, and kill. This crate adds the parts of OTP that ractor
//! lacks: [child specifications](supervision::ChildSpec) with restart policies, [handles](Handle) that survive restarts, a limit
//! for every mailbox, [errors](AskError) that separate *not delivered*, *died*, *mailbox full* and *timed out*, one root span per
//! message with a link to its sender, detection of stuck handlers, status reports, and shutdown with a time limit.
//!
//! This crate is no actor runtime (ractor is), it has no remote actors, and it opens no socket: connections are in `svc-net`.
//!
//! # One actor under a supervisor
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, AskError, Handle, ReplyPort, impl_actor_message};
//! use svc_kit::supervision::{ChildSpec, Supervisor, SupervisorSpec};
//!
//! /// Messages of the actor.
//! enum Msg {
//!     Add { amount: u64, reply: ReplyPort<u64> },
//! }
//!
//! impl_actor_message!(Msg { Add });
//!
//! struct Adder;
//!
//! impl ActorBehaviour for Adder {
//!     const KIND: &'static str = "adder";
//!     type Msg = Msg;
//!     type Args = u64;
//!     type State = u64;
//!
//!     async fn start(_: &ActorContext<Msg>, start_value: &Arc<u64>) -> Result<u64, ActorFailure> {
//!         Ok(**start_value)
//!     }
//!
//!     async fn handle(_: &ActorContext<Msg>, message: Msg, sum: &mut u64) -> Result<(), ActorFailure> {
//!         let Msg::Add { amount, reply } = message;
//!         *sum += amount;
//!         reply.send(*sum);
//!         Ok(())
//!     }
//!
//!     fn observe(sum: &u64) -> serde_json::Value {
//!         (*sum).into()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let adder = Handle::new("adder", "adder-1", 64);
//! let supervisor = Supervisor::new("root");
//! supervisor.start(SupervisorSpec::one_for_one(vec![ChildSpec::worker::<Adder>(&adder, 40)])).await?;
//!
//! assert_eq!(adder.ask(|reply| Msg::Add { amount: 2, reply }).await, Ok(42));
//!
//! supervisor.shutdown(Duration::from_secs(5)).await;
//! let refused = adder.ask(|reply| Msg::Add { amount: 1, reply }).await;
//! assert!(matches!(refused, Err(AskError::NotDelivered { .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # A tree inside a larger platform
//! Every tree can be the child of an actor that knows ractor only: [`Supervisor::start_linked`](supervision::Supervisor::start_linked)
//! takes the cell of the parent. The tree ends with its parent, and the parent receives `ActorFailed` when the tree gives up.
//! ```
//! use ractor::{Actor, ActorProcessingErr, ActorRef};
//! use svc_kit::supervision::{Supervisor, SupervisorSpec};
//!
//! struct Platform;
//!
//! impl Actor for Platform {
//!     type Msg = ();
//!     type State = ();
//!     type Arguments = ();
//!
//!     async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (platform, _) = Actor::spawn(None, Platform, ()).await?;
//! let tree = Supervisor::new("embedded");
//! tree.start_linked(SupervisorSpec::one_for_one(Vec::new()), platform.get_cell()).await?;
//!
//! platform.stop(None);
//! assert_eq!(tree.wait_until_ended().await, "killed");
//! # Ok(())
//! # }
//! ```

pub mod actor;
pub mod backoff;
mod retained_state;
pub mod runtime;
mod session_directory;
pub mod supervision;
mod task_group;
#[cfg(test)]
mod tests;
mod wake_timer;
pub mod wall_clock;

pub use actor::{
    ActorBehaviour, ActorContext, ActorFailure, ActorMessage, AskError, CallError, Handle, Mailbox, ReplyPort,
};
pub use retained_state::RetainedState;
pub use session_directory::{Session, SessionDirectory, SessionError, SessionLease};
pub use task_group::{TaskGroup, TaskLimitError};
pub use wake_timer::WakeTimer;
