//! (B) The tool server's front end: MCP over HTTP and stdio. It parses, asks the operator, shapes the answer, maps errors.

mod announce;
mod call;
mod caller;
mod catalog;
mod complete;
mod confirm;
#[cfg(feature = "conformance")]
mod conformance;
mod events;
mod handler;
mod http;
mod own;
mod prompts;
mod session;
mod sessions;
mod write;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU8, Ordering},
};

use svc_operator::Operator;
use svc_otel::metrics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use catalog::{Catalog, CatalogError, Pattern, SURFACES, Selection, Verdict, toolsets};
pub use http::{HttpServer, HttpServerConfig, ServeError};
pub use prompts::PromptError;
pub use session::Session;
pub use sessions::SessionLimits;

/// The front end's own data is not usable.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The tools.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The prompts.
    #[error(transparent)]
    Prompts(#[from] PromptError),
}

/// What the server as a whole is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not booted yet.
    Starting,
    /// Serving.
    Serving,
    /// Finishing what was begun.
    Draining,
}

/// What every session shares.
pub struct Front {
    pub(crate) operator: Operator,
    pub(crate) catalog: Catalog,
    prompts: prompts::Prompts,
    desk: confirm::Desk,
    seen: watch::Sender<announce::Seen>,
    readiness: AtomicU8,
    listeners: Mutex<Vec<announce::Listener>>,
    stop: CancellationToken,
}

impl Front {
    /// A front end over a booted operator. Tells clients of changes until it is stopped.
    pub fn new(operator: Operator, selection: &Selection) -> Result<Arc<Self>, FrontError> {
        let seen = watch::Sender::default();
        let front = Arc::new(Self {
            catalog: Catalog::build(operator.chain(), selection)?,
            prompts: prompts::Prompts::load()?,
            desk: confirm::Desk::new(),
            seen: seen.clone(),
            operator,
            readiness: AtomicU8::new(Readiness::Serving as u8),
            listeners: Mutex::default(),
            stop: CancellationToken::new(),
        });
        metrics::bootstrap_complete(true);
        front.count_tools();
        tokio::spawn(announce::watch(Arc::clone(&front), seen));
        Ok(front)
    }

    /// The operator behind it.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// What `/healthz` says.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            0 => Readiness::Starting,
            1 => Readiness::Serving,
            _ => Readiness::Draining,
        }
    }

    /// Takes no new work from now on.
    pub fn drain(&self) {
        self.readiness.store(Readiness::Draining as u8, Ordering::Release);
        metrics::bootstrap_complete(false);
        self.stop.cancel();
    }

    fn listeners<R>(&self, change: impl FnOnce(&mut Vec<announce::Listener>) -> R) -> R {
        change(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count_tools(&self) {
        for surface in SURFACES {
            let count = self.listed().filter(|entry| entry.surface() == surface).count();
            metrics::tools_advertised(surface, count);
        }
    }
}
