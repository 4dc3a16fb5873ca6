//! The publisher of the snapshot, and the versions of its parts.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::CorporationSnapshot;

/// Number of changes of each part of the snapshot. The difference of two values names the parts that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotVersions {
    /// Account number and sequence.
    pub operator: u64,
    /// The corporation and its ecosystems.
    pub corporation: u64,
    /// The operator's authorizations, and whether the corporation pays its fees.
    pub authorizations: u64,
    /// The fee allowance.
    pub fee_grant: u64,
    /// The agents and their admin APIs.
    pub agents: u64,
    /// The reads that the indexer answers.
    pub reads: u64,
}

impl SnapshotVersions {
    fn next_versions(self, before: &CorporationSnapshot, next: &CorporationSnapshot) -> Self {
        let is_operator_new = (before.account_number, before.sequence) != (next.account_number, next.sequence);
        let is_corporation_new = before.corporation != next.corporation || before.ecosystems != next.ecosystems;
        let is_paid =
            |snapshot: &CorporationSnapshot| snapshot.allowance.given().map(|allowance| allowance.msg_types.clone());
        let is_authorization_new = before.authorizations != next.authorizations
            || before.vs_authorizations != next.vs_authorizations
            || is_paid(before) != is_paid(next);
        Self {
            operator: self.operator + u64::from(is_operator_new),
            corporation: self.corporation + u64::from(is_corporation_new),
            authorizations: self.authorizations + u64::from(is_authorization_new),
            fee_grant: self.fee_grant + u64::from(before.allowance != next.allowance),
            agents: self.agents
                + u64::from(before.agents != next.agents || before.vs_authorizations != next.vs_authorizations),
            reads: self.reads + u64::from(before.serves_trust != next.serves_trust),
        }
    }
}

/// Publishes the newest snapshot. Clones share it.
#[derive(Clone)]
pub struct SnapshotPublisher {
    snapshot: Arc<ArcSwap<CorporationSnapshot>>,
    versions: watch::Sender<SnapshotVersions>,
}

impl SnapshotPublisher {
    /// A publisher with its first snapshot.
    pub fn new(first: CorporationSnapshot) -> Self {
        Self {
            snapshot: Arc::new(ArcSwap::from_pointee(first)),
            versions: watch::channel(SnapshotVersions::default()).0,
        }
    }

    /// The newest snapshot.
    pub fn current(&self) -> Arc<CorporationSnapshot> {
        self.snapshot.load_full()
    }

    /// Publishes a snapshot; yields whether the authorizations have changed.
    pub fn publish(&self, next: CorporationSnapshot) -> bool {
        let mut has_other_authorizations = false;
        let next = Arc::new(next);
        self.versions.send_if_modified(|versions| {
            let before = *versions;
            *versions = before.next_versions(&self.snapshot.load(), &next);
            self.snapshot.store(Arc::clone(&next));
            has_other_authorizations = versions.authorizations != before.authorizations;
            *versions != before
        });
        has_other_authorizations
    }

    /// Announces that the endpoint of an agent has changed.
    pub fn announce_agents(&self) {
        self.versions.send_modify(|versions| versions.agents += 1);
    }

    /// Watches for changes.
    pub fn subscribe(&self) -> watch::Receiver<SnapshotVersions> {
        self.versions.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::OperatorAuthorization;

    fn authorization() -> OperatorAuthorization {
        let (msg_types, body) = (vec!["/a".to_owned()], serde_json::Value::Null);
        OperatorAuthorization { id: 1, msg_types, expiration: None, renews: false, body }
    }

    #[test]
    fn only_the_part_that_changed_is_announced() {
        let board = SnapshotPublisher::new(CorporationSnapshot::default());
        assert!(!board.publish(CorporationSnapshot { refreshed_at: "later".into(), ..CorporationSnapshot::default() }));
        assert_eq!(*board.subscribe().borrow(), SnapshotVersions::default());
        assert!(!board.publish(CorporationSnapshot { sequence: 1, ..CorporationSnapshot::default() }));
        assert_eq!(*board.subscribe().borrow(), SnapshotVersions { operator: 1, ..SnapshotVersions::default() });
        assert!(board.publish(CorporationSnapshot {
            sequence: 1,
            authorizations: vec![authorization()],
            ..CorporationSnapshot::default()
        }));
        assert_eq!(
            *board.subscribe().borrow(),
            SnapshotVersions { operator: 1, authorizations: 1, ..SnapshotVersions::default() }
        );
    }
}
