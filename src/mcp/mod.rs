//! (B) The tool server's front end: MCP over HTTP and stdio. It parses, asks the operator, shapes the answer, maps errors.

mod call;
mod catalog;
mod handler;
mod http;
mod own;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU8, Ordering},
};

use svc_operator::Operator;
use svc_otel::metrics;
use tokio_util::sync::CancellationToken;

pub use catalog::{Catalog, CatalogError};
pub use handler::Session;
pub use http::{HttpServer, HttpServerConfig, ServeError};

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
    readiness: AtomicU8,
    listeners: Mutex<Vec<handler::Listener>>,
    stop: CancellationToken,
}

impl Front {
    /// A front end over a booted operator. Tells clients of changes until it is stopped.
    pub fn new(operator: Operator) -> Result<Arc<Self>, CatalogError> {
        let front = Arc::new(Self {
            catalog: Catalog::build(operator.chain())?,
            operator,
            readiness: AtomicU8::new(Readiness::Serving as u8),
            listeners: Mutex::default(),
            stop: CancellationToken::new(),
        });
        metrics::bootstrap_complete(true);
        front.count_tools();
        tokio::spawn(handler::announce_changes(Arc::clone(&front)));
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

    fn listeners<R>(&self, change: impl FnOnce(&mut Vec<handler::Listener>) -> R) -> R {
        change(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count_tools(&self) {
        for surface in ["ledger", "idx", "graph", "vsa", "cosmos", "wallet"] {
            let count = self.listed().filter(|entry| entry.surface() == surface).count();
            metrics::tools_advertised(surface, count);
        }
    }
}
