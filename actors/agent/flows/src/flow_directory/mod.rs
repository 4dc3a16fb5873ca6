//! The directory of flows: starts a session for a flow that is due, and ends it when nothing is left to be done. It also has the
//! participants read that registry events name, and now and then those of all flows that are under way.
//!
//! It owns the participants that are still to be read, and starts and ends the sessions of a [`SessionDirectory`]. When the directory
//! dies, the sessions go on; its next incarnation reads the due flows from the store, and all participants at the node.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use svc_agent_store::{AgentStoreError, WrittenFlow};
use svc_kit::{Handle, SessionDirectory, impl_actor_message, supervision::ChildSpec, wall_clock::now_millis};

pub use self::core::NamedParticipant;
use crate::flow_session::{self, FlowSessionHandle, FlowSteps};

/// Messages that may wait: events of one block, and one of each other kind.
const MAILBOX: usize = 4_096;

/// The flows behind the directory: their steps, and their reads.
pub trait FlowWork: FlowSteps {
    /// The flows that are due.
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<DueFlows, AgentStoreError>>;
    /// Has the flows that wait for people looked at: a grant may have changed.
    fn wake_waiting(&self) -> BoxFuture<'_, ()>;
    /// Counts the flows.
    fn measure(&self) -> BoxFuture<'_, ()>;
    /// Reads a participant at the node, and has its flows follow. False when it has to be read again: the node does not answer, or is behind
    /// the event that names the participant.
    fn follow_participant(&self, named: NamedParticipant) -> BoxFuture<'_, bool>;
    /// The participants of a part of the flows that have not ended, behind a flow: with the participants of our DID at the begin. Nothing
    /// when they cannot be read.
    fn participants<'a>(&'a self, after: Option<&'a str>, is_whole: bool) -> BoxFuture<'a, Option<ParticipantPage>>;
}

/// Flows that are due.
#[derive(Debug, Default)]
pub struct DueFlows {
    /// Their ids, that of the longest due first.
    pub ids: Vec<String>,
    /// The time at which the first of all is due, in milliseconds since the epoch.
    pub first_at: Option<i64>,
}

/// Participants that are to be read.
#[derive(Debug, Default)]
pub struct ParticipantPage {
    /// Their ids.
    pub ids: Vec<u64>,
    /// The flow to go on behind; none on the last page.
    pub next: Option<String>,
}

/// Messages of the directory.
pub(crate) enum Msg {
    /// A flow may be due.
    Wake,
    /// A flow has changed.
    Changed(Vec<String>),
    /// A flow is due at a time, in milliseconds since the epoch.
    DueAt(i64),
    /// A session has nothing to do, behind a number of wakes.
    SessionIdle(Arc<str>, u64),
    /// Registry events name participants.
    Participants(Vec<NamedParticipant>),
    /// The pause is over behind which some of them are read again.
    ReadAgain,
    /// The participants of all flows are to be read.
    ReadAll,
    /// The participants of those under way are to be read.
    ReadUnfinished,
    /// The flows that wait for people are to be looked at.
    WakeWaiting,
    /// The flows are counted.
    Measure,
    /// A reading of participants has ended.
    Read(core::ReadEnd),
}

impl_actor_message!(Msg {
    Wake,
    Changed,
    DueAt,
    SessionIdle,
    Participants,
    ReadAgain,
    ReadAll,
    ReadUnfinished,
    WakeWaiting,
    Measure,
    Read,
});

/// The sessions, and the address of the directory.
#[derive(Clone)]
pub struct FlowDirectory {
    actor: Handle<Msg>,
    sessions: SessionDirectory<Arc<str>, FlowSessionHandle>,
}

impl FlowDirectory {
    /// A directory without sessions.
    pub fn new(max_sessions: usize) -> Self {
        let actor = Handle::new("flow_directory", "flow_directory", MAILBOX);
        Self { actor, sessions: SessionDirectory::new("flow_sessions", max_sessions) }
    }

    /// The child specifications that start the supervisor of the sessions and the actor.
    pub fn child_specs(&self, work: Arc<dyn FlowWork>) -> [ChildSpec; 2] {
        let args = actor::Args { work, directory: self.clone() };
        [self.sessions.child_spec(), ChildSpec::worker::<actor::FlowDirectoryActor>(&self.actor, args)]
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.sessions.session_count()
    }

    /// Whether another session may run.
    fn has_place(&self) -> bool {
        self.sessions.has_place()
    }

    /// Wakes the session of a flow. False when it does not run.
    fn wake_running(&self, flow_id: &str) -> bool {
        let Some(session) = self.sessions.running(flow_id) else { return false };
        session.wake(session.number());
        true
    }

    /// Starts the session of a flow.
    async fn start(&self, flow_id: &str, work: &Arc<dyn FlowWork>) {
        let flow_id: Arc<str> = flow_id.into();
        let describe = || {
            let session = FlowSessionHandle::new(&flow_id);
            let steps = Arc::clone(work) as Arc<dyn FlowSteps>;
            let child = session.child_spec(flow_session::Args { flow_id: Arc::clone(&flow_id), steps });
            (session, child)
        };
        if let Err(error) = self.sessions.session(Arc::clone(&flow_id), describe).await {
            tracing::warn!(%error, "the session of a flow cannot be started");
        }
    }

    /// Ends the session of a flow, unless it was woken since.
    async fn end(&self, flow_id: &str, wakes: u64) {
        self.sessions.end_at_rest(flow_id, wakes).await;
    }

    /// Tells of flows that were changed by a message or a call. One with a step is taken at once, one that waits for people in its time.
    pub fn flows_changed(&self, flows: &[WrittenFlow]) {
        let (now, mut changed) = (now_millis(), Vec::new());
        for flow in flows {
            match flow.due_at {
                Some(at) if at <= now => changed.push(flow.record.id.clone()),
                Some(at) => self.due_at(at),
                None => {}
            }
        }
        if !changed.is_empty() {
            self.actor.notify(Msg::Changed(changed));
        }
    }

    /// Tells of a flow that is due at a time, in milliseconds since the epoch.
    pub fn due_at(&self, at: i64) {
        self.actor.notify(Msg::DueAt(at));
    }

    /// Tells of participants that registry events name.
    pub fn participants_changed(&self, named: Vec<NamedParticipant>) {
        if !named.is_empty() {
            self.actor.notify(Msg::Participants(named));
        }
    }

    /// Tells of grants that registry events name.
    pub fn grants_changed(&self) {
        self.actor.notify(Msg::WakeWaiting);
    }

    /// Has the participants of all flows read: events may have been missed.
    pub fn read_all(&self) {
        self.actor.notify(Msg::ReadAll);
    }

    /// Tells of a session that has nothing to do.
    pub fn session_is_at_rest(&self, flow_id: &Arc<str>, wakes: u64) {
        self.actor.notify(Msg::SessionIdle(Arc::clone(flow_id), wakes));
    }
}
