//! Messages: yield, slashes by governance and their repayment, parameters.

use svc_wire::{
    proto::svc::td::v1::{
        MsgReclaimTrustDepositYield, MsgReclaimTrustDepositYieldResponse, MsgRepaySlashedTrustDeposit,
        MsgRepaySlashedTrustDepositResponse, MsgSlashTrustDeposit, MsgSlashTrustDepositResponse, MsgUpdateParams,
        MsgUpdateParamsResponse, TrustDeposit,
    },
    timestamp,
};

use super::deposit::{
    add_amounts, ensure_int64, has_outstanding_slash, load, parse_dec, pay_to_pool, share_value, shares_of_amount,
    store, to_u64,
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{authority::ensure_authority, bank, de},
    values::{decimal::LegacyDec, validate},
};

const AUTHORIZATION: &str = "authorization check failed";

fn addresses(chain: &ChainConfig, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", corporation)?;
    validate::address(&chain.prefix, "operator", operator)
}

/// Runs AUTHZ-CHECK-1, then AUTHZ-CHECK-5. Quirk: in this order an unknown corporation is reported as a missing
/// authorization.
fn authorize(exec: &mut ExecContext<'_>, corporation: &str, operator: &str, name: &str) -> Result<u64, LedgerError> {
    let url = de::message_url(exec, "td", name);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap(AUTHORIZATION))?;
    de::require_corporation(exec, corporation, ("co", 1101))
}

fn require_deposit(exec: &ExecContext<'_>, corporation_id: u64) -> Result<TrustDeposit, LedgerError> {
    load(exec, corporation_id)
        .ok_or_else(|| LedgerError::unregistered(format!("trust deposit of corporation {corporation_id} not found")))
}

pub fn validate_reclaim(chain: &ChainConfig, message: &MsgReclaimTrustDepositYield) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)
}

pub fn reclaim(
    exec: &mut ExecContext<'_>,
    message: MsgReclaimTrustDepositYield,
) -> Result<MsgReclaimTrustDepositYieldResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgReclaimTrustDepositYield")?;
    let mut entry = require_deposit(exec, corporation_id)?;
    if has_outstanding_slash(&entry) {
        return Err(LedgerError::unregistered("trust deposit has been slashed and not repaid"));
    }
    let share = parse_dec(&entry.share);
    let claimable = share.mul(&share_value(exec.state)).sub(&LegacyDec::from_integer(entry.deposit));
    let claimed = if claimable.is_negative() { 0 } else { to_u64(&claimable)? };
    if claimed == 0 {
        return Err(LedgerError::unregistered("no claimable yield available"));
    }
    let reduced = shares_of_amount(exec.state, claimed);
    entry.share = share.sub(&reduced).to_wire();
    let pool = bank::module_address(exec.chain, "td");
    bank::transfer_fee_denom(exec, &pool, &message.corporation, u128::from(claimed))?;
    store(exec, entry);
    let now = exec.block_time();
    exec.emit(
        "reclaim_trust_deposit_yield",
        [
            ("corporation_id", corporation_id.to_string()),
            ("account", message.corporation),
            ("claimed_yield", claimed.to_string()),
            ("shares_reduced", reduced.to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgReclaimTrustDepositYieldResponse { claimed_amount: claimed })
}

pub fn validate_repay(chain: &ChainConfig, message: &MsgRepaySlashedTrustDeposit) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    if message.deposit == 0 {
        return Err(LedgerError::sdk(18, "deposit must be greater than 0"));
    }
    Ok(())
}

pub fn repay(
    exec: &mut ExecContext<'_>,
    message: MsgRepaySlashedTrustDeposit,
) -> Result<MsgRepaySlashedTrustDepositResponse, LedgerError> {
    let name = "MsgRepaySlashedTrustDeposit";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut entry = require_deposit(exec, corporation_id)?;
    let outstanding = entry.slashed_deposit.saturating_sub(entry.repaid_deposit);
    if message.deposit != outstanding {
        return Err(LedgerError::unregistered(format!(
            "deposit must be exactly the outstanding slash: {outstanding}, got {}",
            message.deposit
        )));
    }
    let amounts = vec![(exec.chain.denom.clone(), u128::from(message.deposit))];
    de::debit_authorization(
        exec,
        &message.corporation,
        &message.operator,
        &de::message_url(exec, "td", name),
        &amounts,
    )
    .map_err(|error| error.wrap("failed to consume operator spend"))?;
    pay_to_pool(exec, &message.corporation, message.deposit)?;
    entry.deposit = add_amounts(entry.deposit, message.deposit)?;
    entry.share = parse_dec(&entry.share).add(&shares_of_amount(exec.state, message.deposit)).to_wire();
    entry.repaid_deposit = add_amounts(entry.repaid_deposit, message.deposit)?;
    let now = exec.block_time();
    entry.last_repaid = Some(now);
    store(exec, entry);
    exec.emit(
        "repay_slashed_trust_deposit",
        [
            ("corporation_id", corporation_id.to_string()),
            ("account", message.corporation),
            ("amount", message.deposit.to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgRepaySlashedTrustDepositResponse {})
}

pub fn validate_slash(chain: &ChainConfig, message: &MsgSlashTrustDeposit) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "authority", &message.authority)?;
    if message.corporation_id == 0 {
        return Err(LedgerError::sdk(18, "corporation_id must be greater than 0"));
    }
    match message.deposit.parse::<u128>() {
        Ok(deposit) if deposit > 0 => Ok(()),
        _ => Err(LedgerError::sdk(18, format!("deposit must be a positive integer, got {:?}", message.deposit))),
    }
}

/// Slashes by governance: burns the amount, which is outstanding until it is repaid.
pub fn slash(
    exec: &mut ExecContext<'_>,
    message: MsgSlashTrustDeposit,
) -> Result<MsgSlashTrustDepositResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("td", 1100))?;
    let mut entry = require_deposit(exec, message.corporation_id)?;
    let amount = message.deposit.parse::<u128>().map_err(|error| LedgerError::unregistered(error.to_string()))?;
    let amount = ensure_int64(amount)?;
    let Some(left) = entry.deposit.checked_sub(amount) else {
        return Err(LedgerError::unregistered(format!("cannot slash {amount}: the deposit is {}", entry.deposit)));
    };
    entry.deposit = left;
    entry.share = parse_dec(&entry.share).sub(&shares_of_amount(exec.state, amount)).floor_at_zero().to_wire();
    entry.slashed_deposit = add_amounts(entry.slashed_deposit, amount)?;
    entry.slash_count += 1;
    entry.refunded = entry.refunded.min(entry.deposit);
    let now = exec.block_time();
    entry.last_slashed = Some(now);
    bank::burn_fee_denom(exec, "td", u128::from(amount))?;
    exec.emit(
        "slash_trust_deposit",
        [
            ("corporation_id", entry.corporation_id.to_string()),
            ("amount", amount.to_string()),
            ("slash_count", entry.slash_count.to_string()),
            ("reason", message.reason),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    store(exec, entry);
    Ok(MsgSlashTrustDepositResponse {})
}

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("td", 1100))?;
    let mut params = message.params.unwrap_or_default();
    if exec.chain.has_renumbered_params() {
        // The rate and the pool are no parameters any more.
        let kept = &exec.state.params.td;
        params.trust_deposit_reclaim_burn_rate.clone_from(&kept.trust_deposit_reclaim_burn_rate);
        params.yield_intermediate_pool.clone_from(&kept.yield_intermediate_pool);
    }
    let rates = [
        &params.trust_deposit_reclaim_burn_rate,
        &params.trust_deposit_rate,
        &params.wallet_user_agent_reward_rate,
        &params.user_agent_reward_rate,
        &params.trust_deposit_max_yield_rate,
        &params.trust_deposit_block_reward_share,
    ];
    let one = LegacyDec::from_integer(1);
    for rate in rates {
        if !LegacyDec::from_wire(rate).is_some_and(|rate| !rate.is_negative() && rate <= one) {
            return Err(LedgerError::unregistered(format!("rate {rate:?} is not a decimal between 0 and 1")));
        }
    }
    validate::address(&exec.chain.prefix, "yield_intermediate_pool", &params.yield_intermediate_pool)?;
    // The share value is state, not a setting: an update keeps it.
    params.trust_deposit_share_value.clone_from(&exec.state.params.td.trust_deposit_share_value);
    exec.state.params.td = params;
    Ok(MsgUpdateParamsResponse {})
}
