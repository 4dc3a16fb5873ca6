//! The HTTP surface of the indexer: the reads as REST routes, and the WebSockets `/v4/indexer/subscribe` and
//! `/v4/verifiable-trust/subscribe`. Each route asks the indexer's reader or one of its hubs.

mod api;
mod rest;
mod websocket;

use std::net::TcpListener;

use axum::Router;
use svc_wire::indexer_reads::ReadTableError;
use tokio_util::task::AbortOnDropHandle;

pub use api::IndexerApi;

use crate::listener::{self, ListenerConfig};

/// All routes.
pub fn router(api: IndexerApi, config: &ListenerConfig) -> Result<Router, ReadTableError> {
    let routes = config
        .with_metrics(rest::routes()?)
        .merge(websocket::routes(&api))
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::not_found)
        .with_state(api);
    Ok(routes)
}

/// Serves the routes on a listener until the task is aborted, or until the API is shut down and open requests have ended. Fails
/// at once when the embedded table of reads is unusable.
pub async fn serve(socket: TcpListener, api: IndexerApi, config: ListenerConfig) -> Result<(), ReadTableError> {
    let shutdown = api.shutdown_token();
    let routes = router(api, &config)?;
    match listener::serve("indexer", socket, routes, &config, shutdown) {
        // The task ends with this one.
        Ok(serving) => drop(AbortOnDropHandle::new(serving).await),
        Err(error) => tracing::error!(%error, "the indexer's listener cannot be used"),
    }
    Ok(())
}
