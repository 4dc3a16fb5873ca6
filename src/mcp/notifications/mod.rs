//! Notifications of changes. One task watches the visible state and publishes it; each client compares the published state with
//! the one it was last notified of.

mod subscribers;
mod visible_state;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use rmcp::service::{SubscriptionContext, SubscriptionSendError};
use tokio::sync::watch;

use super::server::ToolServer;

pub use subscribers::{NOTIFY_TIMEOUT, SessionSubscribers};
pub use visible_state::VisibleState;

/// Time between looks at the changes without an event: the state of links, and the expiry of authorizations.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl ToolServer {
    fn current_state(&self) -> VisibleState {
        let mut hasher = DefaultHasher::new();
        self.listed_entries().for_each(|entry| entry.tool.name.hash(&mut hasher));
        self.rights.borrow().hash(&mut hasher);
        let links = self.operator.links();
        let (journal_entries, audit_records) = self.operator.record_counts();
        VisibleState {
            snapshot: *self.operator.snapshot_changes().borrow(),
            links,
            journal_entries,
            audit_records,
            approvals: self.confirmations.approvals.version(),
            tool_list_hash: hasher.finish(),
        }
    }
}

/// Publishes the visible state after each change and notifies the clients with sessions, until the server drains.
pub async fn watch_changes(server: Arc<ToolServer>, published: watch::Sender<VisibleState>) {
    let mut snapshot_changes = server.operator.snapshot_changes();
    let mut known = server.current_state();
    published.send_replace(known);
    loop {
        tokio::select! {
            () = server.shutdown.cancelled() => return,
            changed = snapshot_changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let next = server.current_state();
        if next == known {
            continue;
        }
        let is_tool_list_changed = known.tool_list_hash != next.tool_list_hash;
        let changed_resources = known.changed_resources(&next);
        known = next;
        published.send_replace(next);
        if is_tool_list_changed {
            server.record_tool_counts();
        }
        server.subscribers.notify(is_tool_list_changed, &changed_resources);
    }
}

/// Notifies one client of the protocol versions without sessions, for as long as its subscription request is open.
pub async fn serve_subscription(server: &ToolServer, context: &SubscriptionContext) {
    let mut states = server.visible_state.subscribe();
    let mut known = *states.borrow_and_update();
    let mut rights = server.rights.subscribe();
    loop {
        let is_over = tokio::select! {
            _ = rights.changed() => true,
            () = context.cancelled() => true,
            () = server.shutdown.cancelled() => true,
            changed = states.changed() => changed.is_err(),
        };
        if is_over {
            return;
        }
        let next = *states.borrow_and_update();
        let mut outcomes = Vec::new();
        if next.tool_list_hash != known.tool_list_hash {
            outcomes.push(context.sink().notify_tool_list_changed().await);
        }
        for uri in known.changed_resources(&next) {
            outcomes.push(context.sink().notify_resource_updated(uri).await);
        }
        known = next;
        let is_closed = |outcome: &Result<(), SubscriptionSendError>| {
            matches!(outcome, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_)))
        };
        if outcomes.iter().any(is_closed) {
            return;
        }
    }
}
