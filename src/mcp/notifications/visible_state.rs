//! The state of a tool server that clients can see, as versions.

use svc_operator::{LinkStatus, SnapshotVersions};

use crate::mcp::resources::OwnResource;

/// Versions of all resources and of the tool list. A version changes with its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VisibleState {
    pub(super) snapshot: SnapshotVersions,
    pub(super) links: LinkStatus,
    pub(super) journal_entries: u64,
    pub(super) audit_records: u64,
    pub(super) approvals: u64,
    /// Hash of the names of the listed tools. An authorization can expire without an event, so the list has no version.
    pub(super) tool_list_hash: u64,
}

impl VisibleState {
    /// The URIs of the resources that differ between this state and a later one.
    pub(super) fn changed_resources(&self, later: &Self) -> Vec<&'static str> {
        let (before, after) = (&self.snapshot, &later.snapshot);
        let resources = [
            (OwnResource::Operator, before.operator != after.operator),
            (OwnResource::Corporation, before.corporation != after.corporation),
            (OwnResource::Authorizations, before.authorizations != after.authorizations),
            (OwnResource::FeeGrant, before.fee_grant != after.fee_grant),
            (OwnResource::VsAgents, before.agents != after.agents),
            (OwnResource::Status, self.links != later.links),
            (OwnResource::Transactions, self.journal_entries != later.journal_entries),
            (OwnResource::Audit, self.audit_records != later.audit_records),
            (OwnResource::Approvals, self.approvals != later.approvals),
        ];
        resources.into_iter().filter_map(|(resource, is_changed)| is_changed.then_some(resource.uri())).collect()
    }
}
