//! The ractor actor around a behaviour: opens envelopes, measures, traces, and hands the message over.

use std::{marker::PhantomData, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use svc_otel::{metrics, trace};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument;

use super::{
    behaviour::{Behaviour, Context, Intent, Mailbox},
    envelope::{Envelope, Letter},
    handle::Handle,
};

/// Items of outside streams (blocks, frames) that may wait in one mailbox.
const STREAM_ROOM: usize = 256;

pub(crate) struct Shell<B>(PhantomData<B>);

impl<B> Shell<B> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

pub(crate) struct Incarnation<B: Behaviour> {
    context: Context<B::Msg>,
    state: B::State,
}

impl<B: Behaviour> Drop for Incarnation<B> {
    fn drop(&mut self) {
        self.context.ended.cancel();
    }
}

impl<B: Behaviour> Actor for Shell<B> {
    type Msg = Envelope<B::Msg>;
    type State = Incarnation<B>;
    type Arguments = (Handle<B::Msg>, Arc<B::Args>);

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (handle, args): Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        let mailbox = Mailbox { actor: myself.clone(), room: Arc::new(Semaphore::new(STREAM_ROOM)), kind: B::KIND };
        let context = Context { handle, mailbox, tasks: TaskTracker::new(), ended: CancellationToken::new() };
        let guard = context.ended.clone().drop_guard();
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
        let Letter { body, origin, enqueued, deadline, room } = match envelope {
            Envelope::Letter(letter) => letter,
            Envelope::Observe(reply) => {
                let _ = reply.send(B::observe(&incarnation.state));
                return Ok(());
            }
        };
        drop(room);
        let (taken, message) = (Instant::now(), body.name());
        let waited = taken.duration_since(enqueued);
        metrics::message_wait(B::KIND, waited);
        if deadline.is_some_and(|deadline| deadline <= taken) {
            metrics::message_duration(B::KIND, message, "expired", std::time::Duration::ZERO);
            return Ok(());
        }
        let span = trace::message_span(B::KIND, message, waited, &origin);
        incarnation.context.handle.0.set_busy(Some((taken, message)));
        let handled = B::handle(&incarnation.context, body, &mut incarnation.state);
        let outcome = trace::within(origin.call, handled).instrument(span).await;
        incarnation.context.handle.0.set_busy(None);
        let label = if outcome.is_ok() { "ok" } else { "failure" };
        metrics::message_duration(incarnation.context.handle.0.kind(), message, label, taken.elapsed());
        Ok(outcome?)
    }

    async fn post_stop(&self, _: ActorRef<Self::Msg>, incarnation: &mut Self::State) -> Result<(), ActorProcessingErr> {
        incarnation.context.ended.cancel();
        Ok(())
    }
}
