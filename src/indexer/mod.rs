//! The HTTP surface of the indexer: the reads as REST routes, and the WebSockets `/v4/indexer/subscribe` and
//! `/v4/verifiable-trust/subscribe`. Each route asks the indexer's reader or one of its hubs.

mod api;
mod rest;
mod websocket;

use std::net::TcpListener;

use axum::{Router, serve::ListenerExt};
use svc_wire::indexer_reads::ReadTableError;

pub use api::IndexerApi;

/// All routes.
pub fn router(api: IndexerApi) -> Result<Router, ReadTableError> {
    let routes = rest::routes()?
        .merge(websocket::routes(&api))
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::not_found)
        .with_state(api);
    Ok(routes)
}

/// Serves the routes on a listener until the task is aborted, or until the API is shut down and open requests have ended. Fails
/// at once when the embedded table of reads is unusable.
pub async fn serve(listener: TcpListener, api: IndexerApi) -> Result<(), ReadTableError> {
    let shutdown = api.shutdown_token();
    let routes = router(api)?;
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            let served = axum::serve(listener, routes).with_graceful_shutdown(shutdown.cancelled_owned());
            if let Err(error) = served.await {
                tracing::error!(%error, "the indexer's listener has ended");
            }
        }
        Err(error) => tracing::error!(%error, "the indexer's listener cannot be used"),
    }
    Ok(())
}
