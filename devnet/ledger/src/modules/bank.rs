//! x/bank: balances and transfers.

use num_bigint::BigUint;
use svc_wire::{
    address::{Address, module_account_address},
    proto::cosmos::{
        bank::v1beta1::{MsgSend, MsgSendResponse},
        base::v1beta1::Coin,
    },
};

use super::auth;
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    gas::GasMeter,
    state::{LedgerState, table::PlainValue},
    values::validate,
};

/// Name of the module account that trust deposit yield is paid from.
pub const YIELD_POOL: &str = "yield_intermediate_pool";

/// Amounts as (denom, amount), in the order given.
pub type CoinAmounts = Vec<(String, u128)>;

/// Parses a coin set; fails unless denoms are sorted and unique and amounts are positive.
pub fn parse_coins(coins: &[Coin]) -> Result<CoinAmounts, String> {
    let mut amounts: CoinAmounts = Vec::with_capacity(coins.len());
    for coin in coins {
        let amount = parse_amount(&coin.amount).ok_or_else(|| format!("{:?} is not an amount", coin.amount))?;
        if amount == 0 {
            return Err(format!("coin {}{} is not positive", coin.amount, coin.denom));
        }
        if !validate::is_denom(&coin.denom) {
            return Err(format!("invalid denom: {}", coin.denom));
        }
        if amounts.last().is_some_and(|(last, _)| *last >= coin.denom) {
            return Err(format!("denom {} is not sorted or repeats", coin.denom));
        }
        amounts.push((coin.denom.clone(), amount));
    }
    Ok(amounts)
}

/// Parses decimal digits of at most 256 bits. A value above `u128::MAX` becomes `u128::MAX`: no balance reaches it.
fn parse_amount(text: &str) -> Option<u128> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value: BigUint = text.parse().ok().filter(|_| is_digits && text.len() <= 78)?;
    (value.bits() <= 256).then(|| u128::try_from(value).unwrap_or(u128::MAX))
}

/// Converts amounts to coins.
pub fn to_coins(amounts: &[(String, u128)]) -> Vec<Coin> {
    amounts.iter().map(|(denom, amount)| Coin { denom: denom.clone(), amount: amount.to_string() }).collect()
}

/// Formats coins, for example `5000usvc,7other`.
pub fn coins_text(coins: &[Coin]) -> String {
    coins.iter().map(|coin| format!("{}{}", coin.amount, coin.denom)).collect::<Vec<_>>().join(",")
}

/// Returns the address of a module account.
pub fn module_address(chain: &ChainConfig, name: &str) -> String {
    // The prefix is checked at the creation of the chain.
    Address::from_bytes(&chain.prefix, &module_account_address(name))
        .map(|address| address.to_string())
        .unwrap_or_default()
}

/// Returns the balance of an account in one denom.
pub fn balance(state: &LedgerState, address: &str, denom: &str, gas: &GasMeter) -> u128 {
    state.balances.get(&(address.to_owned(), denom.to_owned()), gas).map_or(0, |amount| amount.0)
}

fn set_balance(state: &mut LedgerState, address: &str, denom: &str, amount: u128, gas: &GasMeter) {
    let key = (address.to_owned(), denom.to_owned());
    if amount == 0 {
        state.balances.remove(&key, gas);
    } else {
        state.balances.put(key, PlainValue(amount), gas);
    }
}

/// Mints coins; genesis alone does.
pub fn mint(state: &mut LedgerState, address: &str, denom: &str, amount: u128) {
    let gas = GasMeter::unlimited();
    auth::ensure_account(state, address, &gas);
    let held = balance(state, address, denom, &gas);
    set_balance(state, address, denom, held.saturating_add(amount), &gas);
    let supply = state.supply.get(&denom.to_owned(), &gas).map_or(0, |supply| supply.0);
    state.supply.put(denom.to_owned(), PlainValue(supply.saturating_add(amount)), &gas);
}

/// Moves coins; creates the receiver's account if it is new.
pub fn transfer(
    exec: &mut ExecContext<'_>,
    from: &str,
    to: &str,
    amounts: &[(String, u128)],
) -> Result<(), LedgerError> {
    for (denom, amount) in amounts {
        let held = balance(exec.state, from, denom, exec.gas);
        let Some(rest) = held.checked_sub(*amount) else {
            return Err(LedgerError::sdk(
                5,
                format!("spendable balance {held}{denom} is smaller than {amount}{denom}"),
            ));
        };
        set_balance(exec.state, from, denom, rest, exec.gas);
        let received = balance(exec.state, to, denom, exec.gas).saturating_add(*amount);
        set_balance(exec.state, to, denom, received, exec.gas);
    }
    auth::ensure_account(exec.state, to, exec.gas);
    let text = coins_text(&to_coins(amounts));
    exec.emit("coin_spent", [("spender", from), ("amount", &text)]);
    exec.emit("coin_received", [("receiver", to), ("amount", &text)]);
    exec.emit("transfer", [("recipient", to), ("sender", from), ("amount", &text)]);
    exec.emit("message", [("sender", from)]);
    Ok(())
}

/// Moves an amount of the fee denom; 0 is a success without effect.
pub fn transfer_fee_denom(exec: &mut ExecContext<'_>, from: &str, to: &str, amount: u128) -> Result<(), LedgerError> {
    if amount == 0 {
        return Ok(());
    }
    let denom = exec.chain.denom.clone();
    transfer(exec, from, to, &[(denom, amount)])
}

/// Burns coins of the fee denom that a module account holds.
pub fn burn_fee_denom(exec: &mut ExecContext<'_>, module: &str, amount: u128) -> Result<(), LedgerError> {
    let (denom, burner) = (exec.chain.denom.clone(), module_address(exec.chain, module));
    let held = balance(exec.state, &burner, &denom, exec.gas);
    let Some(rest) = held.checked_sub(amount) else {
        return Err(LedgerError::sdk(5, format!("spendable balance {held}{denom} is smaller than {amount}{denom}")));
    };
    set_balance(exec.state, &burner, &denom, rest, exec.gas);
    let supply = exec.state.supply.get(&denom, exec.gas).map_or(0, |supply| supply.0);
    exec.state.supply.put(denom.clone(), PlainValue(supply.saturating_sub(amount)), exec.gas);
    let text = format!("{amount}{denom}");
    exec.emit("coin_spent", [("spender", &burner), ("amount", &text)]);
    exec.emit("burn", [("burner", &burner), ("amount", &text)]);
    Ok(())
}

pub fn validate_send(chain: &ChainConfig, message: &MsgSend) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "from", &message.from_address)?;
    validate::address(&chain.prefix, "to", &message.to_address)?;
    let amounts = parse_coins(&message.amount).map_err(|text| LedgerError::sdk(10, text))?;
    if amounts.is_empty() { Err(LedgerError::sdk(10, coins_text(&message.amount))) } else { Ok(()) }
}

pub fn send(exec: &mut ExecContext<'_>, message: MsgSend) -> Result<MsgSendResponse, LedgerError> {
    let amounts = parse_coins(&message.amount).map_err(|text| LedgerError::sdk(10, text))?;
    transfer(exec, &message.from_address, &message.to_address, &amounts)?;
    Ok(MsgSendResponse {})
}
