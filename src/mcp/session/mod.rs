//! Sessions: the state of a client between its requests, the caller of one request, and the session manager of the HTTP surface
//! with its store of sent events.

mod event_store;
mod manager;
mod state;
mod tool_caller;

pub use manager::{BoundedSessionManager, SessionLimits};
pub use state::SessionState;
pub use tool_caller::{CallProgress, ElicitationMode, ToolCaller, principal_of};
