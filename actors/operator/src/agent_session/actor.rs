//! The actor around a session's decisions.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Intent, Reply, did::DidResolver, upstream::Upstream};
use tokio::time::Instant;

use super::{
    AgentError, AgentRequest,
    core::{CallNumber, Core, Effect, Outcome},
    exchange::{self, Token},
};
use crate::{agents::Directory, signer::SignerHandle};

/// What a session is told.
pub enum Msg {
    /// Ask the agent.
    Call(Box<AgentRequest>, Reply<Result<Value, AgentError>>),
    /// Look where the admin API is.
    LookUp,
    /// It was looked up.
    Found(Result<String, AgentError>),
    /// The login has ended.
    LoggedIn(Result<(Upstream, Token), AgentError>),
    /// A request has ended.
    Finished(CallNumber, Outcome<Value>),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Call(..) => "call",
            Self::LookUp => "look_up",
            Self::Found(_) => "found",
            Self::LoggedIn(_) => "logged_in",
            Self::Finished(..) => "finished",
        }
    }
}

/// What a session is made from.
pub struct Args {
    pub did: String,
    /// Account that logs in.
    pub account: String,
    pub resolver: DidResolver,
    pub signer: SignerHandle,
    pub directory: Directory,
    /// How often an agent that is not used is looked up again.
    pub period: Duration,
}

struct Job {
    request: AgentRequest,
    reply: Reply<Result<Value, AgentError>>,
    span: tracing::Span,
}

pub struct State {
    args: Arc<Args>,
    core: Core,
    /// The agent and the token of the last login.
    session: Option<(Upstream, Arc<Token>)>,
    jobs: HashMap<CallNumber, Job>,
}

pub struct AgentSession;

impl Behaviour for AgentSession {
    const KIND: &'static str = "agent_session";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        context.mailbox().send(Msg::LookUp);
        Ok(State { args: Arc::clone(args), core: Core::default(), session: None, jobs: HashMap::new() })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        let now = Instant::now();
        let effects = match message {
            Msg::Call(request, reply) => match state.core.called(now) {
                Ok((call, effects)) => {
                    let span = tracing::Span::current();
                    state.jobs.insert(call, Job { request: *request, reply, span });
                    effects
                }
                Err(error) => {
                    reply.send(Err(error));
                    Vec::new()
                }
            },
            Msg::LookUp => {
                let (args, mailbox) = (Arc::clone(&state.args), context.mailbox());
                context.spawn(async move {
                    mailbox.send(Msg::Found(exchange::find(&args.resolver, &args.did).await));
                });
                Vec::new()
            }
            Msg::Found(found) => {
                state.note(&found);
                if let (Ok(origin), Some((agent, _))) = (&found, &state.session)
                    && agent.origin() != origin
                {
                    state.core.forget_token();
                    state.session = None;
                }
                context.after(state.args.period, Msg::LookUp);
                Vec::new()
            }
            Msg::LoggedIn(outcome) => {
                let until = match outcome {
                    Ok((agent, token)) => {
                        tracing::info!(agent = state.args.did, origin = agent.origin(), "logged in to an agent");
                        let until = token.until;
                        state.note(&Ok(agent.origin().to_owned()));
                        state.session = Some((agent, Arc::new(token)));
                        Ok(until)
                    }
                    Err(error) => {
                        tracing::warn!(agent = state.args.did, %error, "login to an agent has failed");
                        if matches!(error, AgentError::Resolution(_) | AgentError::NoAdminApi(_)) {
                            state.note(&Err(error.clone()));
                        }
                        Err(error)
                    }
                };
                state.core.logged_in(until, now)
            }
            Msg::Finished(call, outcome) => state.core.finished(call, outcome, now),
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "did": state.args.did, "logged_in": state.core.is_logged_in(Instant::now()), "pending": state.core.pending(),
        })
    }
}

impl State {
    fn perform(&mut self, context: &Context<Msg>, effect: Effect<Value>) {
        let mailbox = context.mailbox();
        match effect {
            Effect::LogIn => {
                let args = Arc::clone(&self.args);
                let known = self.session.as_ref().map(|(agent, _)| agent.clone());
                context.spawn(async move {
                    let outcome = async {
                        let origin = exchange::find(&args.resolver, &args.did).await?;
                        let agent = match known.filter(|agent| agent.origin() == origin) {
                            Some(agent) => agent,
                            None => exchange::client(&args.resolver, &origin)?,
                        };
                        let token = exchange::log_in(&agent, &args.signer, &args.account).await?;
                        Ok((agent, token))
                    };
                    mailbox.send(Msg::LoggedIn(outcome.await));
                });
            }
            Effect::Send(call) => {
                // A caller that has gone was told something else; what it asked for must not happen behind it.
                if self.jobs.get(&call).is_some_and(|job| job.reply.is_abandoned()) {
                    self.jobs.remove(&call);
                    self.core.abandoned(call);
                    return;
                }
                let (Some(job), Some((agent, token))) = (self.jobs.get(&call), self.session.clone()) else { return };
                let (request, span) = (job.request.clone(), job.span.clone());
                let work = async move {
                    mailbox.send(Msg::Finished(call, exchange::ask(&agent, &token.value, request).await));
                };
                context.spawn(tracing::Instrument::instrument(work, span));
            }
            Effect::Answer(call, mut outcome) => {
                let Some(job) = self.jobs.remove(&call) else { return };
                if let (Err(AgentError::Login { origin, .. }), Some((agent, _))) = (&mut outcome, &self.session)
                    && origin.is_empty()
                {
                    agent.origin().clone_into(origin);
                }
                job.reply.send(outcome);
            }
        }
    }

    fn note(&self, found: &Result<String, AgentError>) {
        let admin = found.clone().map_err(|error| error.to_string());
        self.args.directory.note(&self.args.did, admin);
    }
}
