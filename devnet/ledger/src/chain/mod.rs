//! A chain: its configuration, the generation of its node, its upgrades, and the block in which a transaction runs.

mod schedule;

use prost_types::Timestamp;
use svc_wire::{
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry, ProtoRegistryError},
    syntax::{DELEGABLE_MESSAGES, SESSION_MESSAGE},
};

pub use self::schedule::{UpgradePlan, UpgradePlanError, UpgradeSchedule};

/// Configuration that is fixed for the life of a chain.
#[derive(Debug, Clone)]
pub struct ChainConfig {
    /// Chain id.
    pub chain_id: String,
    /// Bech32 prefix of accounts.
    pub prefix: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Minimum gas price of this node, in millionths of the denom; CheckTx alone enforces it.
    pub min_gas_price_micros: u64,
    /// Blocks of a year, as the mint module counts them; the yearly yield is divided by it.
    pub blocks_per_year: u64,
    /// Generation of the node: its messages, and the form of its answers.
    pub generation: NodeGeneration,
    /// Upgrades of the chain, planned and applied.
    pub upgrades: UpgradeSchedule,
    /// Protobuf descriptors under the namespace of the chain, those of the generation.
    pub registry: ProtoRegistry,
}

impl ChainConfig {
    /// Whether the rules of the second generation hold, as its last build has them: siblings by DID, windows, slashes, opaque digests.
    pub fn has_window_rules(&self) -> bool {
        self.generation >= NodeGeneration::N1
    }

    /// Whether parameters have the members and the numbers of 0.10.4.
    pub fn has_renumbered_params(&self) -> bool {
        self.generation >= NodeGeneration::N2
    }

    /// Whether records have a cycle of spending and fees a common allowance, as from the rework of the delegation on.
    pub fn has_spend_cycles(&self) -> bool {
        !self.generation.has_own_record_limits()
    }

    /// Whether a council of validators has the place of governance.
    pub fn has_council(&self) -> bool {
        self.generation >= NodeGeneration::N4
    }

    /// Whether a type URL can be delegated: the generation has its message.
    pub fn is_delegable(&self, url: &str) -> bool {
        let split = self.namespace().split_type_url(url);
        split.is_some_and(|split| DELEGABLE_MESSAGES.contains(&split)) && self.registry.message_descriptor(url).is_ok()
    }

    /// The type URLs that an operator can be granted.
    pub fn grantable_types(&self) -> Vec<String> {
        let grantable = DELEGABLE_MESSAGES.into_iter().filter(|split| *split != SESSION_MESSAGE);
        let urls = grantable.map(|(module, name)| self.namespace().type_url(module, name));
        urls.filter(|url| self.is_delegable(url)).collect()
    }

    /// Goes on as a node of another generation, as after an upgrade.
    ///
    /// # Errors
    /// When the descriptors of the generation are no consistent set.
    pub fn become_generation(&mut self, generation: NodeGeneration) -> Result<(), ProtoRegistryError> {
        self.registry = Self::executed(ProtoRegistry::compiled(self.namespace())?, generation)?;
        self.generation = generation;
        Ok(())
    }

    /// The descriptors that a chain of a generation executes with. The newest one has no governance, and its genesis is still written with it.
    ///
    /// # Errors
    /// When the descriptors of the generation are no consistent set.
    pub fn executed(compiled: ProtoRegistry, generation: NodeGeneration) -> Result<ProtoRegistry, ProtoRegistryError> {
        let before = compiled.of_generation(generation.min(NodeGeneration::N3))?;
        if generation < NodeGeneration::N4 { Ok(before) } else { before.with_council() }
    }

    /// The descriptors that the node serves.
    ///
    /// # Errors
    /// When the descriptors of the generation are no consistent set.
    pub fn served(&self) -> Result<Vec<u8>, ProtoRegistryError> {
        if !self.has_council() {
            return Ok(self.registry.file_descriptors());
        }
        Ok(ProtoRegistry::compiled(self.namespace())?.of_generation(self.generation)?.file_descriptors())
    }

    /// Returns the namespace of the protobuf packages.
    pub fn namespace(&self) -> &Namespace {
        self.registry.namespace()
    }
}

/// The block in which a transaction runs.
#[derive(Debug, Clone, Copy)]
pub struct BlockContext {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: Timestamp,
}
