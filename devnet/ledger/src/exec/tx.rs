//! Execution of one transaction: ante checks, messages, outcome.

use prost::Message;
use svc_wire::proto::cosmos::base::abci::v1beta1::TxMsgData;

use super::ante::{self, AnteOutcome, ExecMode};
use crate::{
    chain::{BlockContext, ChainConfig},
    context::{ExecContext, LedgerEvent},
    error::LedgerError,
    gas::GasMeter,
    modules::routes,
    state::LedgerState,
};

/// Result of a transaction.
#[derive(Debug, Clone, Default)]
pub struct TxOutcome {
    /// 0 on success.
    pub code: u32,
    /// Codespace of the code.
    pub codespace: String,
    /// Encoded `TxMsgData`; empty on failure.
    pub data: Vec<u8>,
    /// Error text; empty on success.
    pub log: String,
    /// Gas limit.
    pub gas_wanted: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Events in order.
    pub events: Vec<LedgerEvent>,
}

/// Runs a transaction of a block. Fees and sequence stay spent if a message fails.
pub fn deliver(state: &mut LedgerState, chain: &ChainConfig, block: BlockContext, bytes: &[u8]) -> TxOutcome {
    run_tx(state, chain, block, bytes, ExecMode::Deliver)
}

/// Runs a transaction on a copy of `state` and returns its outcome. Signatures are not verified and gas is not limited.
pub fn simulate(state: &LedgerState, chain: &ChainConfig, block: BlockContext, bytes: &[u8]) -> TxOutcome {
    run_tx(&mut state.clone(), chain, block, bytes, ExecMode::Simulate)
}

fn run_tx(
    state: &mut LedgerState,
    chain: &ChainConfig,
    block: BlockContext,
    bytes: &[u8],
    mode: ExecMode,
) -> TxOutcome {
    let mut after_ante = state.clone();
    let passed = match ante::run_ante(&mut after_ante, chain, block, bytes, mode) {
        Ok(passed) => passed,
        Err((error, gas)) => return failed_outcome(error, &gas, Vec::new()),
    };
    let mut events = passed.events.clone();
    let gas = &passed.gas;
    let mut after_messages = after_ante.clone();
    // Fees are spent even if a message fails.
    *state = after_ante;
    match run_messages(&mut after_messages, chain, block, gas, &passed) {
        Ok((data, message_events)) => {
            *state = after_messages;
            events.extend(message_events);
            TxOutcome { data, gas_wanted: gas_wanted(gas), gas_used: gas.used(), events, ..TxOutcome::default() }
        }
        Err(error) => failed_outcome(error, gas, events),
    }
}

fn gas_wanted(gas: &GasMeter) -> u64 {
    if gas.limit() == u64::MAX { 0 } else { gas.limit() }
}

fn failed_outcome(error: LedgerError, gas: &GasMeter, events: Vec<LedgerEvent>) -> TxOutcome {
    TxOutcome {
        code: error.code,
        codespace: error.codespace.to_owned(),
        log: error.text,
        gas_wanted: gas_wanted(gas),
        gas_used: gas.used(),
        events,
        data: Vec::new(),
    }
}

fn run_messages(
    state: &mut LedgerState,
    chain: &ChainConfig,
    block: BlockContext,
    gas: &GasMeter,
    passed: &AnteOutcome,
) -> Result<(Vec<u8>, Vec<LedgerEvent>), LedgerError> {
    let (mut msg_responses, mut events) = (Vec::new(), Vec::new());
    for (index, message) in passed.body.messages.iter().enumerate() {
        let mut exec = ExecContext { state, chain, block, gas, fee: Some(&passed.fee), events: Vec::new() };
        let failed = |error: LedgerError| match error.is_panic() {
            true => error,
            false => error.wrap(format!("failed to execute message; message index: {index}")),
        };
        let response = routes::run(&mut exec, message);
        // Out of gas overrides the result of the handler.
        if gas.is_exceeded() {
            return Err(gas.out_of_gas_error("store"));
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

/// The SDK's `message` event; its `module` is the package segment after the namespace.
fn message_event(type_url: &str, sender: &str) -> LedgerEvent {
    let module = type_url.trim_start_matches('/').split('.').nth(1).unwrap_or_default();
    LedgerEvent::new("message", [("action", type_url), ("sender", sender), ("module", module)])
}
