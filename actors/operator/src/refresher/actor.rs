//! The actor around the order of reads.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort};
use svc_otel::metrics;
use tokio::task::AbortHandle;

use super::{Args, Msg, RefreshTrigger, core::RefreshQueue, snapshot_reader::read_snapshot};
use crate::snapshot::CorporationSnapshot;

/// Longest wait until the node is asked again about an allowance that is not known. Until it answers nothing is signed.
const RETRY_PERIOD: Duration = Duration::from_secs(5);

/// State of a refresher.
pub struct State {
    args: Arc<Args>,
    queue: RefreshQueue<ReplyPort<bool>>,
    last_error: Option<String>,
    period_timer: Option<AbortHandle>,
}

/// The actor that reads snapshots.
pub struct Refresher;

impl ActorBehaviour for Refresher {
    const KIND: &'static str = "refresher";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::Refresh { trigger: RefreshTrigger::Period });
        Ok(State { args: Arc::clone(args), queue: RefreshQueue::default(), last_error: None, period_timer: None })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::Refresh { trigger } => state.request(context, trigger, None),
            Msg::RefreshAndReply { trigger, reply } => state.request(context, trigger, Some(reply)),
            Msg::ReadFinished { outcome } => state.finish_read(context, *outcome),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({
            "refreshed_at": state.args.publisher.current().refreshed_at, "is_reading": state.queue.is_reading(),
            "last_error": state.last_error,
        })
    }
}

impl State {
    fn request(&mut self, context: &ActorContext<Msg>, trigger: RefreshTrigger, reply: Option<ReplyPort<bool>>) {
        if self.queue.request(trigger, reply) {
            self.start_read(context, trigger);
        }
    }

    fn start_read(&self, context: &ActorContext<Msg>, trigger: RefreshTrigger) {
        metrics::record_authz_cache_refresh(trigger.as_str());
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let outcome = read_snapshot(&args.sources, &args.publisher.current()).await;
            let outcome = Box::new(outcome.map_err(|error| error.to_string()));
            mailbox.send(Msg::ReadFinished { outcome });
        });
    }

    fn finish_read(&mut self, context: &ActorContext<Msg>, outcome: Result<CorporationSnapshot, String>) {
        let is_read = outcome.is_ok();
        match outcome {
            Ok(snapshot) => {
                metrics::record_authz_cache_size(snapshot.authorizations.len());
                let unknown = snapshot.allowance.unknown().map(ToString::to_string);
                if let Some(error) = &unknown {
                    tracing::warn!(error, "nothing is signed until the node says who pays");
                }
                if self.args.publisher.publish(snapshot) {
                    tracing::info!("the authorizations of the operator have changed");
                }
                self.args.agents.snapshot_changed();
                self.last_error = unknown;
            }
            Err(error) => {
                tracing::warn!(error, "the snapshot could not be read, the last one stays published");
                self.last_error = Some(error);
            }
        }
        let (served, next) = self.queue.finish();
        served.into_iter().for_each(|reply| reply.send(is_read));
        match next {
            Some(trigger) => self.start_read(context, trigger),
            None => {
                let is_payer_known = self.args.publisher.current().allowance.unknown().is_none();
                let period = if is_payer_known { self.args.period } else { self.args.period.min(RETRY_PERIOD) };
                let timer = context.send_after(period, Msg::Refresh { trigger: RefreshTrigger::Period });
                if let Some(earlier) = self.period_timer.replace(timer) {
                    earlier.abort();
                }
            }
        }
    }
}
