//! The shell of the chain link.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, backoff::Backoff, supervision::SupervisorError};
use svc_pipeline::{Pipeline, PipelineConfig, PipelineParts, ReleaseWatch};

use super::{Args, ChainAccess, ChainError, ChainLinkState, Msg, OwnWrites, discovery, discovery::FoundChain};

/// State of the link.
pub struct State {
    args: Arc<Args>,
    failures: u32,
}

/// The actor that finds the chain.
pub struct ChainLink;

impl ActorBehaviour for ChainLink {
    const KIND: &'static str = "chain_link";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<State, ActorFailure> {
        let state = State { args: Arc::clone(args), failures: 0 };
        if args.link.access().is_none() {
            state.search(context);
        }
        Ok(state)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, state: &mut State) -> Result<(), ActorFailure> {
        match message {
            Msg::Retry => state.search(context),
            Msg::Attempted(Ok(found)) => state.use_chain(*found).await,
            Msg::Attempted(Err(error)) if error.is_passing() => {
                tracing::warn!(%error, "the chain is not found yet");
                state.args.link.set(ChainLinkState::Unreachable(error.to_string()));
                let pause = Backoff::CONNECTION.delay(state.failures, fastrand::f64());
                state.failures = state.failures.saturating_add(1);
                context.send_after(pause, Msg::Retry);
            }
            Msg::Attempted(Err(error)) => state.args.link.refuse(error),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let found = state.args.link.access().map(|access| access.chain.params.chain_id);
        json!({"chain_id": found, "failures": state.failures})
    }
}

impl State {
    fn search(&self, context: &ActorContext<Msg>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let key = args.key.lock().await;
            let Some(key) = key.as_ref() else { return };
            let found: Result<FoundChain, ChainError> =
                discovery::search(&args.config, key, (&args.store, &args.did)).await;
            mailbox.send(Msg::Attempted(found.map(Box::new)));
        });
    }

    /// Makes the pipeline, and starts it with everything else that needs the chain.
    async fn use_chain(&self, found: FoundChain) {
        let args = Arc::clone(&self.args);
        let Some(key) = args.key.lock().await.take() else { return };
        let FoundChain { chain, identity, node, head, recovered, made_at } = found;
        tracing::info!(
            address = %identity.address, chain_id = chain.params.chain_id, denom = chain.params.denom,
            namespace = %chain.registry.namespace(), "the agent's account is derived"
        );
        let account = identity.address.to_string();
        let config = PipelineConfig {
            release: ReleaseWatch::new(&chain, node.origin()),
            prices: chain.prices.clone(),
            tx_timeout: args.config.tx_timeout,
            gas_adjustment: args.config.gas_adjustment,
            journal: args.config.journal.clone(),
            ..PipelineConfig::new(chain.params.clone())
        };
        let PipelineParts { pipeline, mut children } = Pipeline::embed(config, key, identity, node, head, recovered);
        let access = ChainAccess { chain, pipeline, anchors: args.config.anchors };
        let journal = access.pipeline.journal().clone();
        let own_writes = OwnWrites { account, made_at, store: args.store.clone(), journal };
        children.extend(args.users.describe(&access, own_writes));
        args.link.set(ChainLinkState::Found(access.clone()));
        // The task outlives this incarnation: the children are described once.
        tokio::spawn(async move {
            for child in children {
                match args.supervisor.add(child).await {
                    Ok(_) => {}
                    // The agent is being stopped.
                    Err(SupervisorError::NotRunning(_)) => return,
                    Err(error) => return args.link.refuse(error.into()),
                }
            }
            access.pipeline.follow_recovered();
            args.users.started(&access);
        });
    }
}
