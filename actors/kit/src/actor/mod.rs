//! What an actor is: a [`Behaviour`] run by a shell that owns everything around the handler.

mod behaviour;
mod envelope;
mod handle;
pub(crate) mod shell;

pub use behaviour::{Behaviour, Context, Failure, Intent, Mailbox};
pub use envelope::Reply;
pub(crate) use handle::Probe;
pub use handle::{AskError, Handle, Standing};
