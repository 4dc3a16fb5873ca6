//! Errors of a node.

use std::net::SocketAddr;

use super::{
    chain::{ReplayError, SealError},
    chain_store::ChainStoreError,
};

/// Error of a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// The runtime cannot start its threads.
    #[error("cannot start a runtime: {0}")]
    Runtime(std::io::Error),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] ChainStoreError),
    /// The blocks of the home lead to another state.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The state before the first block cannot be built.
    #[error(transparent)]
    Genesis(#[from] svc_ledger::AppStateError),
    /// A block cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The descriptors of a generation cannot be used.
    #[error(transparent)]
    Generation(#[from] svc_wire::proto_registry::ProtoRegistryError),
    /// An upgrade cannot be planned.
    #[error(transparent)]
    UpgradePlan(#[from] svc_ledger::UpgradePlanError),
    /// The next block is one of a later release.
    #[error("UPGRADE {:?} NEEDED at height: {}: the chain halts until its program is exchanged", .0.name(), .0.height)]
    UpgradeNeeded(svc_ledger::UpgradePlan),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// There is no snapshot of this name.
    #[error("there is no snapshot {0:?}")]
    NoSnapshot(String),
    /// The chain does not have this height.
    #[error("the chain has {newest} blocks, not {height}")]
    NoHeight {
        /// The height.
        height: u64,
        /// Newest height of the chain.
        newest: u64,
    },
    /// A replica cannot produce blocks.
    #[error("a replica produces no blocks: its leader does")]
    Replica,
}
