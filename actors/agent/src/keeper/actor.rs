//! The shell of the document keeper.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort, wall_clock};
use svc_net::host_policy::HostPolicy;
use svc_otel::metrics;
use svc_wire::timestamp;
use tokio::time::sleep;

use super::{
    ChangeAnswer, Msg,
    core::{Clocks, DocumentChange, KeeperCore, KeeperEffect, WaitingChange},
    publication::{DocumentError, DocumentWriter, PublishedDocument},
};
use crate::{
    document::DidDocument,
    error::{AgentPart, Refusal, RefusalCode},
    resolution::ResolutionHandle,
    store_guard::StoreGuardHandle,
};

/// Pause between two attempts to remove a version that was not served.
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// Fill of a log, in percent of its bounds, from which on each version is a warning.
const WARNED_FILL: u64 = 80;

/// Arguments of the actor.
pub struct Args {
    pub(super) writer: Arc<DocumentWriter>,
    pub(super) admin_api: Option<String>,
    pub(super) hosts: HostPolicy,
    pub(super) guard: StoreGuardHandle,
    pub(super) resolution: ResolutionHandle,
}

/// State of the actor.
pub struct State {
    args: Arc<Args>,
    core: KeeperCore<ReplyPort<ChangeAnswer>>,
    started: Instant,
    /// Answers to the changes of the version that is being written.
    answers: Vec<(ReplyPort<ChangeAnswer>, ChangeAnswer)>,
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
        let mut state = State { args: Arc::clone(args), core, started: Instant::now(), answers: Vec::new() };
        let wanted = published.document.with_admin_api(args.admin_api.as_deref());
        if wanted != published.document {
            let change = DocumentChange::AdminApi(args.admin_api.clone());
            let effects = state.core.submit_own(change, state.clocks());
            state.perform(context, effects);
        }
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let now = state.clocks();
        let effects = match message {
            Msg::Change { change, reply } => {
                let published = state.args.writer.published();
                state.core.submit(change, reply, (&published.document, state.args.hosts), now)
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

    fn go_on(&mut self, now: Clocks) -> Vec<KeeperEffect<ReplyPort<ChangeAnswer>>> {
        let last_version_at = self.args.writer.published().version.written_at;
        self.core.written(last_version_at, now)
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effects: Vec<KeeperEffect<ReplyPort<ChangeAnswer>>>) {
        for effect in effects {
            match effect {
                KeeperEffect::Refuse(reply, refusal) => reply.send(Err(refusal)),
                KeeperEffect::Wake(pause) => drop(context.send_after(pause, Msg::Wake)),
                KeeperEffect::Write(changes) => self.write(context, changes),
            }
        }
    }

    /// Judges the changes in their order, and writes a version if one of them changes the document.
    fn write(&mut self, context: &ActorContext<Msg>, changes: Vec<WaitingChange<ReplyPort<ChangeAnswer>>>) {
        let published = self.args.writer.published();
        let mut document = published.document.clone();
        for WaitingChange { change, reply, .. } in changes {
            let answer = apply(&change, &mut document, &published, self.args.hosts);
            if let (Some(reply), Some(answer)) = (reply, answer) {
                self.answers.push((reply, answer));
            }
        }
        let mailbox = context.mailbox();
        if document == published.document {
            mailbox.send(Msg::Written(Ok(published)));
            return;
        }
        let (writer, count) = (Arc::clone(&self.args.writer), self.answers.len());
        context.spawn(async move {
            let started = Instant::now();
            let written = writer.write(document.as_json().clone()).await;
            metrics::record_document_version(count, started.elapsed(), written.is_ok());
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
        for (reply, answer) in std::mem::take(&mut self.answers) {
            reply.send(match (&failure, answer) {
                (Some(failure), Ok(_)) => Err(failure.clone()),
                (_, answer) => answer,
            });
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

/// Applies a change; `None` for one without a caller.
fn apply(
    change: &DocumentChange,
    document: &mut DidDocument,
    published: &PublishedDocument,
    hosts: HostPolicy,
) -> Option<ChangeAnswer> {
    match change {
        DocumentChange::AdminApi(origin) => {
            *document = document.with_admin_api(origin.as_deref());
            None
        }
        DocumentChange::Service(change) => {
            if !published.bound_distance().admits(change) {
                let message = "the log of the DID is near its bound: deletions and changes of keys are left";
                return Some(Err(Refusal::new(RefusalCode::InvalidState, message)));
            }
            Some(change.apply(document, hosts))
        }
    }
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
        DocumentError::Entry(_) | DocumentError::Verification(_) => {
            Refusal::new(RefusalCode::Internal, "the changed document does not verify; nothing is published")
        }
    }
}
