//! The shell of the access granter.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};

use super::{
    GranterParts, Msg,
    core::{RequestRates, SweepCause, SweepTimes},
    revoked_list::RevokedListCache,
    sweep::{SweepEnd, sweep},
};

/// Time between two comparisons of the numbers of changes.
const COMPARISON_INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of the granter.
pub(crate) struct Args {
    pub(super) parts: Arc<GranterParts>,
    pub(super) list: Arc<RevokedListCache>,
}

/// State of the granter.
pub(crate) struct State {
    args: Arc<Args>,
    rates: RequestRates,
    sweeps: SweepTimes,
    readings: u64,
}

/// The actor that grants access.
pub(crate) struct AccessGranter;

impl ActorBehaviour for AccessGranter {
    const KIND: &'static str = "access_granter";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        context.send_after(Duration::ZERO, Msg::SweepDue);
        let (rates, sweeps) = (RequestRates::default(), SweepTimes::default());
        Ok(State { args: Arc::clone(args), rates, sweeps, readings: 0 })
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::Judge { request, peer, is_trusted, reply } => {
                let owner = &state.args.parts.owner;
                // A peer that is not trusted is not counted: it could push others out of the memory.
                let too_early = is_trusted
                    .then(|| state.rates.take(&peer, owner.settings().rate_per_peer, Instant::now()))
                    .flatten();
                reply.send(owner.judge(&request, (&peer, is_trusted), too_early));
            }
            Msg::Reload { reply } => {
                let read = state.args.parts.owner.reload();
                match &read {
                    Ok(endpoints) => tracing::info!(endpoints, "the conditions of access were read"),
                    Err(error) => {
                        tracing::error!(%error, "ENDPOINT_ACCESS_FILE cannot be used; the old conditions stay")
                    }
                }
                state.readings += u64::from(read.is_ok());
                reply.send(read.map_err(|error| error.to_string()));
                state.sweep_if_due(context);
            }
            Msg::SweepDue => {
                state.sweep_if_due(context);
                context.send_after(COMPARISON_INTERVAL, Msg::SweepDue);
            }
            Msg::Swept(end) => state.sweeps.ended(matches!(end, SweepEnd::Complete)),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        json!({"readings": state.readings})
    }
}

impl State {
    fn sweep_if_due(&mut self, context: &ActorContext<Msg>) {
        let parts = &self.args.parts;
        let cause = SweepCause {
            document: parts.keeper.published().version.number,
            verdicts: parts.gate.forgotten(),
            readings: self.readings,
        };
        if !self.sweeps.begins(cause, Instant::now()) {
            return;
        }
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            mailbox.send(Msg::Swept(sweep(&args.parts, &args.list).await));
        });
    }
}
