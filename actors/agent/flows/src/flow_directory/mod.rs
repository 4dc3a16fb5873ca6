//! The directory of flows: starts a session for a flow that is due, and ends it when nothing is left to be done. It also has the
//! participants read that registry events name, and now and then those of all flows that are under way.
//!
//! It owns the table of sessions and the participants that are still to be read. Sessions run under a supervisor of their own. When the
//! directory dies, the sessions go on; its next incarnation reads the due flows from the store, and all participants at the node.

mod actor;
mod reading;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use svc_agent_store::{AgentStoreError, WrittenFlow};
use svc_kit::{
    ActorMessage, Handle,
    supervision::{ChildSpec, Supervisor},
    wall_clock::now_millis,
};

pub use self::reading::NamedParticipant;
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
    AtRest(Arc<str>, u64),
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
    Read(reading::ReadEnd),
}

impl ActorMessage for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Changed(_) => "changed",
            Self::DueAt(_) => "due_at",
            Self::AtRest(..) => "at_rest",
            Self::Participants(_) => "participants",
            Self::ReadAgain => "read_again",
            Self::ReadAll => "read_all",
            Self::ReadUnfinished => "read_unfinished",
            Self::WakeWaiting => "wake_waiting",
            Self::Measure => "measure",
            Self::Read(_) => "read",
        }
    }
}

struct Entry {
    session: FlowSessionHandle,
    child: u64,
    /// Times that the session was woken.
    wakes: u64,
}

/// The sessions, and the address of the directory.
#[derive(Clone)]
pub struct FlowDirectory(Arc<Inner>);

struct Inner {
    actor: Handle<Msg>,
    sessions: Supervisor,
    table: Mutex<HashMap<Arc<str>, Entry>>,
    max_sessions: usize,
}

impl FlowDirectory {
    /// A directory whose sessions run under a supervisor.
    pub fn new(sessions: Supervisor, max_sessions: usize) -> Self {
        let actor = Handle::new("flow_directory", "flow_directory", MAILBOX);
        Self(Arc::new(Inner { actor, sessions, table: Mutex::default(), max_sessions }))
    }

    /// The child specification that starts the actor.
    pub fn child_spec(&self, work: Arc<dyn FlowWork>) -> ChildSpec {
        let args = actor::Args { work, directory: self.clone() };
        ChildSpec::worker::<actor::FlowDirectoryActor>(&self.0.actor, args)
    }

    fn with_table<T>(&self, change: impl FnOnce(&mut HashMap<Arc<str>, Entry>) -> T) -> T {
        change(&mut self.0.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sessions that run.
    pub fn session_count(&self) -> usize {
        self.with_table(|table| table.len())
    }

    /// Whether another session may run.
    fn has_place(&self) -> bool {
        self.session_count() < self.0.max_sessions
    }

    /// Wakes the session of a flow. False when it does not run.
    fn wake_running(&self, flow_id: &str) -> bool {
        self.with_table(|table| match table.get_mut(flow_id) {
            Some(entry) if entry.session.has_ended() => {
                table.remove(flow_id);
                false
            }
            Some(entry) => {
                entry.wakes += 1;
                entry.session.wake(entry.wakes);
                true
            }
            None => false,
        })
    }

    /// Starts the session of a flow.
    async fn start(&self, flow_id: &str, work: &Arc<dyn FlowWork>) {
        let flow_id: Arc<str> = flow_id.into();
        let session = FlowSessionHandle::new(&flow_id);
        let steps = Arc::clone(work) as Arc<dyn FlowSteps>;
        let args = flow_session::Args { flow_id: Arc::clone(&flow_id), steps };
        match self.0.sessions.add(session.child_spec(args)).await {
            Ok(child) => {
                self.with_table(|table| table.insert(flow_id, Entry { session, child, wakes: 0 }));
            }
            Err(error) => tracing::warn!(%error, "the session of a flow cannot be started"),
        }
    }

    /// Ends the session of a flow, unless it was woken since.
    async fn end(&self, flow_id: &str, wakes: u64) {
        let ended = self.with_table(|table| {
            let is_at_rest = table.get(flow_id).is_some_and(|entry| entry.wakes == wakes);
            if is_at_rest { table.remove(flow_id) } else { None }
        });
        if let Some(entry) = ended {
            // A supervisor that has ended has ended its sessions too.
            let _ = self.0.sessions.remove(entry.child).await;
        }
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
            self.0.actor.notify(Msg::Changed(changed));
        }
    }

    /// Tells of a flow that is due at a time, in milliseconds since the epoch.
    pub fn due_at(&self, at: i64) {
        self.0.actor.notify(Msg::DueAt(at));
    }

    /// Tells of participants that registry events name.
    pub fn participants_changed(&self, named: Vec<NamedParticipant>) {
        if !named.is_empty() {
            self.0.actor.notify(Msg::Participants(named));
        }
    }

    /// Tells of grants that registry events name.
    pub fn grants_changed(&self) {
        self.0.actor.notify(Msg::WakeWaiting);
    }

    /// Has the participants of all flows read: events may have been missed.
    pub fn read_all(&self) {
        self.0.actor.notify(Msg::ReadAll);
    }

    /// Tells of a session that has nothing to do.
    pub fn session_is_at_rest(&self, flow_id: &Arc<str>, wakes: u64) {
        self.0.actor.notify(Msg::AtRest(Arc::clone(flow_id), wakes));
    }
}
