//! The directory of the agents: session and endpoint of each.

use std::collections::BTreeMap;

use svc_kit::{RetainedState, wall_clock};
use svc_otel::metrics;

use crate::{
    agent_session::{AgentSessionHandle, EndpointRecorder},
    snapshot::publisher::SnapshotPublisher,
};

/// The admin API of an agent, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentEndpoint {
    /// Origin of the admin API.
    pub admin_url: Option<String>,
    /// Time at which the origin was read from the DID Document, RFC 3339.
    pub resolved_at: Option<String>,
    /// Reason why the agent cannot be reached.
    pub unreachable_reason: Option<String>,
}

/// An agent of the directory.
#[derive(Clone)]
pub(crate) struct DirectoryEntry {
    /// Number of the session's child in its supervisor.
    pub child: u64,
    pub session: AgentSessionHandle,
    pub endpoint: AgentEndpoint,
}

/// All agents by DID. The supervision tree retains the directory.
#[derive(Clone)]
pub struct AgentDirectory {
    entries: RetainedState<BTreeMap<String, DirectoryEntry>>,
    publisher: SnapshotPublisher,
}

impl AgentDirectory {
    /// An empty directory that announces its changes through `publisher`.
    pub fn new(publisher: SnapshotPublisher) -> Self {
        Self { entries: RetainedState::new(BTreeMap::new()), publisher }
    }

    /// The session of an agent.
    pub fn session(&self, did: &str) -> Option<AgentSessionHandle> {
        self.with_entries(|entries| entries.get(did).map(|entry| entry.session.clone()))
    }

    /// The endpoint of an agent.
    pub fn endpoint(&self, did: &str) -> Option<AgentEndpoint> {
        self.with_entries(|entries| entries.get(did).map(|entry| entry.endpoint.clone()))
    }

    pub(crate) fn with_entries<R>(&self, change: impl FnOnce(&mut BTreeMap<String, DirectoryEntry>) -> R) -> R {
        self.entries.with(change)
    }

    pub(crate) fn report_counts(&self) {
        let (all, reachable) = self.with_entries(|entries| {
            let is_reachable = |entry: &&DirectoryEntry| {
                entry.endpoint.admin_url.is_some() && entry.endpoint.unreachable_reason.is_none()
            };
            (entries.len(), entries.values().filter(is_reachable).count())
        });
        metrics::record_vs_agents_known(true, reachable);
        metrics::record_vs_agents_known(false, all - reachable);
    }
}

impl EndpointRecorder for AgentDirectory {
    fn record_endpoint(&self, did: &str, admin_url: Result<String, String>) {
        let has_changed = self.with_entries(|entries| {
            let Some(entry) = entries.get_mut(did) else { return false };
            let before = (entry.endpoint.admin_url.clone(), entry.endpoint.unreachable_reason.clone());
            match admin_url {
                Ok(url) => {
                    let resolved_at = Some(wall_clock::now_rfc3339());
                    entry.endpoint = AgentEndpoint { admin_url: Some(url), resolved_at, unreachable_reason: None };
                }
                // The last known origin stays.
                Err(reason) => entry.endpoint.unreachable_reason = Some(reason),
            }
            before != (entry.endpoint.admin_url.clone(), entry.endpoint.unreachable_reason.clone())
        });
        self.report_counts();
        if has_changed {
            self.publisher.announce_agents();
        }
    }
}
