//! The resolution trigger: has the indexers resolve the agent's document again after a change, by a transaction of a HOLDER participant.
//!
//! It owns the time of the next attempt; the versions that wait are in the store, written with each version. The node alone states the
//! participant, its record and the payer. Without one of them, or while the node reads the message otherwise, the trigger is blocked, sends
//! nothing, and looks again after an event about the agent's grants or participants, and when the node runs another release. When it dies, the next incarnation finds the transaction of an attempt in the journal.

mod actor;
mod attempt;
mod core;
#[cfg(test)]
mod tests;

use svc_agent_store::AgentStore;
use svc_kit::{Handle, RetainedState, impl_actor_message, supervision::ChildSpec};

use self::core::AttemptEnd;
use crate::chain_link::ChainAccess;

pub use self::core::ResolutionPhase;

/// The state of the resolution, for readers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolutionReport {
    /// State.
    pub phase: ResolutionPhase,
    /// Time at which it began, RFC 3339.
    pub since: String,
    /// The newest transaction.
    pub tx_hash: Option<String>,
}

/// Messages of the resolution trigger.
pub enum Msg {
    /// A version of the document was published.
    Changed(u64),
    /// The chain was found.
    ChainFound,
    /// The versions of the store are to be read once more: one may have come while the actor started.
    ReadProgress,
    /// An event may have changed grants or participants, or the node runs another release.
    RegistryChanged,
    /// The time for an attempt may have come.
    Wake,
    /// A transaction is on its way, with its hash.
    Sent(String),
    /// An attempt has ended.
    Ended {
        /// Version of the attempt.
        version: u64,
        /// Its end.
        end: AttemptEnd,
    },
}

impl_actor_message!(Msg { Changed, ChainFound, ReadProgress, RegistryChanged, Wake, Sent, Ended });

/// Arguments of the actor.
pub struct Args {
    store: AgentStore,
    did: String,
    corporation_id: u64,
    is_on: bool,
    chain: RetainedState<Option<ChainAccess>>,
    report: RetainedState<ResolutionReport>,
}

/// Messages that may wait: one a second from the keeper, and those of registry events.
const MAILBOX: usize = 1_024;

/// The address of the resolution trigger, and its state.
#[derive(Clone)]
pub struct ResolutionHandle {
    actor: Handle<Msg>,
    chain: RetainedState<Option<ChainAccess>>,
    report: RetainedState<ResolutionReport>,
}

/// The handle of a trigger that is still to be described.
impl Default for ResolutionHandle {
    fn default() -> Self {
        Self {
            actor: Handle::new("resolution_trigger", "resolution_trigger", MAILBOX),
            chain: RetainedState::default(),
            report: RetainedState::default(),
        }
    }
}

impl ResolutionHandle {
    /// Returns the child specification that starts the actor.
    pub fn child_spec(&self, (store, did): (AgentStore, String), corporation_id: u64, is_on: bool) -> ChildSpec {
        let (chain, report) = (self.chain.clone(), self.report.clone());
        let args = Args { store, did, corporation_id, is_on, chain, report };
        ChildSpec::worker::<actor::ResolutionTrigger>(&self.actor, args)
    }

    /// Tells of a published version.
    pub(crate) fn changed(&self, version: u64) {
        self.actor.notify(Msg::Changed(version));
    }

    /// Tells of the chain.
    pub fn chain_found(&self, access: ChainAccess) {
        // The tree keeps the chain: an incarnation that misses the message finds it.
        self.chain.with(|chain| *chain = Some(access));
        self.actor.notify(Msg::ChainFound);
    }

    /// Tells of an event about grants or participants, or of another release of the node.
    pub fn registry_changed(&self) {
        self.actor.notify(Msg::RegistryChanged);
    }

    /// Returns the state of the resolution.
    pub fn report(&self) -> ResolutionReport {
        self.report.with(|report| report.clone())
    }
}
