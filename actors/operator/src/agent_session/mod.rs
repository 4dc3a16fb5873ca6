//! One agent of the corporation: where its admin API is, and the login there.
//!
//! Any number of callers share one login. The token is kept until the moment the agent stated and no longer; after a 401 the
//! session logs in once more and asks again, once. The account signature comes from the signer; the key stays there. When a
//! session dies its callers are told, and its successor logs in anew.

mod actor;
mod core;
mod exchange;

use std::time::Duration;

use http::Method;
use serde_json::Value;
use svc_kit::{AskError, Handle, upstream::UpstreamError};

pub use actor::{AgentSession, Args, Msg};
pub(crate) use exchange::LOGIN_PREFIX;

/// A request to an agent.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// HTTP method.
    pub method: Method,
    /// Bounded name, for spans.
    pub operation: &'static str,
    /// Path with its query.
    pub path: String,
    /// JSON body.
    pub body: Option<Value>,
}

/// An agent that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// Its DID could not be resolved.
    #[error("the agent's DID could not be resolved: {0}")]
    Resolution(String),
    /// Its document names no admin API, or one that must not be contacted.
    #[error("{0}")]
    NoAdminApi(String),
    /// It refused the login, or the token it gave.
    #[error("the agent at {origin} refused the login: {reason}")]
    Login {
        /// Admin API.
        origin: String,
        /// What it said.
        reason: String,
    },
    /// The account signature could not be had.
    #[error("the login could not be signed: {0}")]
    Signer(String),
    /// It failed, or refused the request itself.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// Too many calls are waiting for it.
    #[error("{limit} calls to this agent are under way")]
    Overloaded {
        /// The bound.
        limit: usize,
    },
}

/// The way to a session.
#[derive(Clone)]
pub struct AgentHandle(pub(crate) Handle<Msg>);

impl AgentHandle {
    /// Asks the agent, logging in first when that is needed.
    pub async fn call(&self, request: AgentRequest, patience: Duration) -> Result<Result<Value, AgentError>, AskError> {
        self.0.ask_within(patience, |reply| Msg::Call(Box::new(request), reply)).await
    }
}
