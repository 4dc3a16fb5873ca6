//! `svc indexer`: the indexer from the environment.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use svc_indexer::{Indexer, IndexerConfig};

use crate::{process, serve::stop_signal};

/// Everything `svc indexer` needs.
#[derive(Debug)]
pub struct IndexerSettings {
    /// The indexer.
    pub indexer: IndexerConfig,
    /// Where it listens.
    pub listen: SocketAddr,
}

/// How long open connections get after a signal.
const DRAIN: Duration = Duration::from_secs(3);

/// Starts, serves until a signal or the end of the tree, closes every connection.
pub async fn run(settings: IndexerSettings) -> anyhow::Result<()> {
    // The port is taken first, so that a wrong port is told at once.
    let listener = process::bind(settings.listen).with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr()?;
    let rpc = settings.indexer.rpc.clone();
    let indexer = tokio::select! {
        launched = Indexer::launch(settings.indexer) => launched?,
        () = stop_signal()? => return Ok(()),
    };
    let front = super::Front::new(&indexer);
    let stopping = front.stopping.clone();
    let serving = tokio::spawn(super::serve(listener, front));
    tracing::info!(%address, %rpc, "serving reads and the block subscription");
    let given_up = tokio::select! {
        () = stop_signal()? => None,
        reason = indexer.supervisor.ended() => Some(reason),
    };
    stopping.cancel();
    // Subscribers are told; requests under way are answered.
    let abort = serving.abort_handle();
    if tokio::time::timeout(DRAIN, serving).await.is_err() {
        abort.abort();
    }
    indexer.shutdown(DRAIN).await;
    tracing::info!("stopped");
    match given_up {
        Some(reason) => anyhow::bail!("the indexer has given up: {reason}"),
        None => Ok(()),
    }
}
