//! The actor around the decisions of an agent session.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_net::upstream::HttpUpstream;
use tokio::time::Instant;

use super::{
    AgentCallError, AgentRequest, Args, Msg,
    admin_client::{self, AgentToken},
    core::{AgentCallId, AgentSessionCore, AgentSessionEffect},
};

struct PendingCall {
    request: AgentRequest,
    reply: ReplyPort<Result<Value, AgentCallError>>,
    span: tracing::Span,
}

/// State of a session.
pub struct State {
    args: Arc<Args>,
    core: AgentSessionCore,
    /// The agent and the token of the last login.
    session: Option<(HttpUpstream, Arc<AgentToken>)>,
    pending_calls: HashMap<AgentCallId, PendingCall>,
}

/// The actor that talks to one agent.
pub struct AgentSession;

impl ActorBehaviour for AgentSession {
    const KIND: &'static str = "agent_session";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::ResolveEndpoint);
        Ok(State {
            args: Arc::clone(args),
            core: AgentSessionCore::default(),
            session: None,
            pending_calls: HashMap::new(),
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let now = Instant::now();
        let effects = match message {
            Msg::Call { request, reply } => match state.core.on_call(now) {
                Ok((call, effects)) => {
                    let span = tracing::Span::current();
                    state.pending_calls.insert(call, PendingCall { request: *request, reply, span });
                    effects
                }
                Err(error) => {
                    reply.send(Err(error));
                    Vec::new()
                }
            },
            Msg::ResolveEndpoint => {
                let (args, mailbox) = (Arc::clone(&state.args), context.mailbox());
                context.spawn(async move {
                    let origin = admin_client::resolve_admin_url(&args.resolver, &args.did).await;
                    mailbox.send(Msg::EndpointResolved { origin });
                });
                Vec::new()
            }
            Msg::EndpointResolved { origin: found } => {
                state.record_endpoint(&found);
                if let (Ok(origin), Some((agent, _))) = (&found, &state.session)
                    && agent.origin() != origin
                {
                    state.core.forget_token();
                    state.session = None;
                }
                context.send_after(state.args.period, Msg::ResolveEndpoint);
                Vec::new()
            }
            Msg::LoginFinished { outcome } => {
                let until = match outcome {
                    Ok((agent, token)) => {
                        tracing::info!(agent = state.args.did, origin = agent.origin(), "logged in to an agent");
                        let until = token.valid_until;
                        state.record_endpoint(&Ok(agent.origin().to_owned()));
                        state.session = Some((agent, Arc::new(token)));
                        Ok(until)
                    }
                    Err(error) => {
                        tracing::warn!(agent = state.args.did, %error, "login to an agent has failed");
                        if matches!(error, AgentCallError::Resolution(_) | AgentCallError::NoAdminApi(_)) {
                            state.record_endpoint(&Err(error.clone()));
                        }
                        Err(error)
                    }
                };
                state.core.on_login(until, now)
            }
            Msg::CallFinished { id, response } => state.core.on_response(id, response, now),
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "did": state.args.did, "logged_in": state.core.is_logged_in(Instant::now()), "pending": state.core.pending_count(),
        })
    }
}

impl State {
    fn perform(&mut self, context: &ActorContext<Msg>, effect: AgentSessionEffect<Value>) {
        let mailbox = context.mailbox();
        match effect {
            AgentSessionEffect::LogIn => {
                let args = Arc::clone(&self.args);
                let known = self.session.as_ref().map(|(agent, _)| agent.clone());
                context.spawn(async move {
                    let outcome = async {
                        if let Some(authority) = &args.authority {
                            authority.check(&args.did).await?;
                        }
                        let origin = admin_client::resolve_admin_url(&args.resolver, &args.did).await?;
                        let agent = match known.filter(|agent| agent.origin() == origin) {
                            Some(agent) => agent,
                            None => admin_client::open_client(&args.resolver, &origin)?,
                        };
                        let token = admin_client::log_in(&agent, &args).await?;
                        Ok((agent, token))
                    };
                    mailbox.send(Msg::LoginFinished { outcome: outcome.await });
                });
            }
            AgentSessionEffect::Send(call) => {
                // An abandoned caller has an error already. Its request must not be executed afterwards.
                if self.pending_calls.get(&call).is_some_and(|job| job.reply.is_abandoned()) {
                    self.pending_calls.remove(&call);
                    self.core.on_abandoned(call);
                    return;
                }
                let (Some(job), Some((agent, token))) = (self.pending_calls.get(&call), self.session.clone()) else {
                    return;
                };
                let (request, span) = (job.request.clone(), job.span.clone());
                let work = async move {
                    let response = admin_client::send_request(&agent, &token.value, request).await;
                    mailbox.send(Msg::CallFinished { id: call, response });
                };
                context.spawn(tracing::Instrument::instrument(work, span));
            }
            AgentSessionEffect::Answer(call, mut outcome) => {
                let Some(job) = self.pending_calls.remove(&call) else { return };
                if let (Err(AgentCallError::Login { origin, .. }), Some((agent, _))) = (&mut outcome, &self.session)
                    && origin.is_empty()
                {
                    agent.origin().clone_into(origin);
                }
                job.reply.send(outcome);
            }
        }
    }

    fn record_endpoint(&self, found: &Result<String, AgentCallError>) {
        let admin = found.clone().map_err(|error| error.to_string());
        self.args.endpoints.record_endpoint(&self.args.did, admin);
    }
}
