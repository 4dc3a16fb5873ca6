//! The session of one flow with work: the steps of this agent, one after the other.
//!
//! It owns the order of the steps, and stores nothing by itself: a step reads the flow in the store, acts at the node or at a peer, and
//! stores its outcome. The directory starts it when the flow is due, and ends it when nothing is left to be done. When it dies, the step
//! is taken again: each looks first for the traces of an earlier attempt.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use svc_kit::{
    Handle, Session, impl_actor_message,
    supervision::{ChildSpec, RestartMode},
};

/// Messages that may wait: one of a kind is enough.
const MAILBOX: usize = 16;

/// The end of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEnd {
    /// The flow has changed, and may have another step.
    Again,
    /// The step is taken again behind a pause.
    After(Duration),
    /// Nothing is to be done before a message, a call or an event.
    AtRest,
}

/// The steps of flows.
pub trait FlowSteps: Send + Sync + 'static {
    /// Takes the next step of a flow. `waited` is the time since the flow has last changed in this session.
    fn step<'a>(&'a self, flow_id: &'a str, waited: Duration) -> BoxFuture<'a, StepEnd>;
    /// A session has nothing to do. `wakes` is the number of the last wake that it has heard of.
    fn is_at_rest(&self, flow_id: &Arc<str>, wakes: u64);
}

/// Messages of a session.
pub(crate) enum Msg {
    /// The flow may have a step. Wakes are numbered by the directory; the first is that of the start.
    Wake(u64),
    /// A step has ended.
    Stepped(StepEnd),
    /// The pause behind a step is over, unless another step was taken since.
    PauseOver(u64),
}

impl_actor_message!(Msg { Wake, Stepped, PauseOver });

/// Arguments of a session.
pub(crate) struct Args {
    /// Id of the flow.
    pub flow_id: Arc<str>,
    /// The steps.
    pub steps: Arc<dyn FlowSteps>,
}

/// The address of a session.
#[derive(Clone)]
pub(crate) struct FlowSessionHandle(Handle<Msg>);

impl Session for FlowSessionHandle {
    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

impl FlowSessionHandle {
    /// The address of a session that is still to be started.
    pub fn new(flow_id: &str) -> Self {
        Self(Handle::new("flow_session", format!("flow_session/{flow_id}"), MAILBOX))
    }

    /// The child specification. A session that dies is started again while its flow is due.
    pub fn child_spec(&self, args: Args) -> ChildSpec {
        ChildSpec::worker::<actor::FlowSession>(&self.0, args).restart_mode(RestartMode::Temporary)
    }

    /// Tells of a change of the flow.
    pub fn wake(&self, number: u64) {
        self.0.notify(Msg::Wake(number));
    }
}
