//! The context of a message handler: the state that it changes, the chain, the block, and the events that it emits.

use prost_types::Timestamp;
use svc_wire::proto::cosmos::tx::v1beta1::Fee;

use crate::{
    chain::{BlockContext, ChainConfig},
    error::LedgerError,
    gas::GasMeter,
    state::LedgerState,
};

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
