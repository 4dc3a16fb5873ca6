//! Notifications of list changes that a fixture tool triggers.

use std::sync::LazyLock;

use rmcp::{
    Peer, RoleServer,
    service::{SubscriptionSendError, SubscriptionSink},
};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::task::AbortOnDropHandle;

/// The list that a fixture tool reports as changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum FixtureListChange {
    Tools,
    Prompts,
}

static CHANGES: LazyLock<broadcast::Sender<FixtureListChange>> = LazyLock::new(|| broadcast::Sender::new(16));

/// Notifies all subscriptions and sessions of a change. Returns their number.
pub(super) fn notify_change(change: FixtureListChange) -> usize {
    // A change without receivers is not an error.
    CHANGES.send(change).unwrap_or_default()
}

/// Notifies a subscription of changed lists until the handle is dropped.
pub(super) fn notify_subscription(sink: SubscriptionSink) -> AbortOnDropHandle<()> {
    let mut changes = CHANGES.subscribe();
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let outcome = match changes.recv().await {
                Ok(FixtureListChange::Tools) => sink.notify_tool_list_changed().await,
                Ok(FixtureListChange::Prompts) => sink.notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            // A subscription to other notifications stays open.
            if matches!(outcome, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_))) {
                return;
            }
        }
    }))
}

/// Notifies a client with a session of changed lists until it disconnects.
pub(super) fn notify_session(peer: Peer<RoleServer>) {
    let mut changes = CHANGES.subscribe();
    tokio::spawn(async move {
        loop {
            let outcome = match changes.recv().await {
                Ok(FixtureListChange::Tools) => peer.notify_tool_list_changed().await,
                Ok(FixtureListChange::Prompts) => peer.notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            if outcome.is_err() {
                return;
            }
        }
    });
}
