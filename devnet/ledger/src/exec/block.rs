//! The begin and the end of a block.

use crate::{
    chain::{BlockContext, ChainConfig},
    context::{ExecContext, LedgerEvent},
    gas::GasMeter,
    migration,
    modules::{de, feegrant, gov, group, routes::ROUTER, td},
    state::LedgerState,
};

/// Migrates the state if the block is the first one of another release, and runs the begin-block hooks of the modules; returns their events.
pub fn begin_block(state: &mut LedgerState, chain: &ChainConfig, block: BlockContext) -> Vec<LedgerEvent> {
    let gas = GasMeter::unlimited();
    let mut exec = ExecContext::without_fee(state, chain, block, &gas);
    if let Some(plan) = chain.upgrades.at(block.height) {
        migration::apply(&mut exec, plan.generation);
    }
    td::distribute_yield(&mut exec);
    with_mode_attribute(exec.events, "BeginBlock")
}

/// Runs the end-block hooks of the modules; returns their events.
pub fn end_block(state: &mut LedgerState, chain: &ChainConfig, block: BlockContext) -> Vec<LedgerEvent> {
    let gas = GasMeter::unlimited();
    let mut exec = ExecContext::without_fee(state, chain, block, &gas);
    feegrant::prune_expired(&mut exec);
    gov::end_block(&mut exec, &ROUTER);
    group::close_expired_proposals(&mut exec);
    de::end_vs_fees(&mut exec);
    with_mode_attribute(exec.events, "EndBlock")
}

/// The SDK marks each event of a block with the phase that emitted it.
fn with_mode_attribute(mut events: Vec<LedgerEvent>, mode: &str) -> Vec<LedgerEvent> {
    for event in &mut events {
        event.attributes.push(("mode".to_owned(), mode.to_owned()));
    }
    events
}
