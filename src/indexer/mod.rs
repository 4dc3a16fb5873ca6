//! The HTTP surface of the indexer: the reads as REST routes, and the WebSockets `/v4/indexer/subscribe` and
//! `/v4/verifiable-trust/subscribe`. Each route asks the indexer's reader or one of its hubs.

mod api;
mod rest;
mod websocket;

use std::{net::TcpListener, time::Duration};

use axum::Router;
use http::{HeaderName, Method};
use svc_wire::indexer_reads::ReadTableError;
use tokio_util::task::AbortOnDropHandle;
use tower_http::cors::{Any, CorsLayer};

pub use api::IndexerApi;

use crate::listener::{self, ListenerConfig};

/// All routes.
pub fn router(api: IndexerApi, config: &ListenerConfig) -> Result<Router, ReadTableError> {
    let routes = rest::routes()?
        .merge(websocket::routes(&api))
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::not_found)
        .layer(cross_origin());
    Ok(config.with_metrics(routes).with_state(api))
}

/// Pages of every origin may read: the data is public, and no route looks at credentials. `/metrics` stands outside.
pub(crate) fn cross_origin() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(Any)
        .expose_headers(rest::ANSWER_HEADERS.map(HeaderName::from_static))
        .max_age(Duration::from_secs(24 * 3600))
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
