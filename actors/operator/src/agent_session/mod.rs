//! The session with one agent of the corporation: its endpoint, and the login there.
//!
//! It owns the token and the calls under way. Reads and writes of the operator call it; the reconciler starts and ends it. All callers
//! share one login. The token is used until the time that the agent stated and no longer; after a 401 the session logs in once more
//! and repeats the call once. The signer signs the login, and the key stays there. When the session dies, its callers get an error,
//! and the next incarnation logs in again.

mod actor;
mod admin_client;
mod authority;
mod core;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::Value;
use svc_kit::{CallError, Handle, ReplyPort, impl_actor_message};
use svc_net::{
    did::DidResolver,
    upstream::{HttpUpstream, UpstreamError},
};
use svc_pipeline::SignerHandle;

pub use actor::AgentSession;
pub(crate) use admin_client::LOGIN_PREFIX;
pub use authority::AgentAuthority;

use self::{
    admin_client::AgentToken,
    authority::AuthorityError,
    core::{AgentCallId, AgentResponse},
};

/// A request to an agent.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// HTTP method.
    pub method: Method,
    /// Bounded name, for spans.
    pub operation: &'static str,
    /// Path with query.
    pub path: String,
    /// JSON body.
    pub body: Option<Value>,
}

/// A failed call of an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentCallError {
    /// The agent's DID could not be resolved.
    #[error("the agent's DID could not be resolved: {0}")]
    Resolution(String),
    /// The DID Document names no admin API, or one that the host policy refuses.
    #[error("{0}")]
    NoAdminApi(String),
    /// The agent refused the login, or the token that it issued.
    #[error("the agent at {origin} refused the login: {reason}")]
    Login {
        /// Origin of the admin API.
        origin: String,
        /// Reason in words.
        reason: String,
    },
    /// The chain does not have the agent, which the indexer has stated.
    #[error("{0}")]
    NotOnChain(String),
    /// The node could not be asked about the agent.
    #[error("the chain could not be asked about the agent: {0}")]
    Chain(String),
    /// The signer gave no signature.
    #[error("the login could not be signed: {0}")]
    Signer(String),
    /// The request failed, or the agent refused it.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The agent has too many calls under way.
    #[error("{limit} calls to this agent are under way")]
    Overloaded {
        /// The limit.
        limit: usize,
    },
}

impl From<AuthorityError> for AgentCallError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::NotOnChain(reason) => Self::NotOnChain(reason),
            AuthorityError::Node(error) => Self::Chain(error.to_string()),
        }
    }
}

/// Records the endpoint of an agent.
pub trait EndpointRecorder: Send + Sync {
    /// Records the origin of an agent's admin API, or the reason why it is unknown.
    fn record_endpoint(&self, did: &str, admin_url: Result<String, String>);
}

/// Messages of a session.
pub enum Msg {
    /// Call the agent.
    Call {
        /// The request.
        request: Box<AgentRequest>,
        /// The answer of the agent.
        reply: ReplyPort<Result<Value, AgentCallError>>,
    },
    /// Resolve the origin of the admin API.
    ResolveEndpoint,
    /// The origin was resolved, or could not be.
    EndpointResolved {
        /// The origin.
        origin: Result<String, AgentCallError>,
    },
    /// A login has ended.
    LoginFinished {
        /// The agent and the token that it issued.
        outcome: Result<(HttpUpstream, AgentToken), AgentCallError>,
    },
    /// A request has ended.
    CallFinished {
        /// The call.
        id: AgentCallId,
        /// Its response.
        response: AgentResponse<Value>,
    },
}

impl_actor_message!(Msg { Call, ResolveEndpoint, EndpointResolved, LoginFinished, CallFinished });

/// Arguments of a session.
pub struct Args {
    /// DID of the agent.
    pub did: String,
    /// Account that logs in.
    pub account: String,
    /// Resolves the DID.
    pub resolver: DidResolver,
    /// Asks the node about the agent before each login.
    pub authority: Option<AgentAuthority>,
    /// Whether the agent may ask for a signature that names no audience, which another server could use.
    pub allows_unbound_login: bool,
    /// Signs the login.
    pub signer: SignerHandle,
    /// Records the endpoint.
    pub endpoints: Arc<dyn EndpointRecorder>,
    /// Time between two resolutions of an agent that is not called.
    pub period: Duration,
}

/// The handle of a session.
#[derive(Clone)]
pub struct AgentSessionHandle(Handle<Msg>);

impl AgentSessionHandle {
    /// A handle for the session of an agent that a supervisor will start.
    pub(crate) fn new(did: &str, mailbox_limit: usize) -> Self {
        Self(Handle::new("agent_session", format!("agent_session/{did}"), mailbox_limit))
    }

    /// The kit's handle, for the supervisor.
    pub(crate) fn actor(&self) -> &Handle<Msg> {
        &self.0
    }

    /// Calls the agent. The session logs in first if it has no token.
    pub async fn call(&self, request: AgentRequest, wait_limit: Duration) -> Result<Value, CallError<AgentCallError>> {
        let request = Box::new(request);
        self.0.ask_within(wait_limit, |reply| Msg::Call { request, reply }).await?.map_err(CallError::Refused)
    }
}
