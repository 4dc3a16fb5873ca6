//! The web server of all services: static pages on loopback, and inboxes for messages.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svc_net::listener::{HttpListener, ListenerSettings, TowerService};
use tokio::{runtime::Runtime, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::error::ServicesError;

/// Content type of JSON documents.
pub const JSON_CONTENT_TYPE: &str = "application/json";
/// Content type of did:webvh logs.
pub const DID_LOG_CONTENT_TYPE: &str = "text/jsonl";

/// Content types of messages that the registry's first agents take. They refuse the one of the standard.
const MESSAGE_CONTENT_TYPES: [&str; 2] = ["application/ssi-agent-wire", "application/didcomm-envelope-enc"];
/// Messages that an inbox keeps until they are read.
const INBOX_SIZE: usize = 64;

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPage {
    /// Content type.
    pub content_type: String,
    /// Body.
    pub body: String,
}

/// Answers of the server since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageAnswers {
    /// Pages that were sent.
    pub sent: u64,
    /// Answers that the client's copy is still the page (304).
    pub not_modified: u64,
    /// Answers with the status of a refusal.
    pub refused: u64,
}

/// Pages by path. Clones share the pages.
#[derive(Debug, Clone, Default)]
pub(super) struct PageStore {
    pages: Arc<RwLock<BTreeMap<String, StaticPage>>>,
    answers: Arc<Mutex<PageAnswers>>,
    inboxes: Arc<RwLock<BTreeMap<String, mpsc::Sender<Bytes>>>>,
    /// Beginnings of paths that are answered with a status.
    refusals: Arc<RwLock<BTreeMap<String, StatusCode>>>,
}

impl PageStore {
    pub fn new(pages: BTreeMap<String, StaticPage>) -> Self {
        Self { pages: Arc::new(RwLock::new(pages)), ..Self::default() }
    }

    pub fn answers(&self) -> PageAnswers {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, count: impl FnOnce(&mut PageAnswers)) {
        count(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn get(&self, path: &str) -> Option<StaticPage> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    pub fn put(&self, path: String, content_type: &str, body: String) {
        let page = StaticPage { content_type: content_type.to_owned(), body };
        self.pages.write().unwrap_or_else(PoisonError::into_inner).insert(path, page);
    }

    pub fn open_inbox(&self, path: String) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(INBOX_SIZE);
        self.inboxes.write().unwrap_or_else(PoisonError::into_inner).insert(path, sender);
        receiver
    }

    fn inbox(&self, path: &str) -> Option<mpsc::Sender<Bytes>> {
        self.inboxes.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    pub fn remove(&self, path: &str) {
        self.pages.write().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    pub fn refuse(&self, beginning: &str, status: Option<StatusCode>) {
        let mut refusals = self.refusals.write().unwrap_or_else(PoisonError::into_inner);
        match status {
            Some(status) => refusals.insert(beginning.to_owned(), status),
            None => refusals.remove(beginning),
        };
    }

    fn refusal(&self, path: &str) -> Option<StatusCode> {
        let refusals = self.refusals.read().unwrap_or_else(PoisonError::into_inner);
        refusals.iter().find(|(beginning, _)| path.starts_with(beginning.as_str())).map(|(_, status)| *status)
    }

    pub fn all(&self) -> BTreeMap<String, StaticPage> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A running server. It has a runtime of its own, so that its port is free as soon as it is dropped.
pub(super) struct PageServer {
    pub address: SocketAddr,
    pub pages: PageStore,
    runtime: Option<Runtime>,
}

impl PageServer {
    /// Starts the server; port 0 takes a free one.
    pub fn start(listen: SocketAddr, pages: PageStore) -> Result<Self, ServicesError> {
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
            let router = Router::new().fallback(get(serve_page).post(take_message)).with_state(served);
            match HttpListener::tcp("services", listener, ListenerSettings::for_one_machine()) {
                Ok(listener) => listener.serve(TowerService::new(router), CancellationToken::new()).await,
                Err(error) => {
                    tracing::error!(component = "devnet.services", %error, "the listener of the services cannot be used");
                }
            }
        });
        Ok(Self { address, pages, runtime: Some(runtime) })
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            svc_kit::runtime::shut_down(runtime);
        }
    }
}

/// A page has an entity tag, as on most web servers.
async fn serve_page(State(pages): State<PageStore>, request: Request) -> Response {
    if let Some(status) = pages.refusal(request.uri().path()) {
        pages.count(|answers| answers.refused += 1);
        return status.into_response();
    }
    let Some(page) = pages.get(request.uri().path()) else { return StatusCode::NOT_FOUND.into_response() };
    let tag = format!("\"{}\"", hex::encode(&Sha256::digest(&page.body)[..8]));
    let is_known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    // A replaced page must be visible at once.
    let headers = [(header::CACHE_CONTROL, "no-cache".to_owned()), (header::ETAG, tag)];
    pages.count(|answers| *if is_known { &mut answers.not_modified } else { &mut answers.sent } += 1);
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(header::CONTENT_TYPE, page.content_type)], page.body).into_response()
}

/// Puts a message into its inbox.
async fn take_message(State(pages): State<PageStore>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(inbox) = pages.inbox(uri.path()) else { return StatusCode::NOT_FOUND };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| MESSAGE_CONTENT_TYPES.contains(&kind)) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    match inbox.try_send(body) {
        Ok(()) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}
