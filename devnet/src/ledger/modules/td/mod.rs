//! Trust deposits: what corporations stake, and what yields. Money moves from and to policy accounts.

mod messages;

use svc_wire::{instant, proto::svc::td::v1::TrustDeposit};

use super::{bank, de};
use crate::ledger::{decimal::Dec, error::LedgerError, exec::Exec, state::State};

pub use messages::{reclaim, repay, slash, update_params, validate_reclaim, validate_repay, validate_slash};

fn dec(text: &str) -> Dec {
    Dec::from_wire(text).unwrap_or_default()
}

/// Value of one share of the pool; it only rises.
pub fn share_value(state: &State) -> Dec {
    dec(&state.params.td.trust_deposit_share_value)
}

/// Share of an amount that is staked.
pub fn deposit_rate(state: &State) -> Dec {
    dec(&state.params.td.trust_deposit_rate)
}

/// Shares of session fees that reward the user agent and the wallet's agent.
pub fn agent_rates(state: &State) -> (Dec, Dec) {
    let params = &state.params.td;
    (dec(&params.user_agent_reward_rate), dec(&params.wallet_user_agent_reward_rate))
}

/// Trust deposit of an amount: cut towards zero.
pub fn deposit_of(state: &State, basis: u64) -> Result<u64, LedgerError> {
    to_u64(&Dec::from_integer(basis).mul(&deposit_rate(state)))
}

/// Amounts live in signed 64-bit integers on the chain; what does not fit aborts.
pub fn to_u64(value: &Dec) -> Result<u64, LedgerError> {
    value.truncate().and_then(|whole| int64(whole).ok()).ok_or_else(|| overflow(value))
}

/// An amount that fits a signed 64-bit integer, or an abort.
pub fn int64(value: u128) -> Result<u64, LedgerError> {
    i64::try_from(value).map(i64::unsigned_abs).map_err(|_| overflow(value))
}

fn overflow(value: impl std::fmt::Display) -> LedgerError {
    LedgerError::plain(format!("amount {value} does not fit int64"))
}

fn sum(left: u64, right: u64) -> Result<u64, LedgerError> {
    int64(u128::from(left) + u128::from(right))
}

fn shares(state: &State, amount: u64) -> Dec {
    Dec::from_integer(amount).quo(&share_value(state)).unwrap_or_default()
}

fn has_outstanding_slash(entry: &TrustDeposit) -> bool {
    entry.slashed_deposit > entry.repaid_deposit
}

fn load(exec: &Exec<'_>, corporation_id: u64) -> Option<TrustDeposit> {
    exec.state.trust_deposits.get(&corporation_id, exec.gas).cloned()
}

fn store(exec: &mut Exec<'_>, entry: TrustDeposit) {
    exec.state.trust_deposits.put(entry.corporation_id, entry, exec.gas);
}

fn owner(exec: &Exec<'_>, account: &str) -> Result<u64, LedgerError> {
    de::corporation_of(exec, account)
        .ok_or_else(|| LedgerError::plain(format!("no corporation behind account {account}")))
}

fn to_pool(exec: &mut Exec<'_>, from: &str, amount: u64) -> Result<(), LedgerError> {
    bank::pay(exec, from, &bank::module_address(exec.chain, "td"), u128::from(amount))
}

/// A change of a deposit as its event tells it.
struct Adjustment<'a> {
    kind: &'static str,
    amount: u64,
    reason: Option<&'a str>,
}

fn adjusted(exec: &mut Exec<'_>, account: &str, entry: &TrustDeposit, adjustment: &Adjustment<'_>) {
    let sign = if adjustment.kind == "decrease" { "-" } else { "" };
    let mut attributes = vec![
        ("corporation_id", entry.corporation_id.to_string()),
        ("account", account.to_owned()),
        ("augend", format!("{sign}{}", adjustment.amount)),
        ("adjustment_type", adjustment.kind.to_owned()),
        ("new_amount", entry.deposit.to_string()),
        ("new_share", dec(&entry.share).to_string()),
        ("new_refunded", entry.refunded.to_string()),
    ];
    attributes.extend(adjustment.reason.map(|reason| ("reason", reason.to_owned())));
    attributes.push(("timestamp", instant::go_text(&exec.now())));
    exec.emit_all("adjust_trust_deposit", attributes);
}

/// Stakes `amount` of an account, first from what was released before.
pub fn increase(exec: &mut Exec<'_>, account: &str, amount: u64, reason: &str) -> Result<(), LedgerError> {
    let adjustment = Adjustment { kind: "increase", amount, reason: Some(reason) };
    stake(exec, account, account, &adjustment)
}

/// Stakes `amount` for an account, what is short paid by `funder`.
pub fn increase_on_behalf(exec: &mut Exec<'_>, account: &str, funder: &str, amount: u64) -> Result<(), LedgerError> {
    stake(exec, account, funder, &Adjustment { kind: "increase_on_behalf", amount, reason: None })
}

fn stake(exec: &mut Exec<'_>, account: &str, payer: &str, adjustment: &Adjustment<'_>) -> Result<(), LedgerError> {
    let amount = adjustment.amount;
    if amount == 0 {
        return Ok(());
    }
    let corporation_id = owner(exec, account)?;
    let mut entry = load(exec, corporation_id).unwrap_or_else(|| TrustDeposit {
        corporation_id,
        share: Dec::default().to_wire(),
        ..TrustDeposit::default()
    });
    if has_outstanding_slash(&entry) {
        return Err(LedgerError::plain(format!(
            "trust deposit of corporation {corporation_id} has been slashed and not repaid"
        )));
    }
    let shortfall = amount.saturating_sub(entry.refunded);
    entry.refunded = entry.refunded.saturating_sub(amount);
    if shortfall > 0 {
        entry.deposit = sum(entry.deposit, shortfall)?;
        entry.share = dec(&entry.share).add(&shares(exec.state, shortfall)).to_wire();
        to_pool(exec, payer, shortfall)?;
    }
    adjusted(exec, account, &entry, adjustment);
    store(exec, entry);
    Ok(())
}

/// Sets `amount` of a deposit free for re-use. No coins move: deposit and share stay.
pub fn release(exec: &mut Exec<'_>, account: &str, amount: u64, reason: &str) -> Result<(), LedgerError> {
    if amount == 0 {
        return Ok(());
    }
    let corporation_id = owner(exec, account)?;
    let Some(mut entry) = load(exec, corporation_id) else {
        return Err(LedgerError::plain(format!("trust deposit of corporation {corporation_id} not found")));
    };
    if has_outstanding_slash(&entry) {
        return Err(LedgerError::plain(format!(
            "trust deposit of corporation {corporation_id} has been slashed and not repaid"
        )));
    }
    let refunded = sum(entry.refunded, amount)?;
    if refunded > entry.deposit {
        return Err(LedgerError::plain(format!(
            "cannot release {amount}: {} of {} are released already",
            entry.refunded, entry.deposit
        )));
    }
    entry.refunded = refunded;
    let adjustment = Adjustment { kind: "decrease", amount, reason: Some(reason) };
    adjusted(exec, account, &entry, &adjustment);
    store(exec, entry);
    Ok(())
}

/// Burns what an ecosystem slashes. Quirk: neither the slash counters nor `refunded` change.
pub fn burn_ecosystem_slash(exec: &mut Exec<'_>, account: &str, amount: u64) -> Result<(), LedgerError> {
    let corporation_id = owner(exec, account)?;
    let Some(mut entry) = load(exec, corporation_id) else {
        return Err(LedgerError::plain(format!("trust deposit of corporation {corporation_id} not found")));
    };
    let Some(left) = entry.deposit.checked_sub(amount) else {
        return Err(LedgerError::plain(format!("cannot burn {amount}: the deposit is {}", entry.deposit)));
    };
    entry.deposit = left;
    entry.share = dec(&entry.share).sub(&shares(exec.state, amount)).floor_at_zero().to_wire();
    bank::burn(exec, "td", u128::from(amount))?;
    let now = exec.now();
    exec.emit(
        "burn_ecosystem_slashed_trust_deposit",
        [
            ("corporation_id", corporation_id.to_string()),
            ("account", account.to_owned()),
            ("amount", amount.to_string()),
            ("new_amount", entry.deposit.to_string()),
            ("new_share", dec(&entry.share).to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    store(exec, entry);
    Ok(())
}

/// Begin of a block: pays yield from the pool to the deposits by raising the share value, and the rest of the pool to the
/// community. Nothing happens, and no dust is kept, while the yield is less than one coin.
pub fn distribute_yield(exec: &mut Exec<'_>) {
    let denom = exec.chain.denom.clone();
    let (pool, deposits) = (bank::module_address(exec.chain, bank::YIELD_POOL), bank::module_address(exec.chain, "td"));
    let before = bank::balance(exec.state, &deposits, &denom, exec.gas);
    let available = bank::balance(exec.state, &pool, &denom, exec.gas);
    if available == 0 {
        return;
    }
    let yearly = Dec::from_integer(before).mul(&dec(&exec.state.params.td.trust_deposit_max_yield_rate));
    let due = yearly.quo(&Dec::from_integer(exec.chain.blocks_per_year)).unwrap_or_default();
    let due = exec.state.yield_dust.add(&due).min(Dec::from_integer(available));
    let Some(paid) = due.truncate().filter(|paid| *paid > 0) else { return };
    let after = Dec::from_integer(before + paid);
    let Some(growth) = after.quo(&Dec::from_integer(before)) else { return };
    // The pool was seen to hold this much.
    if bank::pay(exec, &pool, &deposits, paid).is_err() {
        return;
    }
    let value = share_value(exec.state).mul(&growth);
    exec.state.params.td.trust_deposit_share_value = value.to_wire();
    exec.state.yield_dust = due.fraction();
    let rest = available - paid;
    let community = bank::module_address(exec.chain, "protocolpool");
    if rest > 0 && bank::pay(exec, &pool, &community, rest).is_err() {
        return;
    }
    exec.emit(
        "yield_distribution",
        [("amount", paid.to_string()), ("share_value", value.to_string()), ("dust", exec.state.yield_dust.to_string())],
    );
    exec.emit("yield_transfer", [("recipient", community), ("amount", rest.to_string())]);
}
