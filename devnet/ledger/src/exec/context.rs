//! The context of execution: the chain, the block, and the state that a message handler changes.

use prost_types::Timestamp;
use svc_wire::{
    proto::cosmos::tx::v1beta1::Fee,
    proto_registry::{Namespace, NodeGeneration, ProtoRegistry, ProtoRegistryError},
};

use super::gas::GasMeter;
use crate::{error::LedgerError, state::LedgerState, upgrade::UpgradeSchedule};

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

/// An ABCI event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEvent {
    /// Event type.
    pub kind: String,
    /// Attributes as (key, value), in order.
    pub attributes: Vec<(String, String)>,
}

impl LedgerEvent {
    /// Creates an event with its attributes.
    pub fn new<V: Into<String>, const N: usize>(kind: &str, attributes: [(&str, V); N]) -> Self {
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        Self { kind: kind.to_owned(), attributes }
    }
}

/// The state and the environment of a message handler, and the events that it emits.
pub struct ExecContext<'a> {
    pub state: &'a mut LedgerState,
    pub chain: &'a ChainConfig,
    pub block: BlockContext,
    pub gas: &'a GasMeter,
    /// Fee of the transaction; `None` in the begin and the end of a block.
    pub fee: Option<&'a Fee>,
    pub events: Vec<LedgerEvent>,
}

impl<'a> ExecContext<'a> {
    /// Creates the context of work that no transaction pays for.
    pub fn without_fee(
        state: &'a mut LedgerState,
        chain: &'a ChainConfig,
        block: BlockContext,
        gas: &'a GasMeter,
    ) -> Self {
        Self { state, chain, block, gas, fee: None, events: Vec::new() }
    }

    /// Runs `work` on a copy of the state; keeps its changes and events only if it succeeds.
    pub fn attempt<R>(
        &mut self,
        work: impl FnOnce(&mut ExecContext<'_>) -> Result<R, LedgerError>,
    ) -> Result<R, LedgerError> {
        let mut state = self.state.clone();
        let mut inner = ExecContext {
            state: &mut state,
            chain: self.chain,
            block: self.block,
            gas: self.gas,
            fee: self.fee,
            events: Vec::new(),
        };
        let result = work(&mut inner)?;
        let events = inner.events;
        *self.state = state;
        self.events.extend(events);
        Ok(result)
    }

    pub fn emit<V: Into<String>, const N: usize>(&mut self, kind: &str, attributes: [(&str, V); N]) {
        self.events.push(LedgerEvent::new(kind, attributes));
    }

    /// Emits an event with a number of attributes that is decided at run time.
    pub fn emit_attributes(&mut self, kind: &str, attributes: Vec<(&str, String)>) {
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.events.push(LedgerEvent { kind: kind.to_owned(), attributes });
    }

    pub fn block_time(&self) -> Timestamp {
        self.block.time
    }
}
