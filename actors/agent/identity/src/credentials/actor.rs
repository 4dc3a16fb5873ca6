//! The shell of the credential keeper.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use svc_agent_core::{
    error::{AgentPart, Refusal, RefusalCode},
    grant::{pause_before_look, time_to_refill},
};
use svc_agent_store::{AgentStoreError, CredentialKind, CredentialState, StoredCredential};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_otel::metrics;
use tokio::{task::AbortHandle, time::Instant};

use super::{
    Args, CredentialAnswer, Msg,
    import::import,
    issuance::{IssueRequest, IssueStop},
    issuer::CredentialIssuer,
    pass::Pass,
    report::PassReport,
    schedule::{AFTER_EVENT, PASS_PAUSE, PassSchedule},
};
use crate::{
    account_write::WriteStop,
    credential_settings::{CredentialForm, CredentialMode, claims_digest},
    registry::NodeRegistry,
    setup::{Setup, SetupOptions, SetupSource, read_setup},
};

/// Requests that are on their way at once.
const MAX_REQUESTS: usize = 256;
/// Comparisons with the node that run at once: each reads some twenty answers of it.
const MAX_SETUPS: usize = 4;

/// State of the keeper.
pub struct State {
    args: Arc<Args>,
    schedule: PassSchedule,
    asked_for: BTreeSet<String>,
    /// The wake for the next pass.
    timer: Option<AbortHandle>,
    /// Issuances on their way, and the callers that wait for each.
    issuing: HashMap<IssueKey, Vec<ReplyPort<CredentialAnswer>>>,
    /// Comparisons with the node that run.
    setups: usize,
}

/// Equal requests have one credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct IssueKey {
    did: String,
    schema_id: u64,
    claims: String,
}

impl IssueKey {
    fn of(request: &IssueRequest) -> Self {
        Self { did: request.did.clone(), schema_id: request.schema_id, claims: claims_digest(&request.claims) }
    }
}

/// A request, and the issuer that serves it.
type AdmittedRequest<T> = (CredentialIssuer, ReplyPort<Result<T, Refusal>>);

/// The actor that keeps the credentials.
pub struct CredentialKeeper;

impl ActorBehaviour for CredentialKeeper {
    const KIND: &'static str = "credential_keeper";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::Wake);
        Ok(State {
            args: Arc::clone(args),
            schedule: PassSchedule::new(Instant::now()),
            asked_for: BTreeSet::new(),
            timer: None,
            issuing: HashMap::new(),
            setups: 0,
        })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::ChainFound => state.pass(context),
            Msg::Wake => {
                state.schedule.woken();
                state.pass(context);
            }
            Msg::RegistryChanged => {
                let pause = state.schedule.changed(Instant::now());
                state.wake_after(context, pause);
            }
            Msg::Reissue(names) => {
                state.asked_for.extend(names);
                state.pass(context);
            }
            Msg::PassEnded(ended) => state.end_pass(context, ended),
            Msg::Issue { request, reply } => state.issue(context, request, reply),
            Msg::Issued { request, answer } => {
                for reply in state.issuing.remove(&IssueKey::of(&request)).unwrap_or_default() {
                    reply.send(CredentialAnswer::clone(&answer));
                }
            }
            Msg::Import { credential, reply } => state.import(context, credential, reply),
            Msg::Setup { options, reply } => state.read_setup(context, options, reply),
            Msg::SetupRead { has_agent_step } => {
                state.setups = state.setups.saturating_sub(1);
                if has_agent_step {
                    let pause = state.schedule.setup_read(Instant::now());
                    state.wake_after(context, pause);
                }
            }
            Msg::Remove { id, reply } => state.remove(context, id, reply),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"issuing": state.issuing.len(), "failures": state.schedule.failures()})
    }
}

impl State {
    /// The issuer, once the chain is found.
    fn issuer(&self) -> Option<CredentialIssuer> {
        let access = self.args.chain.with(|chain| chain.clone())?;
        Some(self.args.issuer.on_chain(access))
    }

    /// Wakes after a pause, in place of any other wake; `None` leaves the one that is due.
    fn wake_after(&mut self, context: &ActorContext<Msg>, pause: Option<Duration>) {
        let Some(pause) = pause else { return };
        if let Some(earlier) = self.timer.replace(context.send_after(pause, Msg::Wake)) {
            earlier.abort();
        }
    }

    fn pass(&mut self, context: &ActorContext<Msg>) {
        if self.args.settings.mode == CredentialMode::Off {
            return;
        }
        let Some(issuer) = self.issuer().filter(|_| self.schedule.begin()) else { return };
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        let asked_for = self.asked_for.clone();
        context.spawn(async move {
            let pass = Pass {
                issuer: &issuer,
                settings: &args.settings,
                base_url: &args.base_url,
                asked_for,
                handles_events: args.handles_events,
            };
            mailbox.send(Msg::PassEnded(pass.run().await.map_err(|stop| stop.reason().into_owned())));
        });
    }

    fn end_pass(&mut self, context: &ActorContext<Msg>, ended: Result<PassReport, String>) {
        let mut longest = PASS_PAUSE;
        let has_failure = match ended {
            Ok(report) => {
                self.asked_for.retain(|name| report.waiting.contains_key(name));
                metrics::record_credentials_waiting(report.waiting.len());
                let has_failure = report.has_failure;
                if let Some(begins_in) = report.begins_in {
                    longest = longest.min(Duration::from_secs(begins_in) + AFTER_EVENT);
                }
                let time = self.issuer().map(|issuer| issuer.account.chain_time());
                let refills_in = report.refills_at.zip(time).map(|(at, now)| time_to_refill(&at, &now));
                longest = pause_before_look(longest, refills_in);
                for (name, reason) in &report.waiting {
                    tracing::warn!(name, reason, "a credential waits");
                }
                self.args.report.with(|known| *known = report);
                has_failure
            }
            Err(reason) => {
                tracing::warn!(reason, "the credentials were not looked at; a later attempt follows");
                true
            }
        };
        let pause = self.schedule.ended(Instant::now(), has_failure, longest);
        self.wake_after(context, Some(pause));
    }

    /// Answers a request that cannot be served now, and returns the issuer of one that can.
    fn admit<T: Send + 'static>(&self, reply: ReplyPort<Result<T, Refusal>>) -> Option<AdmittedRequest<T>> {
        if self.issuing.len() >= MAX_REQUESTS {
            let message = format!("{MAX_REQUESTS} credentials are on their way");
            reply.send(Err(Refusal::not_ready(AgentPart::Node, message, 2)));
            return None;
        }
        match self.issuer() {
            Some(issuer) => Some((issuer, reply)),
            None => {
                reply.send(Err(Refusal::not_ready(AgentPart::Node, "the chain is not found yet", 5)));
                None
            }
        }
    }

    fn issue(&mut self, context: &ActorContext<Msg>, request: IssueRequest, reply: ReplyPort<CredentialAnswer>) {
        let key = IssueKey::of(&request);
        if let Some(callers) = self.issuing.get_mut(&key) {
            callers.push(reply);
            return;
        }
        let Some((issuer, reply)) = self.admit(reply) else { return };
        self.issuing.insert(key.clone(), vec![reply]);
        let mailbox = context.mailbox();
        context.spawn(async move {
            let answer = issue_to_other(&issuer, &request, &key.claims).await;
            mailbox.send(Msg::Issued { request, answer: Box::new(answer) });
        });
    }

    fn import(&self, context: &ActorContext<Msg>, credential: Value, reply: ReplyPort<CredentialAnswer>) {
        let Some((issuer, reply)) = self.admit(reply) else { return };
        let args = Arc::clone(&self.args);
        context.spawn(async move {
            let imported = import(&issuer, &args.settings, credential, None).await;
            let answer = match imported {
                Ok(row) => args.issuer.keeper.publish_credentials().await.map(|()| row),
                Err(refusal) => Err(refusal),
            };
            reply.send(answer);
        });
    }

    fn read_setup(
        &mut self,
        context: &ActorContext<Msg>,
        options: SetupOptions,
        reply: ReplyPort<Result<Setup, Refusal>>,
    ) {
        if self.setups >= MAX_SETUPS {
            let message = format!("{MAX_SETUPS} comparisons with the node run");
            reply.send(Err(Refusal::not_ready(AgentPart::Node, message, 2)));
            return;
        }
        let Some((issuer, reply)) = self.admit(reply) else { return };
        self.setups += 1;
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let PassReport { waiting, claims, .. } = args.report.with(|report| report.clone());
            let source = SetupSource {
                account: &issuer.account,
                sources: &issuer.sources,
                essential_schemas: &issuer.judge.essential_schemas,
                mode: &args.settings.mode,
                ecosystems: &args.settings.trusted_ecosystems,
                waiting,
                claims,
            };
            let read = read_setup(&source, &options).await;
            let has_agent_step = read.as_ref().is_ok_and(Setup::has_agent_step);
            let unavailable = |stop: WriteStop| {
                let message = format!("the registry cannot be read: {}", stop.reason());
                Refusal::not_ready(AgentPart::Node, message, 5)
            };
            reply.send(read.map_err(unavailable));
            mailbox.send(Msg::SetupRead { has_agent_step });
        });
    }

    fn remove(&self, context: &ActorContext<Msg>, id: String, reply: ReplyPort<CredentialAnswer>) {
        let args = Arc::clone(&self.args);
        context.spawn(async move {
            let removed = remove_received(&args, &id).await;
            let answer = match removed {
                Ok(row) => args.issuer.keeper.publish_credentials().await.map(|()| row),
                Err(refusal) => Err(refusal),
            };
            reply.send(answer);
        });
    }
}

fn store_failed(error: &AgentStoreError) -> Refusal {
    Refusal::not_ready(AgentPart::Store, error.to_string(), 5)
}

/// Issues a credential to another DID, or finds the one that has these claims already.
async fn issue_to_other(issuer: &CredentialIssuer, request: &IssueRequest, claims: &str) -> CredentialAnswer {
    let (store, now) = (&issuer.account.store, issuer.account.chain_time().seconds);
    if request.did == issuer.account.did {
        let rule = "it is the agent's own DID, whose credentials follow from its settings";
        return Err(Refusal::of_member(RefusalCode::InvalidInput, "did", rule));
    }
    let known = store.find_issued(&request.did, request.schema_id, claims).await;
    let mut known =
        known.map_err(|error| store_failed(&error))?.filter(|one| one.valid_until.is_none_or(|end| end > now));
    if let Some(row) = &known
        && let Some(reason) = issuer.reason_against(row).await.map_err(|stop| unavailable(&stop.reason()))?
    {
        // A credential that the registry has taken away is not handed out again; the next one needs the rights of now.
        let withdrawn = [(row.id.clone(), reason.to_owned())];
        store.withdraw_credentials(&withdrawn).await.map_err(|error| store_failed(&error))?;
        known = None;
    }
    let row = match known {
        Some(known) if known.state == CredentialState::Anchored => return Ok(known),
        Some(known) => known,
        None => sign_for_other(issuer, request).await?,
    };
    issuer.anchor(&row).await.map_err(|stop| IssueStop::from(stop).into_refusal())?;
    // A rotation of compromised keys may have come meanwhile.
    let stored = store.credential(&row.id).await.map_err(|error| store_failed(&error))?;
    stored.filter(|one| one.state == CredentialState::Anchored).ok_or_else(|| {
        Refusal::new(RefusalCode::InvalidState, "the credential was withdrawn while its digest was on its way")
    })
}

fn unavailable(error: &str) -> Refusal {
    let message = format!("the registry cannot be read: {error}");
    Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, message) }
}

async fn sign_for_other(issuer: &CredentialIssuer, request: &IssueRequest) -> CredentialAnswer {
    let found = NodeRegistry(&issuer.account).schema(request.schema_id).await;
    let schema = found.map_err(|error| unavailable(&error.to_string()))?.filter(|one| one.schema.archived.is_none());
    let schema = schema.ok_or_else(|| {
        Refusal::of_member(RefusalCode::InvalidInput, "schemaId", "the registry has no such schema in use")
    })?;
    // Without the rights no server of the ecosystem is asked.
    let authority = issuer.read_authority(&request.did, &schema, CredentialKind::Issued).await;
    let authority = authority.map_err(IssueStop::into_refusal)?;
    let credentials = issuer.sources.credentials_of(&issuer.account, &schema).await;
    let credentials = credentials.map_err(|stop| unavailable(&stop.reason()))?;
    let kind = (CredentialKind::Issued, CredentialForm::Main);
    let signed = issuer.sign_and_store(request, (&schema, &credentials), kind, &authority).await;
    signed.map_err(IssueStop::into_refusal)
}

async fn remove_received(args: &Args, id: &str) -> CredentialAnswer {
    let found = args.issuer.store.credential(id).await.map_err(|error| store_failed(&error))?;
    let is_held =
        |one: &StoredCredential| one.kind != CredentialKind::Issued && one.state != CredentialState::Withdrawn;
    let Some(row) = found.filter(is_held) else {
        return Err(Refusal::new(RefusalCode::UnknownId, format!("no presented credential has the id {id:?}")));
    };
    if row.kind != CredentialKind::Received {
        let message = "the agent issues this credential itself: it follows from the settings and the registry";
        return Err(Refusal::new(RefusalCode::InvalidState, message));
    }
    let withdrawn = [(row.id.clone(), "REMOVED".to_owned())];
    args.issuer.store.withdraw_credentials(&withdrawn).await.map_err(|error| store_failed(&error))?;
    Ok(StoredCredential { state: CredentialState::Withdrawn, reason: Some("REMOVED".to_owned()), ..row })
}
