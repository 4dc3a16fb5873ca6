//! The block subscription's front end: the WebSocket `/v4/indexer/subscribe` and the reads beside it.

mod rest;
mod socket;

use std::{net::TcpListener, sync::Arc};

use axum::{Router, serve::ListenerExt};
use svc_indexer::{HubHandle, Reader};
use tokio::sync::Semaphore;

/// What the routes ask.
#[derive(Clone)]
pub(crate) struct Front {
    reader: Reader,
    hub: HubHandle,
    places: Arc<Semaphore>,
}

/// WebSockets at once.
const MAX_CONNECTIONS: usize = 10_000;

/// All routes.
pub fn router(reader: Reader, hub: HubHandle) -> Router {
    let front = Front { reader, hub, places: Arc::new(Semaphore::new(MAX_CONNECTIONS)) };
    rest::routes()
        .merge(socket::routes())
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::not_found)
        .with_state(front)
}

/// Serves the routes on a listener until the task ends.
pub async fn serve(listener: TcpListener, router: Router) {
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the indexer's listener has ended");
            }
        }
        Err(error) => tracing::error!(%error, "the indexer's listener cannot be used"),
    }
}
