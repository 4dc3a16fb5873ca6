//! Calls of the corporation's agents.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use svc_kit::CallError;
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode, NextStep};

use super::Operator;
use crate::{
    agent_session::AgentRequest,
    error::{agent_error, ask_error, unknown_effect},
};

/// Longest wait for an agent, its login included.
const AGENT_TIMEOUT: Duration = Duration::from_secs(45);
/// Agents that an error lists.
const MAX_LISTED_AGENTS: usize = 20;

impl Operator {
    /// Calls one of the corporation's agents. No other host is contacted.
    pub async fn agent_call(&self, did: &str, request: AgentRequest) -> Result<Value, ErrorEnvelope> {
        let snapshot = self.snapshot();
        if !snapshot.agents.iter().any(|agent| agent.did == did) {
            let agents = snapshot.agents.iter().map(|agent| agent.did.as_str());
            let known: Vec<&str> = agents.take(MAX_LISTED_AGENTS).collect();
            let message = format!(
                "{did} is no agent of corporation {}: none of its participants has this DID and an authorized VS operator",
                self.corporation_id()
            );
            return Err(ErrorEnvelope::new(FailureCode::VsaNotAuthorized, message, "nothing was contacted")
                .with_details(json!({"agent_did": did, "known": known}))
                .with_next_step(NextStep::ListAgents));
        }
        let Some(session) = self.agent_directory().session(did) else {
            let message = format!("the session of {did} is starting");
            return Err(ErrorEnvelope::new(FailureCode::Restarting, message, "try again in a moment"));
        };
        let is_read = request.method == Method::GET;
        match session.call(request, AGENT_TIMEOUT).await {
            Ok(answer) => Ok(answer),
            Err(CallError::Refused(error)) => Err(agent_error(did, &error, is_read)),
            Err(CallError::Unanswered(error)) => {
                let envelope = ask_error(&error);
                Err(if is_read { envelope } else { unknown_effect(envelope) })
            }
        }
    }
}
