//! The actor that renews the lease.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure};
use svc_otel::metrics;

use super::{Args, Msg, StoreState, core::state_after};

/// Time between two renewals: a lease survives two failed ones.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);

/// The actor that looks after the store.
pub struct StoreGuard;

impl ActorBehaviour for StoreGuard {
    const KIND: &'static str = "store_guard";
    type Msg = Msg;
    type Args = Args;
    type State = Arc<Args>;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<Arc<Args>, ActorFailure> {
        context.send_after(RENEWAL_INTERVAL, Msg::Tick);
        Ok(Arc::clone(args))
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, args: &mut Arc<Args>) -> Result<(), ActorFailure> {
        match message {
            Msg::Tick => {
                renew_lease(context, args);
                context.send_after(RENEWAL_INTERVAL, Msg::Tick);
            }
            Msg::RenewLease => renew_lease(context, args),
            Msg::LeaseRenewed(renewed) => {
                metrics::record_agent_store(renewed.is_ok());
                let state = state_after(renewed);
                args.state.with(|known| {
                    if *known != state {
                        tracing::warn!(?state, "the state of the store has changed");
                    }
                    known.clone_from(&state);
                });
                if state == StoreState::Lost {
                    args.lost.cancel();
                }
            }
        }
        Ok(())
    }

    fn observe(args: &Arc<Args>) -> Value {
        json!({"state": args.state.with(|state| format!("{state:?}"))})
    }
}

fn renew_lease(context: &ActorContext<Msg>, args: &Args) {
    let (store, mailbox) = (args.store.clone(), context.mailbox());
    context.spawn(async move {
        let renewed = store.renew().await;
        mailbox.send(Msg::LeaseRenewed(renewed));
    });
}
