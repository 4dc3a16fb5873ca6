//! The clients of the protocol versions with sessions, which the server notifies on its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{Peer, RoleServer, model::ResourceUpdatedNotificationParam};
use tokio::time::timeout;

use crate::mcp::session::SessionState;

/// Longest wait for a client to accept a notification.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions to notify.
#[derive(Default)]
pub struct SessionSubscribers(Mutex<Vec<SessionSubscriber>>);

#[derive(Clone)]
struct SessionSubscriber {
    peer: Peer<RoleServer>,
    session: Arc<SessionState>,
}

impl SessionSubscribers {
    /// Adds a session.
    pub fn add(&self, peer: Peer<RoleServer>, session: Arc<SessionState>) {
        let mut subscribers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| !subscriber.peer.is_transport_closed());
        subscribers.push(SessionSubscriber { peer, session });
    }

    /// Notifies all sessions of a changed tool list, and each session of the changed resources that it subscribes to. A client that
    /// does not accept a notification within [`NOTIFY_TIMEOUT`] misses it.
    pub fn notify(&self, is_tool_list_changed: bool, changed_resources: &[&'static str]) {
        for subscriber in self.open_subscribers() {
            let uris: Vec<&'static str> = subscriber.session.with_subscribed_uris(|uris| {
                changed_resources.iter().copied().filter(|uri| uris.contains(*uri)).collect()
            });
            if !is_tool_list_changed && uris.is_empty() {
                continue;
            }
            // A task per client: one that does not read must not delay the others.
            tokio::spawn(timeout(NOTIFY_TIMEOUT, async move {
                if is_tool_list_changed {
                    let _ = subscriber.peer.notify_tool_list_changed().await;
                }
                for uri in uris {
                    let _ = subscriber.peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
                }
            }));
        }
    }

    fn open_subscribers(&self) -> Vec<SessionSubscriber> {
        let mut subscribers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|subscriber| !subscriber.peer.is_transport_closed());
        subscribers.clone()
    }
}
