//! The indexer's front end: the WebSockets `/v4/indexer/subscribe` and `/v4/verifiable-trust/subscribe`, and the reads beside
//! them.

mod rest;
mod run;
mod socket;

use std::{net::TcpListener, sync::Arc};

use axum::{Router, serve::ListenerExt};
use svc_indexer::{HubHandle, Indexer, Reader, TrustTopic};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use run::{IndexerSettings, run};

/// What the routes ask.
#[derive(Clone)]
pub struct Front {
    reader: Reader,
    hub: HubHandle,
    trust: HubHandle<TrustTopic>,
    places: Arc<Semaphore>,
    trust_places: Arc<Semaphore>,
    stopping: CancellationToken,
}

/// WebSockets at once of a stream, unless said otherwise. Neither takes the other's.
const MAX_CONNECTIONS: usize = 10_000;

impl Front {
    /// For one indexer.
    pub fn new(indexer: &Indexer) -> Self {
        let places = || Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Self {
            reader: indexer.reader.clone(),
            hub: indexer.hub.clone(),
            trust: indexer.trust_hub.clone(),
            places: places(),
            trust_places: places(),
            stopping: CancellationToken::new(),
        }
    }

    /// With another source of verdicts.
    pub fn with_trust(mut self, hub: HubHandle<TrustTopic>) -> Self {
        self.trust = hub;
        self
    }

    /// With another limit of WebSockets a stream.
    pub fn with_places(mut self, places: usize) -> Self {
        self.places = Arc::new(Semaphore::new(places));
        self.trust_places = Arc::new(Semaphore::new(places));
        self
    }
}

/// All routes.
pub fn router(front: Front) -> Router {
    rest::routes()
        .merge(socket::routes(&front))
        .fallback(rest::not_found)
        .method_not_allowed_fallback(rest::not_found)
        .with_state(front)
}

/// Serves the routes on a listener until the task ends, or until the front stops and what is open is done.
pub async fn serve(listener: TcpListener, front: Front) {
    let stopping = front.stopping.clone();
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            let served = axum::serve(listener, router(front)).with_graceful_shutdown(stopping.cancelled_owned());
            if let Err(error) = served.await {
                tracing::error!(%error, "the indexer's listener has ended");
            }
        }
        Err(error) => tracing::error!(%error, "the indexer's listener cannot be used"),
    }
}
