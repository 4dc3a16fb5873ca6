//! Who is told of changes. One task watches, and every listener compares what it knew with what is now.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use rmcp::{
    Peer, RoleServer,
    model::ResourceUpdatedNotificationParam,
    service::{SubscriptionContext, SubscriptionSendError},
};
use svc_operator::Versions;
use tokio::{sync::watch, time::timeout};

use super::{
    Front,
    caller::{Memory, NOTIFY},
    own::Own,
};

/// A client of a protocol generation with sessions, to be told of changes.
pub struct Listener {
    peer: Peer<RoleServer>,
    memory: Arc<Memory>,
}

/// What there is to be seen from outside, as numbers that change with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    versions: Versions,
    links: [bool; 3],
    /// Of the records of writes.
    records: (u64, u64),
    /// Names of the tools that are listed: authorizations also end by the clock alone.
    listing: u64,
}

/// How often it is looked at what changes without an event: links, and ends of validity.
const LOOK: Duration = Duration::from_secs(1);

impl Seen {
    /// Resources that differ.
    fn changed(&self, after: &Self) -> Vec<&'static str> {
        let (before, now) = (&self.versions, &after.versions);
        let parts = [
            (Own::Operator, before.operator != now.operator),
            (Own::Corporation, before.corporation != now.corporation),
            (Own::Authorizations, before.authorizations != now.authorizations),
            (Own::FeeGrant, before.fee_grant != now.fee_grant),
            (Own::VsAgents, before.agents != now.agents),
            (Own::Status, self.links != after.links),
            (Own::Transactions, self.records.0 != after.records.0),
            (Own::Audit, self.records.1 != after.records.1),
        ];
        parts.into_iter().filter_map(|(own, is_new)| is_new.then_some(own.uri())).collect()
    }
}

impl Front {
    fn seen(&self) -> Seen {
        let mut hasher = DefaultHasher::new();
        self.listed().for_each(|entry| entry.tool.name.hash(&mut hasher));
        Seen {
            versions: *self.operator.changes().borrow(),
            links: self.operator.links(),
            records: self.operator.records_made(),
            listing: hasher.finish(),
        }
    }

    /// A client to be told of changes from now on.
    pub fn listener(&self, peer: Peer<RoleServer>, memory: Arc<Memory>) {
        self.listeners(|listeners| {
            listeners.retain(|listener| !listener.peer.is_transport_closed());
            listeners.push(Listener { peer, memory });
        });
    }
}

/// Watches, publishes what is seen, and tells clients with sessions. A client that does not take a notification is left behind.
pub async fn watch(front: Arc<Front>, published: watch::Sender<Seen>) {
    let mut changes = front.operator.changes();
    let mut known = front.seen();
    published.send_replace(known);
    loop {
        tokio::select! {
            () = front.stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK) => {}
        }
        let next = front.seen();
        if next == known {
            continue;
        }
        let (changed, is_list_new) = (known.changed(&next), known.listing != next.listing);
        known = next;
        published.send_replace(next);
        if is_list_new {
            front.count_tools();
        }
        let listeners: Vec<(Peer<RoleServer>, Vec<&str>)> = front.listeners(|listeners| {
            listeners.retain(|listener| !listener.peer.is_transport_closed());
            let wanted = |listener: &Listener| {
                listener.memory.uris(|uris| changed.iter().copied().filter(|uri| uris.contains(*uri)).collect())
            };
            listeners.iter().map(|listener| (listener.peer.clone(), wanted(listener))).collect()
        });
        // A client that does not read must not hold up the others.
        for (peer, uris) in listeners.into_iter().filter(|(_, uris)| is_list_new || !uris.is_empty()) {
            tokio::spawn(timeout(NOTIFY, async move {
                if is_list_new {
                    let _ = peer.notify_tool_list_changed().await;
                }
                for uri in uris {
                    let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await;
                }
            }));
        }
    }
}

/// The same for one client of a generation without sessions, for as long as its request is open.
pub async fn listen(front: &Front, context: &SubscriptionContext) {
    let mut seen = front.seen.subscribe();
    let mut known = *seen.borrow_and_update();
    loop {
        let is_over = tokio::select! {
            () = context.cancelled() => true,
            () = front.stop.cancelled() => true,
            changed = seen.changed() => changed.is_err(),
        };
        if is_over {
            return;
        }
        let next = *seen.borrow_and_update();
        let mut outcomes = Vec::new();
        if next.listing != known.listing {
            outcomes.push(context.sink().notify_tool_list_changed().await);
        }
        for uri in known.changed(&next) {
            outcomes.push(context.sink().notify_resource_updated(uri).await);
        }
        known = next;
        let is_gone = |outcome: &Result<(), SubscriptionSendError>| {
            matches!(outcome, Err(SubscriptionSendError::SubscriptionClosed | SubscriptionSendError::Service(_)))
        };
        if outcomes.iter().any(is_gone) {
            return;
        }
    }
}
