//! When a session logs in, and what each call gets. Pure: the clock is an argument.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::AgentError;

/// Number of a call within its session.
pub type CallNumber = u64;

/// What the session must do.
#[derive(Debug, PartialEq)]
pub enum Effect<T> {
    /// Log in.
    LogIn,
    /// Send a call with the current token.
    Send(CallNumber),
    /// The call is over.
    Answer(CallNumber, Result<T, AgentError>),
}

/// What became of a request.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It was answered.
    Answered(T),
    /// The agent does not know the token (401).
    TokenRefused,
    /// It failed.
    Failed(AgentError),
}

/// Calls one agent may have under way.
pub const LIMIT: usize = 128;

/// The session's decisions.
#[derive(Debug, Default)]
pub struct Core {
    next: CallNumber,
    /// The token's number and the moment it ends.
    token: Option<(u64, Instant)>,
    logins: u64,
    is_logging_in: bool,
    waiting: VecDeque<CallNumber>,
    /// Calls that were sent, with the number of the token they carried and whether they were sent before.
    sent: HashMap<CallNumber, (u64, bool)>,
    again: Vec<CallNumber>,
}

impl Core {
    /// Calls that are not over.
    pub fn pending(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    /// Whether the session has a token that is valid at `now`.
    pub fn is_logged_in(&self, now: Instant) -> bool {
        self.token.is_some_and(|(_, until)| now < until)
    }

    /// A call came in.
    pub fn called<T>(&mut self, now: Instant) -> Result<(CallNumber, Vec<Effect<T>>), AgentError> {
        if self.pending() >= LIMIT {
            return Err(AgentError::Overloaded { limit: LIMIT });
        }
        self.next += 1;
        self.waiting.push_back(self.next);
        Ok((self.next, self.proceed(now)))
    }

    /// The login has ended; on success the token is valid until the moment given.
    pub fn logged_in<T>(&mut self, outcome: Result<Instant, AgentError>, now: Instant) -> Vec<Effect<T>> {
        self.is_logging_in = false;
        // A token that has ended when it comes would be asked for again and again.
        let outcome = outcome.and_then(|until| {
            let reason = "the token it gave has already ended; compare its clock with ours".to_owned();
            if until > now { Ok(until) } else { Err(AgentError::Login { origin: String::new(), reason }) }
        });
        match outcome {
            Ok(until) => {
                self.logins += 1;
                self.token = Some((self.logins, until));
                self.proceed(now)
            }
            Err(error) => {
                self.again.clear();
                self.waiting.drain(..).map(|call| Effect::Answer(call, Err(error.clone()))).collect()
            }
        }
    }

    /// The agent has moved: its token is worth nothing elsewhere.
    pub fn forget_token(&mut self) {
        self.token = None;
    }

    /// Nobody waits for a call any more, and it was not sent.
    pub fn abandoned(&mut self, call: CallNumber) {
        self.sent.remove(&call);
    }

    /// A request was answered, or was not.
    pub fn finished<T>(&mut self, call: CallNumber, outcome: Outcome<T>, now: Instant) -> Vec<Effect<T>> {
        let Some((token, was_sent_before)) = self.sent.remove(&call) else { return Vec::new() };
        match outcome {
            Outcome::Answered(answer) => vec![Effect::Answer(call, Ok(answer))],
            Outcome::Failed(error) => vec![Effect::Answer(call, Err(error))],
            Outcome::TokenRefused => {
                // Another call may have brought a newer token meanwhile; that one is not to blame.
                if self.token.is_some_and(|(current, _)| current == token) {
                    self.token = None;
                }
                if was_sent_before {
                    let origin = String::new();
                    let reason = "it does not accept the token it has just given".to_owned();
                    return vec![Effect::Answer(call, Err(AgentError::Login { origin, reason }))];
                }
                self.again.push(call);
                self.waiting.push_front(call);
                self.proceed(now)
            }
        }
    }

    fn proceed<T>(&mut self, now: Instant) -> Vec<Effect<T>> {
        match self.token {
            Some((token, until)) if now < until => {
                let calls: Vec<CallNumber> = self.waiting.drain(..).collect();
                calls
                    .into_iter()
                    .map(|call| {
                        let was_sent_before = self.again.contains(&call);
                        self.again.retain(|other| *other != call);
                        self.sent.insert(call, (token, was_sent_before));
                        Effect::Send(call)
                    })
                    .collect()
            }
            _ if self.is_logging_in || self.waiting.is_empty() => Vec::new(),
            _ => {
                self.token = None;
                self.is_logging_in = true;
                vec![Effect::LogIn]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    type Effects = Vec<Effect<&'static str>>;

    fn call(core: &mut Core, now: Instant) -> (CallNumber, Effects) {
        core.called(now).expect("room")
    }

    #[test]
    fn callers_share_one_login_and_the_token_serves_until_its_end() {
        let (mut core, now) = (Core::default(), Instant::now());
        assert_eq!(call(&mut core, now), (1, vec![Effect::LogIn]));
        assert_eq!(call(&mut core, now), (2, vec![]));
        let until = now + Duration::from_secs(900);
        assert_eq!(core.logged_in(Ok(until), now), Effects::from([Effect::Send(1), Effect::Send(2)]));
        assert_eq!(core.finished(1, Outcome::Answered("a"), now), [Effect::Answer(1, Ok("a"))]);
        assert_eq!(call(&mut core, now), (3, vec![Effect::Send(3)]));
        assert!(core.is_logged_in(now) && !core.is_logged_in(until));
        assert_eq!(call(&mut core, until), (4, vec![Effect::LogIn]), "not a moment longer");
        assert_eq!(core.pending(), 3);
    }

    #[test]
    fn a_refused_token_is_renewed_once_and_a_newer_one_is_not_thrown_away() {
        let (mut core, now) = (Core::default(), Instant::now());
        let until = now + Duration::from_secs(900);
        call(&mut core, now);
        call(&mut core, now);
        core.logged_in::<&str>(Ok(until), now);
        assert_eq!(core.finished(1, Outcome::TokenRefused, now), Effects::from([Effect::LogIn]));
        assert_eq!(core.logged_in(Ok(until), now), Effects::from([Effect::Send(1)]));
        assert_eq!(
            core.finished(2, Outcome::TokenRefused, now),
            Effects::from([Effect::Send(2)]),
            "with the new token"
        );
        let second: Effects = core.finished(1, Outcome::TokenRefused, now);
        assert!(matches!(&second[..], [Effect::Answer(1, Err(AgentError::Login { .. }))]), "{second:?}");
    }

    #[test]
    fn a_failed_login_is_everybodys_answer_and_the_next_call_tries_again() {
        let (mut core, now) = (Core::default(), Instant::now());
        call(&mut core, now);
        call(&mut core, now);
        let refused = AgentError::NoAdminApi("no".into());
        let effects: Effects = core.logged_in(Err(refused.clone()), now);
        assert_eq!(effects, [Effect::Answer(1, Err(refused.clone())), Effect::Answer(2, Err(refused))]);
        assert_eq!(call(&mut core, now), (3, vec![Effect::LogIn]));
    }

    #[test]
    fn a_token_that_has_ended_when_it_comes_is_an_answer_and_no_reason_to_log_in_again() {
        let (mut core, now) = (Core::default(), Instant::now());
        call(&mut core, now);
        let effects: Effects = core.logged_in(Ok(now), now);
        assert!(matches!(&effects[..], [Effect::Answer(1, Err(AgentError::Login { .. }))]), "{effects:?}");
    }

    #[test]
    fn beyond_the_limit_a_call_is_refused() {
        let (mut core, now) = (Core::default(), Instant::now());
        for _ in 0..LIMIT {
            call(&mut core, now);
        }
        assert!(matches!(core.called::<()>(now), Err(AgentError::Overloaded { limit: LIMIT })));
    }
}
