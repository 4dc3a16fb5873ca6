//! Messages about validators. The devnet has no validators of staking: an account with stake stands for one.

use prost::Message;
use prost_types::Any;

use super::{policy, seats};
use crate::{context::ExecContext, error::LedgerError, modules::bank, state::table::PlainValue, values::validate};

/// Stake of each validator, in base units of the fee denom.
const BOND: u128 = 1_000_000;
const MAX_VALIDATORS: usize = 25;
const BONDED_POOL: &str = "bonded_tokens_pool";

/// A message of the council about a validator.
#[derive(Clone, PartialEq, Message)]
pub struct MsgAddValidator {
    #[prost(string, tag = "1")]
    authority: String,
    #[prost(string, tag = "2")]
    validator_address: String,
    #[prost(message, optional, tag = "4")]
    pubkey: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub struct MsgRemoveValidator {
    #[prost(string, tag = "1")]
    authority: String,
    #[prost(string, tag = "2")]
    validator_address: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct MsgSelfRemoveValidator {
    #[prost(string, tag = "1")]
    validator_address: String,
}

/// A response without members.
#[derive(Clone, PartialEq, Message)]
pub struct Done {}

/// Bonds a member of the council, with coins that are made for it.
pub fn add_validator(exec: &mut ExecContext<'_>, message: MsgAddValidator) -> Result<Done, LedgerError> {
    ensure_council(exec, &message.authority)?;
    let address = message.validator_address;
    validate::address(&exec.chain.prefix, "validator", &address)?;
    if !seats(exec.state).contains(&address) {
        return Err(LedgerError::new("poa", 3, address));
    }
    if exec.state.bonded.contains(&address, exec.gas) {
        return Err(LedgerError::new("poa", 5, address));
    }
    if exec.state.bonded.values().count() >= MAX_VALIDATORS {
        return Err(LedgerError::new("poa", 4, MAX_VALIDATORS.to_string()));
    }
    let pool = bank::module_address(exec.chain, BONDED_POOL);
    bank::mint(exec.state, &pool, &exec.chain.denom, BOND);
    exec.state.bonded.put(address.clone(), PlainValue(BOND), exec.gas);
    exec.emit("add_validator", [("validator", address), ("tokens", BOND.to_string())]);
    Ok(Done {})
}

pub fn remove_validator(exec: &mut ExecContext<'_>, message: MsgRemoveValidator) -> Result<Done, LedgerError> {
    ensure_council(exec, &message.authority)?;
    remove(exec, message.validator_address)
}

pub fn self_remove_validator(exec: &mut ExecContext<'_>, message: MsgSelfRemoveValidator) -> Result<Done, LedgerError> {
    remove(exec, message.validator_address)
}

fn ensure_council(exec: &ExecContext<'_>, authority: &str) -> Result<(), LedgerError> {
    match policy(exec.state, exec.chain) {
        Some(council) if council.address == authority => Ok(()),
        Some(council) => {
            let text = format!("invalid authority; expected {}, got {authority}", council.address);
            Err(LedgerError::new("poa", 2, text))
        }
        None => Err(LedgerError::new("poa", 2, "no council")),
    }
}

/// Takes a validator's stake and burns it; one validator has to stay.
fn remove(exec: &mut ExecContext<'_>, address: String) -> Result<Done, LedgerError> {
    let Some(stake) = exec.state.bonded.get(&address, exec.gas).map(|stake| stake.0) else {
        return Err(LedgerError::new("poa", 7, address));
    };
    if exec.state.bonded.values().count() == 1 {
        return Err(LedgerError::new("poa", 11, address));
    }
    bank::burn_fee_denom(exec, BONDED_POOL, stake)?;
    exec.state.bonded.remove(&address, exec.gas);
    exec.emit("remove_validator", [("validator", address), ("tokens", stake.to_string())]);
    Ok(Done {})
}
