//! The metric and the log line of refusals.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use svc_otel::metrics;
use tokio::time::Instant;

use super::{log_fold::LogFold, refusal::Refusal, settings::LimitNames};

/// Counts the refusals of one listener and logs them, folded.
#[derive(Debug)]
pub(super) struct RefusalLog {
    listener: &'static str,
    names: LimitNames,
    folds: Mutex<HashMap<Refusal, LogFold>>,
}

impl RefusalLog {
    pub fn new(listener: &'static str, names: LimitNames) -> Self {
        Self { listener, names, folds: Mutex::default() }
    }

    pub fn record(&self, refusal: Refusal, peer: Option<SocketAddr>, detail: &str) {
        metrics::record_http_refused(self.listener, refusal.as_str());
        // An idle connection that ends is no event.
        if refusal == Refusal::Idle {
            return;
        }
        let due = {
            let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
            folds.entry(refusal).or_default().record(Instant::now())
        };
        if let Some(count) = due {
            let peer = peer.map(|peer| peer.ip().to_string()).unwrap_or_default();
            tracing::warn!(
                component = "http",
                listener = self.listener,
                reason = refusal.as_str(),
                count,
                newest_address = peer,
                detail,
                setting = refusal.setting(&self.names),
                "connections or requests refused; the count is since the last such line"
            );
        }
    }
}
