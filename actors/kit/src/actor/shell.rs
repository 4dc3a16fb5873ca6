//! The ractor actor around a behaviour: opens envelopes, records metrics and spans, and calls the handler.

use std::{marker::PhantomData, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use svc_otel::{metrics, trace};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{
    behaviour::{ActorBehaviour, ActorContext, Mailbox},
    envelope::{Envelope, QueuedMessage},
    handle::{Handle, RunningHandler},
    message::ActorMessage,
};

/// Bound of the items of outside streams (blocks, frames) that wait in one mailbox.
const STREAM_CAPACITY: usize = 256;

pub(crate) struct ActorShell<B>(PhantomData<B>);

impl<B> ActorShell<B> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

pub(crate) struct Incarnation<B: ActorBehaviour> {
    context: ActorContext<B::Msg>,
    state: B::State,
}

impl<B: ActorBehaviour> Drop for Incarnation<B> {
    fn drop(&mut self) {
        self.context.cancellation.cancel();
    }
}

impl<B: ActorBehaviour> Actor for ActorShell<B> {
    type Msg = Envelope<B::Msg>;
    type State = Incarnation<B>;
    type Arguments = (Handle<B::Msg>, Arc<B::Args>);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (handle, args): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let mailbox =
            Mailbox { actor: myself.clone(), stream_permits: Arc::new(Semaphore::new(STREAM_CAPACITY)), kind: B::KIND };
        let context =
            ActorContext { handle, mailbox, tasks: TaskTracker::new(), cancellation: CancellationToken::new() };
        let guard = context.cancellation.clone().drop_guard();
        let state = B::start(&context, &args).await?;
        guard.disarm();
        context.handle.0.install(myself);
        Ok(Incarnation { context, state })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        incarnation: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let QueuedMessage { body, origin, enqueued_at, deadline, permit } = match envelope {
            Envelope::Message(queued) => queued,
            Envelope::Observe(reply) => {
                let _ = reply.send(B::observe(&incarnation.state));
                return Ok(());
            }
            Envelope::TaskPanicked(text) => return Err(format!("a task panicked: {text}").into()),
        };
        drop(permit);
        let (taken, message) = (Instant::now(), body.name());
        let waited = taken.duration_since(enqueued_at);
        metrics::record_message_wait(B::KIND, waited);
        if deadline.is_some_and(|deadline| deadline <= taken) {
            metrics::record_message_duration(B::KIND, message, "expired", std::time::Duration::ZERO);
            return Ok(());
        }
        let span = trace::message_span(B::KIND, message, waited, &origin);
        incarnation.context.handle.0.set_running_handler(Some(RunningHandler { since: taken, message }));
        let handled = B::handle(&incarnation.context, body, &mut incarnation.state);
        let outcome = trace::run_in_call(origin.call, handled).instrument(span).await;
        incarnation.context.handle.0.set_running_handler(None);
        let label = if outcome.is_ok() { "ok" } else { "failure" };
        metrics::record_message_duration(incarnation.context.handle.0.kind(), message, label, taken.elapsed());
        Ok(outcome?)
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, incarnation: &mut Self::State) -> Result<(), ActorProcessingErr> {
        incarnation.context.cancellation.cancel();
        Ok(())
    }
}
