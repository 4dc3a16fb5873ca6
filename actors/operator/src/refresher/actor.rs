//! The actor that reads one snapshot at a time.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{Behaviour, Context, Failure, Handle, Intent, Reply};
use svc_otel::metrics;

use super::{
    Trigger,
    read::{Sources, read},
};
use crate::{
    agents,
    snapshot::{Board, Snapshot},
};

/// What the refresher is told.
pub enum Msg {
    /// Read again.
    Refresh(Trigger),
    /// Read again, and tell when it is published.
    RefreshAndTell(Trigger, Reply<bool>),
    /// A read has ended.
    Read(Box<Result<Snapshot, String>>),
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Refresh(_) => "refresh",
            Self::RefreshAndTell(..) => "refresh_and_tell",
            Self::Read(_) => "read",
        }
    }
}

/// What a refresher is made from.
pub struct Args {
    pub sources: Sources,
    pub board: Board,
    pub period: Duration,
    pub agents: Handle<agents::Msg>,
}

#[derive(Default)]
pub struct State {
    args: Option<Arc<Args>>,
    is_reading: bool,
    /// Asked for while a read was under way: that read may have begun too early for them.
    again: Option<Trigger>,
    now_waiting: Vec<Reply<bool>>,
    next_waiting: Vec<Reply<bool>>,
    last_error: Option<String>,
    alarm: Option<tokio::task::AbortHandle>,
}

pub struct Refresher;

impl Behaviour for Refresher {
    const KIND: &'static str = "refresher";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        context.mailbox().send(Msg::Refresh(Trigger::Period));
        Ok(State { args: Some(Arc::clone(args)), ..State::default() })
    }

    async fn handle(context: &Context<Msg>, message: Msg, state: &mut State) -> Result<(), Failure> {
        match message {
            Msg::Refresh(trigger) => state.begin(context, trigger, None),
            Msg::RefreshAndTell(trigger, reply) => state.begin(context, trigger, Some(reply)),
            Msg::Read(outcome) => state.end(context, *outcome),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let refreshed_at = state.args.as_ref().map(|args| args.board.current().refreshed_at.clone());
        json!({"refreshed_at": refreshed_at, "is_reading": state.is_reading, "last_error": state.last_error})
    }
}

impl State {
    fn begin(&mut self, context: &Context<Msg>, trigger: Trigger, reply: Option<Reply<bool>>) {
        let Some(args) = self.args.clone() else { return };
        if self.is_reading {
            self.again = Some(trigger);
            self.next_waiting.extend(reply);
            return;
        }
        self.is_reading = true;
        self.now_waiting.extend(reply);
        metrics::authz_cache_refresh(trigger.as_str());
        let mailbox = context.mailbox();
        context.spawn(async move {
            let outcome = read(&args.sources, &args.board.current()).await.map_err(|error| error.to_string());
            mailbox.send(Msg::Read(Box::new(outcome)));
        });
    }

    fn end(&mut self, context: &Context<Msg>, outcome: Result<Snapshot, String>) {
        let Some(args) = self.args.clone() else { return };
        self.is_reading = false;
        let is_read = outcome.is_ok();
        match outcome {
            Ok(snapshot) => {
                metrics::authz_cache_size(snapshot.authorizations.len());
                if args.board.publish(snapshot) {
                    tracing::info!("what the corporation grants has changed");
                }
                agents::notify(&args.agents);
                self.last_error = None;
            }
            Err(error) => {
                tracing::warn!(error, "the snapshot could not be read, the last one stays");
                self.last_error = Some(error);
            }
        }
        for reply in self.now_waiting.drain(..) {
            reply.send(is_read);
        }
        self.now_waiting = std::mem::take(&mut self.next_waiting);
        match self.again.take() {
            Some(trigger) => self.begin(context, trigger, None),
            None => {
                if let Some(alarm) = self.alarm.replace(context.after(args.period, Msg::Refresh(Trigger::Period))) {
                    alarm.abort();
                }
            }
        }
    }
}
