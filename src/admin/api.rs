//! The state that the routes of the admin API share.

use std::sync::Arc;

use svc_agent::Agent;
use tokio_util::sync::CancellationToken;

use super::caller::CallerRules;

/// One agent, and the rules of its callers.
#[derive(Clone)]
pub struct AdminApi {
    pub(super) agent: Agent,
    pub(super) rules: Arc<CallerRules>,
    pub(super) shutdown: CancellationToken,
}

impl AdminApi {
    /// The API of an agent.
    pub fn new(agent: Agent, rules: CallerRules) -> Self {
        Self { agent, rules: Arc::new(rules), shutdown: CancellationToken::new() }
    }

    /// Ends the listeners when it is cancelled; open requests are answered first.
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }
}
