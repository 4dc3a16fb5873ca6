//! The shell of the document keeper.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_store::guard::StoreGuardHandle;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort, wall_clock};
use svc_net::host_policy::HostPolicy;
use svc_otel::metrics;
use svc_wire::timestamp;
use tokio::time::sleep;

use super::{
    ChangeAnswer, KeysAnswer, Msg, PublishAnswer,
    core::{Clocks, DocumentChange, KeeperCore, KeeperEffect, WaitingChange},
    presentations::PresentationSet,
    publication::{DocumentWriter, WriteKeys},
    published::{DocumentError, PublishedDocument},
};
use crate::{
    document::{DidDocument, KeyChange, ManagedEntries, ServiceEntry},
    resolution::ResolutionHandle,
};

/// Pause between two attempts to remove a version that was not served.
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// Fill of a log, in percent of its bounds, from which on each version is a warning.
const WARNED_FILL: u64 = 80;

/// Arguments of the actor.
pub struct Args {
    pub(super) writer: Arc<DocumentWriter>,
    pub(super) managed: ManagedEntries,
    pub(super) hosts: HostPolicy,
    pub(super) guard: StoreGuardHandle,
    pub(super) resolution: ResolutionHandle,
}

/// The caller of a change.
pub(super) enum ChangeCaller {
    /// Of a service entry.
    Service(ReplyPort<ChangeAnswer>),
    /// Of keys.
    Keys(ReplyPort<KeysAnswer>),
}

/// The judgement of a change: the entry that it concerns, if it is one of a service.
type JudgedChange = Result<Option<ServiceEntry>, Refusal>;

impl ChangeCaller {
    fn refuse(self, refusal: Refusal) {
        match self {
            Self::Service(reply) => reply.send(Err(refusal)),
            Self::Keys(reply) => reply.send(Err(refusal)),
        }
    }

    fn answer(self, judged: JudgedChange, published: &Arc<PublishedDocument>) {
        match (self, judged) {
            (caller, Err(refusal)) => caller.refuse(refusal),
            (Self::Service(reply), Ok(Some(entry))) => reply.send(Ok(entry)),
            // A change of a service always has its entry; without an answer the caller hears that the actor died.
            (Self::Service(_), Ok(None)) => {}
            (Self::Keys(reply), Ok(_)) => reply.send(Ok(Arc::clone(published))),
        }
    }
}

/// State of the actor.
pub struct State {
    args: Arc<Args>,
    core: KeeperCore<ChangeCaller>,
    started: Instant,
    /// Answers to the changes of the version that is being written.
    answers: Vec<(ChangeCaller, JudgedChange)>,
    /// Presentations that the next version links to; `None` for those that are served.
    presentations: Option<Arc<PresentationSet>>,
    /// Callers whose credentials are to be presented: before the presentations are made, before the version with them is written, and
    /// during its write.
    publications: Publications,
}

/// Callers that wait for the publication of credentials.
#[derive(Default)]
struct Publications {
    unmade: Vec<ReplyPort<PublishAnswer>>,
    is_making: bool,
    making: Vec<ReplyPort<PublishAnswer>>,
    made: Vec<ReplyPort<PublishAnswer>>,
    writing: Vec<ReplyPort<PublishAnswer>>,
}

/// The actor that changes the document.
pub struct DocumentKeeper;

impl ActorBehaviour for DocumentKeeper {
    const KIND: &'static str = "document_keeper";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let published = args.writer.published();
        record_size(&published);
        // The message about this version may have died with an earlier incarnation.
        args.resolution.changed(published.version.number);
        let core = KeeperCore::new(published.version.written_at);
        let mut state = State {
            args: Arc::clone(args),
            core,
            started: Instant::now(),
            answers: Vec::new(),
            presentations: None,
            publications: Publications::default(),
        };
        state.make_presentations(context);
        let managed = state.managed();
        if published.is_outdated || published.document.with_managed(&managed) != published.document {
            let change = DocumentChange::Managed(managed);
            let effects = state.core.submit_own(change, state.clocks());
            state.perform(context, effects);
        }
        // A recovery has made another key for messages.
        if let Some(key) = args.writer.keyring().missing_agreement(published.document.as_json()) {
            let change = DocumentChange::Keys(KeyChange::ReplaceAgreement(key));
            let effects = state.core.submit_own(change, state.clocks());
            state.perform(context, effects);
        }
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let now = state.clocks();
        let effects = match message {
            Msg::Change { change, reply } => {
                let (published, caller) = (state.args.writer.published(), ChangeCaller::Service(reply));
                state.core.submit(change, caller, (&published.document, state.args.hosts), now)
            }
            Msg::ChangeKeys { change, reply } => {
                state.core.submit_keys(DocumentChange::Keys(change), ChangeCaller::Keys(reply), now)
            }
            Msg::RotateUpdateKey { reply } => {
                state.core.submit_keys(DocumentChange::UpdateKey, ChangeCaller::Keys(reply), now)
            }
            Msg::AccessKeysChanged { reply } => {
                let change = DocumentChange::Managed(state.managed());
                state.core.submit_keys(change, ChangeCaller::Keys(reply), now)
            }
            Msg::Written(result) => {
                state.args.guard.note_write(!matches!(result, Err(DocumentError::Store(_))));
                state.answer(&result);
                if let Ok(published) = &result {
                    state.args.resolution.changed(published.version.number);
                }
                match result {
                    // The next version waits until the store has none that was not served.
                    Err(DocumentError::Store(_)) => Vec::new(),
                    _ => state.go_on(now),
                }
            }
            Msg::Discarded => state.go_on(now),
            Msg::CredentialsChanged { reply } => {
                state.publications.unmade.push(reply);
                state.make_presentations(context);
                Vec::new()
            }
            Msg::PresentationsMade(made) => {
                let effects = state.take_presentations(made, now);
                if !state.publications.unmade.is_empty() {
                    state.make_presentations(context);
                }
                effects
            }
            Msg::Wake => state.core.woken(now),
        };
        state.perform(context, effects);
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let published = state.args.writer.published();
        json!({"version": published.version.version_id, "waiting": state.core.waiting()})
    }
}

impl State {
    fn clocks(&self) -> Clocks {
        Clocks { running: self.started.elapsed(), wall: timestamp::unix_nanos(&wall_clock::now()) }
    }

    /// The entries of the settings, with the keys of tokens that the store has.
    fn managed(&self) -> ManagedEntries {
        let mut managed = self.args.managed.clone();
        if let Some(access) = &mut managed.access {
            access.keys = self.args.writer.access_keys().public();
        }
        managed
    }

    fn go_on(&mut self, now: Clocks) -> Vec<KeeperEffect<ChangeCaller>> {
        let last_version_at = self.args.writer.published().version.written_at;
        self.core.written(last_version_at, now)
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effects: Vec<KeeperEffect<ChangeCaller>>) {
        for effect in effects {
            match effect {
                KeeperEffect::Refuse(caller, refusal) => caller.refuse(refusal),
                KeeperEffect::Wake(pause) => drop(context.send_after(pause, Msg::Wake)),
                KeeperEffect::Write(changes) => self.write(context, changes),
            }
        }
    }

    /// Makes the presentations of the store's credentials, one set at a time.
    fn make_presentations(&mut self, context: &ActorContext<Msg>) {
        if std::mem::replace(&mut self.publications.is_making, true) {
            return;
        }
        self.publications.making = std::mem::take(&mut self.publications.unmade);
        let (writer, mailbox) = (Arc::clone(&self.args.writer), context.mailbox());
        context.spawn(async move {
            let published = writer.published();
            mailbox.send(Msg::PresentationsMade(writer.load_presentations(published.document.as_json()).await));
        });
    }

    fn take_presentations(
        &mut self,
        made: Result<Arc<PresentationSet>, DocumentError>,
        now: Clocks,
    ) -> Vec<KeeperEffect<ChangeCaller>> {
        self.publications.is_making = false;
        let callers = std::mem::take(&mut self.publications.making);
        match made {
            Ok(set) => {
                self.publications.made.extend(callers);
                let change = DocumentChange::Presentations(set.entries.clone());
                self.presentations = Some(set);
                self.core.submit_own(change, now)
            }
            Err(error) => {
                tracing::error!(%error, "the presentations of the credentials cannot be made");
                let refusal = refusal_of(&error);
                callers.into_iter().for_each(|caller| caller.send(Err(refusal.clone())));
                Vec::new()
            }
        }
    }

    /// Judges the changes in their order, and writes a version if one of them changes the document.
    fn write(&mut self, context: &ActorContext<Msg>, changes: Vec<WaitingChange<ChangeCaller>>) {
        let published = self.args.writer.published();
        let mut document = published.document.clone();
        let mut presentations = Arc::clone(published.presentations());
        let mut keys = WriteKeys::default();
        for WaitingChange { change, reply, .. } in changes {
            if matches!(change, DocumentChange::Presentations(_)) {
                presentations = self.presentations.take().unwrap_or(presentations);
                self.publications.writing.append(&mut self.publications.made);
            }
            let judged = apply(&change, &mut document, &published, self.args.hosts);
            keys.rotates_update |= judged.is_ok() && change == DocumentChange::UpdateKey;
            if let Some(reply) = reply {
                self.answers.push((reply, judged));
            }
        }
        // Other credentials behind equal links are a version too: indexers read them again after the resolution of one.
        let is_same = document == published.document
            && keys == WriteKeys::default()
            && presentations.source.digest() == published.version.presented;
        let is_unchanged = is_same && !published.is_outdated;
        let (writer, mailbox, count) = (Arc::clone(&self.args.writer), context.mailbox(), self.answers.len());
        context.spawn(async move {
            let started = Instant::now();
            let written = if is_unchanged {
                writer.serve(presentations).await
            } else {
                let mut written = writer.write(document.published_json(), Arc::clone(&presentations), keys).await;
                if matches!(written, Err(DocumentError::Bound)) {
                    // The document stays, and with it its links. Its newer form alone is nothing that a caller misses.
                    match writer.serve(presentations).await {
                        Err(error) => tracing::error!(%error, "presentations are not served"),
                        served if is_same => written = served,
                        Ok(_) => {}
                    }
                }
                metrics::record_document_version(count, started.elapsed(), written.is_ok());
                written
            };
            let is_unclear = matches!(written, Err(DocumentError::Store(_)));
            mailbox.send(Msg::Written(written));
            if is_unclear {
                // The commit may have happened all the same; its callers hear that nothing is published, then or later.
                while writer.discard_unserved().await.is_err() {
                    sleep(DISCARD_PAUSE).await;
                }
                mailbox.send(Msg::Discarded);
            }
        });
    }

    fn answer(&mut self, result: &Result<Arc<PublishedDocument>, DocumentError>) {
        if let Ok(published) = result {
            record_size(published);
        }
        let failure = result.as_ref().err().map(|error| {
            tracing::error!(%error, "no version of the document was written");
            refusal_of(error)
        });
        for caller in std::mem::take(&mut self.publications.writing) {
            caller.send(failure.clone().map_or(Ok(()), Err));
        }
        for (caller, judged) in std::mem::take(&mut self.answers) {
            match (result, &failure) {
                (Ok(published), _) => caller.answer(judged, published),
                (Err(_), Some(failure)) => caller.refuse(judged.err().unwrap_or_else(|| failure.clone())),
                (Err(_), None) => {}
            }
        }
    }
}

/// Records the size of a document, and warns of a log that is nearly full.
fn record_size(published: &PublishedDocument) {
    let (entries, fill) = (published.version.number, published.log_fill());
    metrics::record_document_size(entries, published.log_bytes(), fill);
    if fill >= WARNED_FILL {
        let bytes = published.log_bytes();
        tracing::warn!(
            entries,
            bytes,
            fill_percent = fill,
            "the log of the DID is nearly full: a DID cannot get another one"
        );
    }
}

/// Applies a change.
fn apply(
    change: &DocumentChange,
    document: &mut DidDocument,
    published: &PublishedDocument,
    hosts: HostPolicy,
) -> JudgedChange {
    match change {
        DocumentChange::Managed(entries) => *document = document.with_managed(entries),
        DocumentChange::Presentations(entries) => *document = document.with_presentations(entries),
        DocumentChange::Keys(change) => change.apply(document)?,
        DocumentChange::UpdateKey => {
            if published.did_log.is_none() {
                let message = "a DID of the method web has no log, and so no update key";
                return Err(Refusal::new(RefusalCode::InvalidState, message));
            }
        }
        DocumentChange::Service(change) => {
            if !published.bound_distance().admits(change) {
                let message = "the log of the DID is near its bound: deletions and changes of keys are left";
                return Err(Refusal::new(RefusalCode::InvalidState, message));
            }
            return change.apply(document, hosts).map(Some);
        }
    }
    Ok(None)
}

fn refusal_of(error: &DocumentError) -> Refusal {
    match error {
        DocumentError::Store(_) => {
            let message = "the store cannot be written now; nothing of the change is published";
            Refusal::not_ready(AgentPart::Store, message, 5)
        }
        DocumentError::Stopped(_) | DocumentError::Keys(_) => {
            Refusal::not_ready(AgentPart::Document, "the document could not be written; nothing is published", 5)
        }
        DocumentError::Bound => {
            Refusal::new(RefusalCode::InvalidState, "the log of the DID has reached its bound; nothing is published")
        }
        DocumentError::Entry(_) | DocumentError::Verification(_) | DocumentError::Presentation(_) => {
            Refusal::new(RefusalCode::Internal, "the changed document does not verify; nothing is published")
        }
    }
}
