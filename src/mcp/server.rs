//! The state that all sessions of a tool server share. The behaviours are in the files that implement them on it.

use svc_operator::Operator;
use svc_otel::metrics;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    call::ConfirmationStore,
    catalog::ToolCatalog,
    notifications::{SessionSubscribers, VisibleState},
    prompts::PromptCatalog,
};
use crate::tools::SURFACES;

/// A tool server, independent of its transport.
pub struct ToolServer {
    pub(super) operator: Operator,
    pub(super) catalog: ToolCatalog,
    pub(super) prompts: PromptCatalog,
    pub(super) confirmations: ConfirmationStore,
    pub(super) subscribers: SessionSubscribers,
    pub(super) visible_state: watch::Sender<VisibleState>,
    /// Changes when the rights of principals change, and with them their lists of tools.
    pub(super) rights: watch::Sender<u64>,
    /// Cancelled when the server drains.
    pub(super) shutdown: CancellationToken,
}

impl ToolServer {
    pub(super) fn new(
        operator: Operator,
        catalog: ToolCatalog,
        prompts: PromptCatalog,
        visible_state: watch::Sender<VisibleState>,
    ) -> Self {
        Self {
            operator,
            catalog,
            prompts,
            confirmations: ConfirmationStore::new(),
            subscribers: SessionSubscribers::default(),
            visible_state,
            rights: watch::Sender::new(0),
            shutdown: CancellationToken::new(),
        }
    }

    /// The operator behind the server.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Announces that the rights of some principals have changed: their lists of tools may have, and subscriptions without a session end,
    /// so that each client proves itself again.
    pub fn announce_rights(&self) {
        self.rights.send_modify(|version| *version += 1);
    }

    /// Refuses new calls from now on.
    pub fn drain(&self) {
        metrics::record_bootstrap(false);
        self.shutdown.cancel();
    }

    /// Whether the server refuses new calls.
    pub fn is_draining(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// Updates the metric of listed tools.
    pub(super) fn record_tool_counts(&self) {
        for surface in SURFACES {
            let count = self.listed_entries().filter(|entry| entry.surface() == surface).count();
            metrics::record_tools_advertised(surface, count);
        }
    }
}
