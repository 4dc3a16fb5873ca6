//! The web server of all services: texts at paths, on loopback.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::ServicesError;

/// Type of JSON documents.
pub const JSON: &str = "application/json";
/// Type of logs.
pub const LOG: &str = "text/jsonl";

/// A text that is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// What it is.
    pub content_type: String,
    /// Its text.
    pub body: String,
}

/// Texts by path. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Arc<RwLock<BTreeMap<String, Page>>>);

impl Pages {
    pub fn new(pages: BTreeMap<String, Page>) -> Self {
        Self(Arc::new(RwLock::new(pages)))
    }

    pub fn get(&self, path: &str) -> Option<Page> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    pub fn put(&self, path: String, content_type: &str, body: String) {
        let page = Page { content_type: content_type.to_owned(), body };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(path, page);
    }

    pub fn remove(&self, path: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    pub fn all(&self) -> BTreeMap<String, Page> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A running server, on a runtime of its own: its port is free as soon as it is dropped.
pub(super) struct Host {
    pub address: SocketAddr,
    pub pages: Pages,
    runtime: Option<Runtime>,
}

impl Host {
    /// Serves pages; port 0 takes a free one.
    pub fn start(listen: SocketAddr, pages: Pages) -> Result<Self, ServicesError> {
        let failed = |cause| ServicesError::Listen { address: listen, cause };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("devnet-services")
            .enable_all()
            .build()
            .map_err(failed)?;
        let served = pages.clone();
        runtime.spawn(async move {
            let router = Router::new().fallback(get(serve)).with_state(served);
            let ended = match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => axum::serve(listener, router).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                tracing::error!(component = "devnet.services", %error, "the services are not served any more");
            }
        });
        Ok(Self { address, pages, runtime: Some(runtime) })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            svc_kit::runtime::end(runtime);
        }
    }
}

async fn serve(State(pages): State<Pages>, request: Request) -> Response {
    match pages.get(request.uri().path()) {
        // What is published anew is to be seen at once.
        Some(page) => {
            ([(header::CONTENT_TYPE, page.content_type), (header::CACHE_CONTROL, "no-cache".to_owned())], page.body)
                .into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
