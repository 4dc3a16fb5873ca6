//! Who the corporation's agents are: starts a session for each, ends those that are agents no more.
//!
//! An agent is a DID of a participant of the corporation whose `vs_operator` holds a VS-operator authorization of the
//! corporation. Where each one's admin API is stands in the directory, which is retained by the tree.

mod actor;

use std::collections::BTreeMap;

use svc_kit::{Handle, Retained, wall};
use svc_otel::metrics;

pub use actor::{Agents, Args, Msg};

use crate::{agent_session::AgentHandle, snapshot::Board};

/// Where an agent's admin API is, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whereabouts {
    /// Origin of the admin API.
    pub admin_url: Option<String>,
    /// When that was read from the DID Document, RFC 3339.
    pub resolved_at: Option<String>,
    /// Why it is not known.
    pub unreachable_reason: Option<String>,
}

/// A session and its place in the tree.
#[derive(Clone)]
pub(crate) struct Known {
    pub child: u64,
    pub handle: AgentHandle,
    pub whereabouts: Whereabouts,
}

/// All agents by DID.
#[derive(Clone)]
pub struct Directory {
    known: Retained<BTreeMap<String, Known>>,
    board: Board,
}

impl Directory {
    /// An empty directory that announces its changes on `board`.
    pub fn new(board: Board) -> Self {
        Self { known: Retained::new(BTreeMap::new()), board }
    }

    /// The session of an agent.
    pub fn session(&self, did: &str) -> Option<AgentHandle> {
        self.known.with(|known| known.get(did).map(|one| one.handle.clone()))
    }

    /// Where an agent is.
    pub fn whereabouts(&self, did: &str) -> Option<Whereabouts> {
        self.known.with(|known| known.get(did).map(|one| one.whereabouts.clone()))
    }

    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<String, Known>) -> R) -> R {
        self.known.with(change)
    }

    /// Notes what a look at the agent's DID Document found.
    pub(crate) fn note(&self, did: &str, admin: Result<String, String>) {
        let has_changed = self.known.with(|known| {
            let Some(one) = known.get_mut(did) else { return false };
            let before = (one.whereabouts.admin_url.clone(), one.whereabouts.unreachable_reason.clone());
            match admin {
                Ok(url) => {
                    let resolved_at = Some(wall::now_text());
                    one.whereabouts = Whereabouts { admin_url: Some(url), resolved_at, unreachable_reason: None };
                }
                // The last address that was read stays: it says where the agent was.
                Err(reason) => one.whereabouts.unreachable_reason = Some(reason),
            }
            before != (one.whereabouts.admin_url.clone(), one.whereabouts.unreachable_reason.clone())
        });
        self.count();
        if has_changed {
            self.board.agents_changed();
        }
    }

    pub(crate) fn count(&self) {
        let (all, reachable) = self.known.with(|known| {
            let is_reachable =
                |one: &&Known| one.whereabouts.admin_url.is_some() && one.whereabouts.unreachable_reason.is_none();
            (known.len(), known.values().filter(is_reachable).count())
        });
        metrics::vs_agents_known(true, reachable);
        metrics::vs_agents_known(false, all - reachable);
    }
}

/// The way in, for neighbours that only notify.
pub(crate) fn notify(handle: &Handle<Msg>) {
    // An actor that is restarting reads the snapshot when it is back.
    let _ = handle.tell(Msg::Changed);
}
