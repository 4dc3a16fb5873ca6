//! The shell of the courier.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bytes::Bytes;
use serde_json::{Value, json};
use svc_agent_store::OutboxEvent;
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, ReplyPort, wall_clock};
use svc_otel::metrics;

use super::{
    Args, Msg,
    core::{BATCH, CourierCore, CourierEffect, DeliveryResult},
    request::headers,
};

/// State of the courier.
pub struct State {
    args: Arc<Args>,
    core: CourierCore,
    /// Whether the last attempt failed.
    is_failing: bool,
    /// Where the end of the last delivery is waited for.
    finished: Vec<ReplyPort<bool>>,
}

/// The actor that delivers events.
pub struct Courier;

impl ActorBehaviour for Courier {
    const KIND: &'static str = "courier";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.mailbox().send(Msg::Stored);
        let mut core = CourierCore::new(args.config.min_backoff);
        if args.is_ending.load(Ordering::Acquire) {
            core.finish();
        }
        Ok(State { args: Arc::clone(args), core, is_failing: false, finished: Vec::new() })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        let effects = match message {
            Msg::Stored => state.core.stored(),
            Msg::Loaded(Ok(events)) => state.core.loaded(events),
            Msg::Loaded(Err(error)) => {
                tracing::warn!(%error, "the outbox cannot be read");
                state.core.load_failed()
            }
            Msg::Sent(result) => {
                metrics::record_webhook(result.status);
                state.note_result(&result);
                state.core.sent(&result, wall_clock::now().seconds, fastrand::f64())
            }
            Msg::Settled(settled) => {
                state.args.guard.note_result(&settled);
                if let Err(error) = &settled {
                    tracing::warn!(%error, "deliveries cannot be settled; they may be repeated");
                }
                state.core.settled(settled.is_ok())
            }
            Msg::Wake => state.core.woken(),
            Msg::SettleAgain => state.core.settle_again(),
            Msg::Finish(reply) => {
                state.finished.push(reply);
                state.core.finish()
            }
        };
        for effect in effects {
            state.perform(context, effect);
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"queued": state.core.queued()})
    }
}

impl State {
    /// Logs that the receiver begins to fail, and that it works again.
    fn note_result(&mut self, result: &DeliveryResult) {
        let has_failed = !result.status.is_some_and(|status| (200..300).contains(&status));
        if has_failed && !self.is_failing {
            let (status, error) = (result.status, result.error.as_deref());
            tracing::warn!(status, error, "the webhook receiver does not take an event; it is sent again");
        } else if !has_failed && self.is_failing {
            tracing::info!("the webhook receiver takes events again");
        }
        self.is_failing = has_failed;
    }

    fn perform(&mut self, context: &ActorContext<Msg>, effect: CourierEffect) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        match effect {
            CourierEffect::Load(after) => drop(context.spawn(async move {
                let loaded = args.store.next_events(after, BATCH).await;
                mailbox.send(Msg::Loaded(loaded));
            })),
            CourierEffect::Send(event) => drop(context.spawn(async move {
                mailbox.send(Msg::Sent(send(&args, &event).await));
            })),
            CourierEffect::Settle(delivered, dead) => drop(context.spawn(async move {
                for letter in &dead {
                    let (id, status) = (&letter.event.id, letter.last_status);
                    tracing::warn!(id, status, error = letter.last_error, "an event is a dead letter now");
                }
                let settled = args.store.settle_events(&delivered, &dead).await;
                mailbox.send(Msg::Settled(settled));
            })),
            CourierEffect::Wake(pause) => drop(context.send_after(pause, Msg::Wake)),
            CourierEffect::SettleLater(pause) => drop(context.send_after(pause, Msg::SettleAgain)),
            CourierEffect::Finished(is_settled) => {
                for reply in self.finished.drain(..) {
                    reply.send(is_settled);
                }
            }
        }
    }
}

async fn send(args: &Args, event: &OutboxEvent) -> DeliveryResult {
    let (config, started) = (&args.config, Instant::now());
    let headers = headers(event, config.api_key.as_ref(), config.secrets.as_ref(), wall_clock::now().seconds);
    let sent = config.client.post(headers, Bytes::from(event.body.clone())).await;
    metrics::record_webhook_time(started.elapsed());
    match sent {
        Ok(answer) => DeliveryResult { status: Some(answer.status), error: None, retry_after: answer.retry_after },
        Err(error) => DeliveryResult { status: None, error: Some(error), retry_after: None },
    }
}
