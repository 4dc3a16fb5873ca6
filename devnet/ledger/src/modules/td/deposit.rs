//! Trust deposits: stake, release, burn, yield.

use svc_wire::{proto::svc::td::v1::TrustDeposit, timestamp};

use crate::{
    context::ExecContext,
    error::LedgerError,
    modules::{bank, de},
    state::LedgerState,
    values::decimal::LegacyDec,
};

pub fn parse_dec(text: &str) -> LegacyDec {
    LegacyDec::from_wire(text).unwrap_or_default()
}

/// Returns the value of one share of the pool; it never falls.
pub fn share_value(state: &LedgerState) -> LegacyDec {
    parse_dec(&state.params.td.trust_deposit_share_value)
}

/// Returns the share of an amount that is staked.
pub fn deposit_rate(state: &LedgerState) -> LegacyDec {
    parse_dec(&state.params.td.trust_deposit_rate)
}

/// Returns the shares of session fees that reward (the user agent, the wallet's agent).
pub fn agent_rates(state: &LedgerState) -> (LegacyDec, LegacyDec) {
    let params = &state.params.td;
    (parse_dec(&params.user_agent_reward_rate), parse_dec(&params.wallet_user_agent_reward_rate))
}

/// Returns the trust deposit of an amount, rounded towards zero.
pub fn required_deposit(state: &LedgerState, basis: u64) -> Result<u64, LedgerError> {
    to_u64(&LegacyDec::from_integer(basis).mul(&deposit_rate(state)))
}

/// Converts to an amount, which the chain keeps in a signed 64-bit integer; fails if it does not fit.
pub fn to_u64(value: &LegacyDec) -> Result<u64, LedgerError> {
    value.truncate().and_then(|whole| ensure_int64(whole).ok()).ok_or_else(|| overflow_error(value))
}

/// Fails unless an amount fits a signed 64-bit integer.
pub fn ensure_int64(value: u128) -> Result<u64, LedgerError> {
    i64::try_from(value).map(i64::unsigned_abs).map_err(|_| overflow_error(value))
}

fn overflow_error(value: impl std::fmt::Display) -> LedgerError {
    LedgerError::unregistered(format!("amount {value} does not fit int64"))
}

pub fn add_amounts(left: u64, right: u64) -> Result<u64, LedgerError> {
    ensure_int64(u128::from(left) + u128::from(right))
}

pub fn shares_of_amount(state: &LedgerState, amount: u64) -> LegacyDec {
    LegacyDec::from_integer(amount).quo(&share_value(state)).unwrap_or_default()
}

pub fn has_outstanding_slash(entry: &TrustDeposit) -> bool {
    entry.slashed_deposit > entry.repaid_deposit
}

pub fn load(exec: &ExecContext<'_>, corporation_id: u64) -> Option<TrustDeposit> {
    exec.state.trust_deposits.get(&corporation_id, exec.gas).cloned()
}

pub fn store(exec: &mut ExecContext<'_>, entry: TrustDeposit) {
    exec.state.trust_deposits.put(entry.corporation_id, entry, exec.gas);
}

fn require_corporation(exec: &ExecContext<'_>, account: &str) -> Result<u64, LedgerError> {
    de::find_corporation(exec, account)
        .ok_or_else(|| LedgerError::unregistered(format!("no corporation behind account {account}")))
}

pub fn pay_to_pool(exec: &mut ExecContext<'_>, from: &str, amount: u64) -> Result<(), LedgerError> {
    bank::transfer_fee_denom(exec, from, &bank::module_address(exec.chain, "td"), u128::from(amount))
}

/// A change of a deposit, as its event describes it.
struct DepositAdjustment<'a> {
    kind: &'static str,
    amount: u64,
    reason: Option<&'a str>,
}

fn emit_adjustment(
    exec: &mut ExecContext<'_>,
    account: &str,
    entry: &TrustDeposit,
    adjustment: &DepositAdjustment<'_>,
) {
    let sign = if adjustment.kind == "decrease" { "-" } else { "" };
    let mut attributes = vec![
        ("corporation_id", entry.corporation_id.to_string()),
        ("account", account.to_owned()),
        ("augend", format!("{sign}{}", adjustment.amount)),
        ("adjustment_type", adjustment.kind.to_owned()),
        ("new_amount", entry.deposit.to_string()),
        ("new_share", parse_dec(&entry.share).to_string()),
        ("new_refunded", entry.refunded.to_string()),
    ];
    attributes.extend(adjustment.reason.map(|reason| ("reason", reason.to_owned())));
    attributes.push(("timestamp", timestamp::go_time_text(&exec.block_time())));
    exec.emit_attributes("adjust_trust_deposit", attributes);
}

/// Stakes `amount` of an account, first from the released part of its deposit.
pub fn increase(exec: &mut ExecContext<'_>, account: &str, amount: u64, reason: &str) -> Result<(), LedgerError> {
    let adjustment = DepositAdjustment { kind: "increase", amount, reason: Some(reason) };
    stake(exec, account, account, &adjustment)
}

/// Stakes `amount` for an account; `funder` pays the part that is not released.
pub fn increase_on_behalf(
    exec: &mut ExecContext<'_>,
    account: &str,
    funder: &str,
    amount: u64,
) -> Result<(), LedgerError> {
    stake(exec, account, funder, &DepositAdjustment { kind: "increase_on_behalf", amount, reason: None })
}

fn stake(
    exec: &mut ExecContext<'_>,
    account: &str,
    payer: &str,
    adjustment: &DepositAdjustment<'_>,
) -> Result<(), LedgerError> {
    let amount = adjustment.amount;
    if amount == 0 {
        return Ok(());
    }
    let corporation_id = require_corporation(exec, account)?;
    let mut entry = load(exec, corporation_id).unwrap_or_else(|| TrustDeposit {
        corporation_id,
        share: LegacyDec::default().to_wire(),
        ..TrustDeposit::default()
    });
    if has_outstanding_slash(&entry) {
        return Err(LedgerError::unregistered(format!(
            "trust deposit of corporation {corporation_id} has been slashed and not repaid"
        )));
    }
    let shortfall = amount.saturating_sub(entry.refunded);
    entry.refunded = entry.refunded.saturating_sub(amount);
    if shortfall > 0 {
        entry.deposit = add_amounts(entry.deposit, shortfall)?;
        entry.share = parse_dec(&entry.share).add(&shares_of_amount(exec.state, shortfall)).to_wire();
        pay_to_pool(exec, payer, shortfall)?;
    }
    emit_adjustment(exec, account, &entry, adjustment);
    store(exec, entry);
    Ok(())
}

/// Releases `amount` of a deposit for re-use. No coins move: deposit and share do not change.
pub fn release(exec: &mut ExecContext<'_>, account: &str, amount: u64, reason: &str) -> Result<(), LedgerError> {
    if amount == 0 {
        return Ok(());
    }
    let corporation_id = require_corporation(exec, account)?;
    let Some(mut entry) = load(exec, corporation_id) else {
        return Err(LedgerError::unregistered(format!("trust deposit of corporation {corporation_id} not found")));
    };
    if has_outstanding_slash(&entry) {
        return Err(LedgerError::unregistered(format!(
            "trust deposit of corporation {corporation_id} has been slashed and not repaid"
        )));
    }
    let refunded = add_amounts(entry.refunded, amount)?;
    if refunded > entry.deposit {
        return Err(LedgerError::unregistered(format!(
            "cannot release {amount}: {} of {} are released already",
            entry.refunded, entry.deposit
        )));
    }
    entry.refunded = refunded;
    let adjustment = DepositAdjustment { kind: "decrease", amount, reason: Some(reason) };
    emit_adjustment(exec, account, &entry, &adjustment);
    store(exec, entry);
    Ok(())
}

/// Burns the amount that an ecosystem slashes. Quirk: the slash counters and `refunded` do not change.
pub fn burn_ecosystem_slash(exec: &mut ExecContext<'_>, account: &str, amount: u64) -> Result<(), LedgerError> {
    let corporation_id = require_corporation(exec, account)?;
    let Some(mut entry) = load(exec, corporation_id) else {
        return Err(LedgerError::unregistered(format!("trust deposit of corporation {corporation_id} not found")));
    };
    let Some(left) = entry.deposit.checked_sub(amount) else {
        return Err(LedgerError::unregistered(format!("cannot burn {amount}: the deposit is {}", entry.deposit)));
    };
    entry.deposit = left;
    entry.share = parse_dec(&entry.share).sub(&shares_of_amount(exec.state, amount)).floor_at_zero().to_wire();
    bank::burn_fee_denom(exec, "td", u128::from(amount))?;
    let now = exec.block_time();
    exec.emit(
        "burn_ecosystem_slashed_trust_deposit",
        [
            ("corporation_id", corporation_id.to_string()),
            ("account", account.to_owned()),
            ("amount", amount.to_string()),
            ("new_amount", entry.deposit.to_string()),
            ("new_share", parse_dec(&entry.share).to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    store(exec, entry);
    Ok(())
}

/// Pays yield from the pool to the deposits, which raises the share value, and the rest of the pool to the community; runs at
/// the begin of a block. Without effect, also on the dust, while the yield is less than one coin.
pub fn distribute_yield(exec: &mut ExecContext<'_>) {
    let denom = exec.chain.denom.clone();
    let (pool, deposits) = (bank::module_address(exec.chain, bank::YIELD_POOL), bank::module_address(exec.chain, "td"));
    let before = bank::balance(exec.state, &deposits, &denom, exec.gas);
    let available = bank::balance(exec.state, &pool, &denom, exec.gas);
    if available == 0 {
        return;
    }
    let yearly = LegacyDec::from_integer(before).mul(&parse_dec(&exec.state.params.td.trust_deposit_max_yield_rate));
    let due = yearly.quo(&LegacyDec::from_integer(exec.chain.blocks_per_year)).unwrap_or_default();
    let due = exec.state.yield_dust.add(&due).min(LegacyDec::from_integer(available));
    let Some(paid) = due.truncate().filter(|paid| *paid > 0) else { return };
    let after = LegacyDec::from_integer(before + paid);
    let Some(growth) = after.quo(&LegacyDec::from_integer(before)) else { return };
    // Cannot fail: the balance of the pool was read above.
    if bank::transfer_fee_denom(exec, &pool, &deposits, paid).is_err() {
        return;
    }
    let value = share_value(exec.state).mul(&growth);
    exec.state.params.td.trust_deposit_share_value = value.to_wire();
    exec.state.yield_dust = due.fraction();
    let rest = available - paid;
    let community = bank::module_address(exec.chain, "protocolpool");
    if rest > 0 && bank::transfer_fee_denom(exec, &pool, &community, rest).is_err() {
        return;
    }
    exec.emit(
        "yield_distribution",
        [("amount", paid.to_string()), ("share_value", value.to_string()), ("dust", exec.state.yield_dust.to_string())],
    );
    exec.emit("yield_transfer", [("recipient", community), ("amount", rest.to_string())]);
}
