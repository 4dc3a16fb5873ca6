//! Logins, and the answer of each call. Pure: the time is an argument.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::AgentCallError;

/// Number of a call within its session.
pub type AgentCallId = u64;

/// An effect of the session.
#[derive(Debug, PartialEq)]
pub enum AgentSessionEffect<T> {
    /// Log in.
    LogIn,
    /// Send a call with the current token.
    Send(AgentCallId),
    /// Answer a call.
    Answer(AgentCallId, Result<T, AgentCallError>),
}

/// The response to a request.
#[derive(Debug)]
pub enum AgentResponse<T> {
    /// The agent answered.
    Answered(T),
    /// The agent does not know the token (401).
    TokenRefused,
    /// The request failed.
    Failed(AgentCallError),
}

/// Calls of one agent that may be under way.
pub const MAX_PENDING_CALLS: usize = 128;

/// State of the session.
#[derive(Debug, Default)]
pub struct AgentSessionCore {
    last_call: AgentCallId,
    /// Number and end of the current token.
    token: Option<(u64, Instant)>,
    login_count: u64,
    is_logging_in: bool,
    waiting_calls: VecDeque<AgentCallId>,
    /// Calls that were sent, with the number of the token they carried and whether they were sent before.
    sent_calls: HashMap<AgentCallId, (u64, bool)>,
    resent_calls: Vec<AgentCallId>,
}

impl AgentSessionCore {
    /// Calls that are not answered.
    pub fn pending_count(&self) -> usize {
        self.waiting_calls.len() + self.sent_calls.len()
    }

    /// Whether the session has a token that is valid at `now`.
    pub fn is_logged_in(&self, now: Instant) -> bool {
        self.token.is_some_and(|(_, until)| now < until)
    }

    /// A new call.
    pub fn on_call<T>(&mut self, now: Instant) -> Result<(AgentCallId, Vec<AgentSessionEffect<T>>), AgentCallError> {
        if self.pending_count() >= MAX_PENDING_CALLS {
            return Err(AgentCallError::Overloaded { limit: MAX_PENDING_CALLS });
        }
        self.last_call += 1;
        self.waiting_calls.push_back(self.last_call);
        Ok((self.last_call, self.advance(now)))
    }

    /// The login has ended; on success the token is valid until the given time.
    pub fn on_login<T>(
        &mut self,
        outcome: Result<Instant, AgentCallError>,
        now: Instant,
    ) -> Vec<AgentSessionEffect<T>> {
        self.is_logging_in = false;
        // A token that has ended on arrival would cause one login after the other.
        let outcome = outcome.and_then(|until| {
            let reason = "the token it gave has already ended; compare its clock with ours".to_owned();
            if until > now { Ok(until) } else { Err(AgentCallError::Login { origin: String::new(), reason }) }
        });
        match outcome {
            Ok(until) => {
                self.login_count += 1;
                self.token = Some((self.login_count, until));
                self.advance(now)
            }
            Err(error) => {
                self.resent_calls.clear();
                self.waiting_calls.drain(..).map(|call| AgentSessionEffect::Answer(call, Err(error.clone()))).collect()
            }
        }
    }

    /// The agent has moved: its token is not valid at another origin.
    pub fn forget_token(&mut self) {
        self.token = None;
    }

    /// The caller of a call that was not sent has gone.
    pub fn on_abandoned(&mut self, call: AgentCallId) {
        self.sent_calls.remove(&call);
    }

    /// The agent responded to a request, or did not.
    pub fn on_response<T>(
        &mut self,
        call: AgentCallId,
        outcome: AgentResponse<T>,
        now: Instant,
    ) -> Vec<AgentSessionEffect<T>> {
        let Some((token, was_sent_before)) = self.sent_calls.remove(&call) else { return Vec::new() };
        match outcome {
            AgentResponse::Answered(answer) => vec![AgentSessionEffect::Answer(call, Ok(answer))],
            AgentResponse::Failed(error) => vec![AgentSessionEffect::Answer(call, Err(error))],
            AgentResponse::TokenRefused => {
                // Another call may have fetched a newer token meanwhile; only the refused one is dropped.
                if self.token.is_some_and(|(current, _)| current == token) {
                    self.token = None;
                }
                if was_sent_before {
                    let origin = String::new();
                    let reason = "it does not accept the token it has just given".to_owned();
                    return vec![AgentSessionEffect::Answer(call, Err(AgentCallError::Login { origin, reason }))];
                }
                self.resent_calls.push(call);
                self.waiting_calls.push_front(call);
                self.advance(now)
            }
        }
    }

    fn advance<T>(&mut self, now: Instant) -> Vec<AgentSessionEffect<T>> {
        match self.token {
            Some((token, until)) if now < until => {
                let calls: Vec<AgentCallId> = self.waiting_calls.drain(..).collect();
                calls
                    .into_iter()
                    .map(|call| {
                        let was_sent_before = self.resent_calls.contains(&call);
                        self.resent_calls.retain(|other| *other != call);
                        self.sent_calls.insert(call, (token, was_sent_before));
                        AgentSessionEffect::Send(call)
                    })
                    .collect()
            }
            _ if self.is_logging_in || self.waiting_calls.is_empty() => Vec::new(),
            _ => {
                self.token = None;
                self.is_logging_in = true;
                vec![AgentSessionEffect::LogIn]
            }
        }
    }
}
