//! One actor: an [`ActorBehaviour`] inside a shell that does everything around the handler.

mod ask_error;
mod behaviour;
mod envelope;
mod handle;
#[doc(hidden)]
pub mod message;
pub(crate) mod shell;
mod status;

pub use ask_error::{AskError, CallError};
pub use behaviour::{ActorBehaviour, ActorContext, ActorFailure, Mailbox};
pub use envelope::ReplyPort;
pub use handle::Handle;
pub(crate) use handle::{ChildProbe, RunningHandler};
pub use message::ActorMessage;
pub use status::ActorStatus;
