//! Running transactions: what surrounds the messages, and what comes out.

use prost::Message;
use prost_types::{Any, Timestamp};
use svc_wire::{
    proto::cosmos::{base::abci::v1beta1::TxMsgData, tx::v1beta1::Fee},
    schema::{Namespace, Registry},
};

use super::{
    ante::{self, Mode, Passed},
    error::LedgerError,
    gas::Gas,
    modules,
    state::State,
};

/// What is fixed for the life of a chain.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Chain id.
    pub chain_id: String,
    /// Bech32 prefix of accounts.
    pub prefix: String,
    /// Fee and bond denom.
    pub denom: String,
    /// Lowest gas price of this node, in millionths of the denom; tested in CheckTx only.
    pub min_gas_price_micros: u64,
    /// Blocks of a year, as the mint module counts them: what yield is divided by.
    pub blocks_per_year: u64,
    /// Descriptors under the chain's own namespace word.
    pub registry: Registry,
}

impl Chain {
    /// The namespace word.
    pub fn namespace(&self) -> &Namespace {
        self.registry.namespace()
    }
}

/// The block a transaction runs in.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: Timestamp,
}

/// An ABCI event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Type.
    pub kind: String,
    /// Attributes in order.
    pub attributes: Vec<(String, String)>,
}

impl Event {
    /// An event with its attributes.
    pub fn new<V: Into<String>, const N: usize>(kind: &str, attributes: [(&str, V); N]) -> Self {
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        Self { kind: kind.to_owned(), attributes }
    }
}

/// Result of a transaction.
#[derive(Debug, Clone, Default)]
pub struct TxOutcome {
    /// 0 on success.
    pub code: u32,
    /// Codespace of the code.
    pub codespace: String,
    /// `TxMsgData`; empty on failure.
    pub data: Vec<u8>,
    /// Text of a failure.
    pub log: String,
    /// Gas limit.
    pub gas_wanted: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Events in order.
    pub events: Vec<Event>,
}

/// What a message handler works on.
pub(super) struct Exec<'a> {
    pub state: &'a mut State,
    pub chain: &'a Chain,
    pub block: Block,
    pub gas: &'a Gas,
    /// Fee of the transaction; none in begin and end of a block.
    pub fee: Option<&'a Fee>,
    pub events: Vec<Event>,
}

impl<'a> Exec<'a> {
    /// Work of the chain itself, which nobody pays for.
    pub fn unpaid(state: &'a mut State, chain: &'a Chain, block: Block, gas: &'a Gas) -> Self {
        Self { state, chain, block, gas, fee: None, events: Vec::new() }
    }

    /// Runs `work` on a copy, and keeps its effects and events only if it succeeds.
    pub fn attempt<R>(&mut self, work: impl FnOnce(&mut Exec<'_>) -> Result<R, LedgerError>) -> Result<R, LedgerError> {
        let mut state = self.state.clone();
        let mut inner = Exec {
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
        self.events.push(Event::new(kind, attributes));
    }

    /// For events whose attributes are not known beforehand.
    pub fn emit_all(&mut self, kind: &str, attributes: Vec<(&str, String)>) {
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        self.events.push(Event { kind: kind.to_owned(), attributes });
    }

    pub fn now(&self) -> Timestamp {
        self.block.time
    }
}

/// Runs a transaction of a block. Fees and sequence stay spent when a message fails.
pub fn deliver(state: &mut State, chain: &Chain, block: Block, bytes: &[u8]) -> TxOutcome {
    run(state, chain, block, bytes, Mode::Deliver)
}

/// Runs a transaction against `state` without keeping anything: gas, events and response, or the failure.
pub fn simulate(state: &State, chain: &Chain, block: Block, bytes: &[u8]) -> TxOutcome {
    run(&mut state.clone(), chain, block, bytes, Mode::Simulate)
}

fn run(state: &mut State, chain: &Chain, block: Block, bytes: &[u8], mode: Mode) -> TxOutcome {
    let mut after_ante = state.clone();
    let passed = match ante::check(&mut after_ante, chain, block, bytes, mode) {
        Ok(passed) => passed,
        Err((error, gas)) => return failure(error, &gas, Vec::new()),
    };
    let mut events = passed.events.clone();
    let gas = &passed.gas;
    let mut after_messages = after_ante.clone();
    // Fees are spent even if the messages fail.
    *state = after_ante;
    match run_messages(&mut after_messages, chain, block, gas, &passed) {
        Ok((data, message_events)) => {
            *state = after_messages;
            events.extend(message_events);
            TxOutcome { data, gas_wanted: wanted(gas), gas_used: gas.used(), events, ..TxOutcome::default() }
        }
        Err(error) => failure(error, gas, events),
    }
}

fn wanted(gas: &Gas) -> u64 {
    if gas.limit() == u64::MAX { 0 } else { gas.limit() }
}

fn failure(error: LedgerError, gas: &Gas, events: Vec<Event>) -> TxOutcome {
    TxOutcome {
        code: error.code,
        codespace: error.codespace.to_owned(),
        log: error.text,
        gas_wanted: wanted(gas),
        gas_used: gas.used(),
        events,
        data: Vec::new(),
    }
}

fn run_messages(
    state: &mut State,
    chain: &Chain,
    block: Block,
    gas: &Gas,
    passed: &Passed,
) -> Result<(Vec<u8>, Vec<Event>), LedgerError> {
    let (mut msg_responses, mut events) = (Vec::new(), Vec::new());
    for (index, message) in passed.body.messages.iter().enumerate() {
        let mut exec = Exec { state, chain, block, gas, fee: Some(&passed.fee), events: Vec::new() };
        let failed = |error: LedgerError| error.wrap(format!("failed to execute message; message index: {index}"));
        let response = modules::run(&mut exec, message);
        // A handler out of gas gets no further than that, whatever it would have said.
        if gas.is_exceeded() {
            return Err(out_of_gas(gas, "store"));
        }
        let response = response.map_err(failed)?;
        let sender = chain.registry.signers(&message.type_url, &message.value).unwrap_or_default();
        let action = message_event(&message.type_url, sender.first().map_or("", String::as_str));
        for mut event in std::iter::once(action).chain(exec.events) {
            event.attributes.push(("msg_index".to_owned(), index.to_string()));
            events.push(event);
        }
        msg_responses.push(response);
    }
    Ok((TxMsgData { data: Vec::new(), msg_responses }.encode_to_vec(), events))
}

pub(super) fn out_of_gas(gas: &Gas, location: &str) -> LedgerError {
    let (wanted, used) = (gas.limit(), gas.used());
    LedgerError::sdk(11, format!("out of gas in location: {location}; gasWanted: {wanted}, gasUsed: {used}"))
}

/// The SDK's own event of every message; `module` is the package segment after the namespace word.
fn message_event(type_url: &str, sender: &str) -> Event {
    let module = type_url.trim_start_matches('/').split('.').nth(1).unwrap_or_default();
    Event::new("message", [("action", type_url), ("sender", sender), ("module", module)])
}

/// A message packed as `Any`.
pub(super) fn any(type_url: impl Into<String>, message: &impl Message) -> Any {
    Any { type_url: type_url.into(), value: message.encode_to_vec() }
}

/// What the modules do before the first transaction of a block; yields the block's events.
pub fn begin_block(state: &mut State, chain: &Chain, block: Block) -> Vec<Event> {
    let gas = Gas::unlimited();
    let mut exec = Exec::unpaid(state, chain, block, &gas);
    modules::td::distribute_yield(&mut exec);
    with_mode(exec.events, "BeginBlock")
}

/// What the modules do after the last transaction of a block; yields the block's events.
pub fn end_block(state: &mut State, chain: &Chain, block: Block) -> Vec<Event> {
    let gas = Gas::unlimited();
    let mut exec = Exec::unpaid(state, chain, block, &gas);
    modules::feegrant::prune_expired(&mut exec);
    modules::gov::end_block(&mut exec);
    modules::group::close_expired(&mut exec);
    with_mode(exec.events, "EndBlock")
}

/// The SDK marks events of a block with the phase they come from.
fn with_mode(mut events: Vec<Event>, mode: &str) -> Vec<Event> {
    for event in &mut events {
        event.attributes.push(("mode".to_owned(), mode.to_owned()));
    }
    events
}
