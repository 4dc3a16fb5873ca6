//! `svc indexer`: the indexer, configured by the environment.

use std::time::Duration;

use anyhow::Context;
use svc_indexer::Indexer;

use crate::{
    config::IndexerServerConfig,
    indexer::{IndexerApi, serve},
    listener::bind_listener,
    shutdown::stop_signal,
};

/// Longest wait for open connections after a stop signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the indexer until a stop signal or until its supervisor gives up, then closes every connection.
pub(super) async fn run(settings: IndexerServerConfig) -> anyhow::Result<()> {
    // The port is taken before the start of the indexer, so that a wrong port fails at once.
    let listener = bind_listener(settings.listen).with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let rpc = settings.indexer.rpc.clone();
    let indexer = tokio::select! {
        launched = Indexer::launch(settings.indexer) => launched?,
        () = stop_signal()? => return Ok(()),
    };
    let api = IndexerApi::new(&indexer);
    let shutdown = api.shutdown_token();
    let serving = tokio::spawn(serve(listener, api));
    tracing::info!(%address, %rpc, "serving reads and the block subscription");
    let end_reason = tokio::select! {
        () = stop_signal()? => None,
        reason = indexer.supervisor.wait_until_ended() => Some(reason),
    };
    shutdown.cancel();
    let abort = serving.abort_handle();
    if tokio::time::timeout(DRAIN_TIMEOUT, serving).await.is_err() {
        abort.abort();
    }
    indexer.shutdown(DRAIN_TIMEOUT).await;
    tracing::info!("stopped");
    match end_reason {
        Some(reason) => anyhow::bail!("the indexer has given up: {reason}"),
        None => Ok(()),
    }
}
