//! x/feegrant: basic and periodic fee allowances, and the message filter around either.

use prost::Message;
use prost_types::{Any, Timestamp};
use svc_wire::{
    proto::cosmos::{
        base::v1beta1::Coin,
        feegrant::v1beta1::{
            AllowedMsgAllowance, BasicAllowance, MsgGrantAllowance, MsgGrantAllowanceResponse, MsgRevokeAllowance,
            MsgRevokeAllowanceResponse, PeriodicAllowance,
        },
    },
    timestamp,
};

use super::{
    auth,
    bank::{self, CoinAmounts},
};
use crate::{context::ExecContext, error::LedgerError, values::any::pack_any};

const BASIC: &str = "/cosmos.feegrant.v1beta1.BasicAllowance";
const PERIODIC: &str = "/cosmos.feegrant.v1beta1.PeriodicAllowance";
const ALLOWED_MSG: &str = "/cosmos.feegrant.v1beta1.AllowedMsgAllowance";

fn limit_exceeded_error(text: &str) -> LedgerError {
    LedgerError::new("feegrant", 2, format!("{text}: fee limit exceeded"))
}

fn expired_error(text: &str) -> LedgerError {
    LedgerError::new("feegrant", 3, format!("{text}: fee allowance expired"))
}

fn decode<M: Message + Default>(packed: &Any) -> Result<M, LedgerError> {
    M::decode(packed.value.as_slice()).map_err(|error| LedgerError::unregistered(error.to_string()))
}

/// Returns a basic allowance inside a message filter.
pub fn basic_for(messages: &[String], spend_limit: &[(String, u128)], expiration: Option<Timestamp>) -> Any {
    let basic = BasicAllowance { spend_limit: bank::to_coins(spend_limit), expiration };
    with_message_filter(pack_any(BASIC, &basic), messages)
}

/// Returns a periodic allowance inside a message filter. Its budget refills each period until it is revoked.
pub fn periodic_for(
    messages: &[String],
    limit: &[(String, u128)],
    period: prost_types::Duration,
    reset: Timestamp,
) -> Any {
    periodic_with(messages, [limit, limit], period, reset)
}

/// A periodic allowance of which a part is spent: its limit and the rest of the period.
pub fn periodic_with(
    messages: &[String],
    [limit, left]: [&[(String, u128)]; 2],
    period: prost_types::Duration,
    reset: Timestamp,
) -> Any {
    let periodic = PeriodicAllowance {
        basic: Some(BasicAllowance::default()),
        period: Some(period),
        period_spend_limit: bank::to_coins(limit),
        period_can_spend: bank::to_coins(left),
        period_reset: Some(reset),
    };
    with_message_filter(pack_any(PERIODIC, &periodic), messages)
}

/// The amounts that were spent in the running period of a periodic allowance, and the end of that period; `None` without one.
pub fn running_period(
    exec: &ExecContext<'_>,
    granter: &str,
    grantee: &str,
    now: &Timestamp,
) -> Option<(CoinAmounts, Timestamp)> {
    let allowance = exec.state.allowances.peek(&(granter.to_owned(), grantee.to_owned()))?;
    let filter: AllowedMsgAllowance = decode(allowance).ok()?;
    let mut periodic: PeriodicAllowance = decode(&filter.allowance.filter(|inner| inner.type_url == PERIODIC)?).ok()?;
    start_period(&mut periodic, now);
    let (limit, left) =
        (parse_amounts(&periodic.period_spend_limit).ok()?, parse_amounts(&periodic.period_can_spend).ok()?);
    let spent = limit.into_iter().map(|(denom, amount)| {
        let left = left.iter().find(|(known, _)| *known == denom).map_or(0, |(_, left)| *left);
        (denom, amount.saturating_sub(left))
    });
    Some((spent.collect(), periodic.period_reset?))
}

/// The rest of an allowance, and its end: that of the running period, or of the whole.
pub struct AllowanceRest {
    pub left: Vec<Coin>,
    pub end: Option<Timestamp>,
}

/// Reads the rest of an allowance as it is stored: a period that has ended since its last use is not begun again.
pub fn rest_of(allowance: &Any) -> Option<AllowanceRest> {
    match allowance.type_url.as_str() {
        BASIC => {
            let basic: BasicAllowance = decode(allowance).ok()?;
            Some(AllowanceRest { left: basic.spend_limit, end: basic.expiration })
        }
        PERIODIC => {
            let periodic: PeriodicAllowance = decode(allowance).ok()?;
            Some(AllowanceRest { left: periodic.period_can_spend, end: periodic.period_reset })
        }
        ALLOWED_MSG => rest_of(&decode::<AllowedMsgAllowance>(allowance).ok()?.allowance?),
        _ => None,
    }
}

fn with_message_filter(allowance: Any, messages: &[String]) -> Any {
    pack_any(ALLOWED_MSG, &AllowedMsgAllowance { allowance: Some(allowance), allowed_messages: messages.to_vec() })
}

/// Stores an allowance that a module of the registry grants. Quirk of the first generation: these modules have a keeper without a bank, so that
/// an allowance to an account without state panics.
pub fn set_allowance_of_module(
    exec: &mut ExecContext<'_>,
    granter: &str,
    grantee: &str,
    allowance: Any,
) -> Result<(), LedgerError> {
    if !exec.chain.has_window_rules() && !exec.state.accounts.contains(&grantee.to_owned(), exec.gas) {
        return Err(LedgerError::panic("runtime error: invalid memory address or nil pointer dereference"));
    }
    set_allowance(exec, granter, grantee, allowance);
    Ok(())
}

/// Stores an allowance in place of an existing one; creates the grantee's account if it is new.
fn set_allowance(exec: &mut ExecContext<'_>, granter: &str, grantee: &str, allowance: Any) {
    auth::ensure_account(exec.state, grantee, exec.gas);
    exec.state.allowances.put((granter.to_owned(), grantee.to_owned()), allowance, exec.gas);
    exec.emit("set_feegrant", [("granter", granter), ("grantee", grantee)]);
}

/// Removes an allowance; returns whether it existed.
pub fn remove_allowance(exec: &mut ExecContext<'_>, granter: &str, grantee: &str) -> bool {
    let removed = exec.state.allowances.remove(&(granter.to_owned(), grantee.to_owned()), exec.gas).is_some();
    if removed {
        exec.emit("revoke_feegrant", [("granter", granter), ("grantee", grantee)]);
    }
    removed
}

/// Takes `fee` from the allowance of `granter` for `grantee` and stores the remaining allowance.
pub fn use_allowance(
    exec: &mut ExecContext<'_>,
    granter: &str,
    grantee: &str,
    fee: &[(String, u128)],
    messages: &[Any],
) -> Result<(), LedgerError> {
    let key = (granter.to_owned(), grantee.to_owned());
    let Some(allowance) = exec.state.allowances.get(&key, exec.gas).cloned() else {
        return Err(LedgerError::sdk(38, "fee-grant not found"));
    };
    let left = accept_fee(&allowance, fee, messages, &exec.block_time());
    if matches!(&left, Err(error) if (error.codespace, error.code) == ("feegrant", 3)) {
        exec.state.allowances.remove(&key, exec.gas);
    }
    let left = left?;
    exec.emit("use_feegrant", [("granter", granter), ("grantee", grantee)]);
    match left {
        Some(left) => {
            exec.state.allowances.put(key, left, exec.gas);
            exec.emit("set_feegrant", [("granter", granter), ("grantee", grantee)]);
        }
        None => {
            exec.state.allowances.remove(&key, exec.gas);
        }
    }
    Ok(())
}

/// Takes `fee` from an allowance; returns the remaining allowance, or `None` if nothing remains.
fn accept_fee(
    allowance: &Any,
    fee: &[(String, u128)],
    messages: &[Any],
    now: &Timestamp,
) -> Result<Option<Any>, LedgerError> {
    match allowance.type_url.as_str() {
        BASIC => {
            let mut basic: BasicAllowance = decode(allowance)?;
            if basic.expiration.as_ref().is_some_and(|until| timestamp::unix_nanos(until) < timestamp::unix_nanos(now))
            {
                return Err(expired_error("basic allowance"));
            }
            if basic.spend_limit.is_empty() {
                return Ok(Some(allowance.clone()));
            }
            let left = subtract_amounts(&parse_amounts(&basic.spend_limit)?, fee)
                .ok_or_else(|| limit_exceeded_error("basic allowance"))?;
            basic.spend_limit = bank::to_coins(&left);
            Ok((!left.is_empty()).then(|| pack_any(BASIC, &basic)))
        }
        PERIODIC => {
            let mut periodic: PeriodicAllowance = decode(allowance)?;
            let until = periodic.basic.as_ref().and_then(|basic| basic.expiration);
            if until.as_ref().is_some_and(|until| timestamp::unix_nanos(until) < timestamp::unix_nanos(now)) {
                return Err(expired_error("absolute limit"));
            }
            start_period(&mut periodic, now);
            let can_spend = parse_amounts(&periodic.period_can_spend)?;
            let left = subtract_amounts(&can_spend, fee).ok_or_else(|| limit_exceeded_error("period limit"))?;
            periodic.period_can_spend = bank::to_coins(&left);
            Ok(Some(pack_any(PERIODIC, &periodic)))
        }
        ALLOWED_MSG => {
            let mut filter: AllowedMsgAllowance = decode(allowance)?;
            if messages.iter().any(|message| !filter.allowed_messages.contains(&message.type_url)) {
                let text = "message does not exist in allowed messages: message not allowed";
                return Err(LedgerError::new("feegrant", 7, text));
            }
            let Some(inner) = &filter.allowance else {
                return Err(LedgerError::new("feegrant", 5, "no allowance"));
            };
            let left = accept_fee(inner, fee, messages, now)?;
            Ok(left.map(|left| {
                filter.allowance = Some(left);
                pack_any(ALLOWED_MSG, &filter)
            }))
        }
        other => Err(LedgerError::unregistered(format!("unknown allowance type {other}"))),
    }
}

/// Refills the budget at or after the reset. The reset moves on by one period, or to now plus a period if several passed.
fn start_period(periodic: &mut PeriodicAllowance, now: &Timestamp) {
    let (Some(reset), Some(period)) = (periodic.period_reset, periodic.period) else { return };
    if timestamp::unix_nanos(now) < timestamp::unix_nanos(&reset) {
        return;
    }
    periodic.period_can_spend = periodic.period_spend_limit.clone();
    let next = timestamp::add_duration(&reset, &period);
    let is_past = timestamp::unix_nanos(now) > timestamp::unix_nanos(&next);
    periodic.period_reset = Some(if is_past { timestamp::add_duration(now, &period) } else { next });
}

fn parse_amounts(coins: &[Coin]) -> Result<CoinAmounts, LedgerError> {
    bank::parse_coins(coins).map_err(LedgerError::unregistered)
}

/// Returns `from - amounts` without zero amounts; `None` if a denom does not suffice.
pub fn subtract_amounts(from: &[(String, u128)], amounts: &[(String, u128)]) -> Option<CoinAmounts> {
    let mut left = from.to_vec();
    for (denom, amount) in amounts {
        let (_, held) = left.iter_mut().find(|(known, _)| known == denom)?;
        *held = held.checked_sub(*amount)?;
    }
    left.retain(|(_, amount)| *amount > 0);
    Some(left)
}

/// Removes the expired basic allowances; runs at the end of a block.
pub fn prune_expired(exec: &mut ExecContext<'_>) {
    let now = timestamp::unix_nanos(&exec.block_time());
    let is_over = |allowance: &Any| {
        let inner = match allowance.type_url.as_str() {
            ALLOWED_MSG => decode::<AllowedMsgAllowance>(allowance).ok().and_then(|filter| filter.allowance),
            _ => Some(allowance.clone()),
        };
        let basic = inner.filter(|inner| inner.type_url == BASIC);
        let until = basic.and_then(|basic| decode::<BasicAllowance>(&basic).ok()).and_then(|basic| basic.expiration);
        until.is_some_and(|until| timestamp::unix_nanos(&until) <= now)
    };
    let over: Vec<_> =
        exec.state.allowances.iter().filter(|(_, allowance)| is_over(allowance)).map(|(key, _)| key.clone()).collect();
    for key in over {
        exec.state.allowances.remove(&key, exec.gas);
    }
}

pub fn grant(exec: &mut ExecContext<'_>, message: MsgGrantAllowance) -> Result<MsgGrantAllowanceResponse, LedgerError> {
    let key = (message.granter.clone(), message.grantee.clone());
    if exec.state.allowances.contains(&key, exec.gas) {
        return Err(LedgerError::sdk(18, "fee allowance already exists"));
    }
    let allowance = message.allowance.ok_or_else(|| LedgerError::new("feegrant", 5, "no allowance"))?;
    set_allowance(exec, &message.granter, &message.grantee, allowance);
    Ok(MsgGrantAllowanceResponse {})
}

pub fn revoke(
    exec: &mut ExecContext<'_>,
    message: MsgRevokeAllowance,
) -> Result<MsgRevokeAllowanceResponse, LedgerError> {
    if remove_allowance(exec, &message.granter, &message.grantee) {
        return Ok(MsgRevokeAllowanceResponse {});
    }
    Err(LedgerError::sdk(38, "fee-grant not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn coins(amount: u128) -> CoinAmounts {
        vec![("usvc".to_owned(), amount)]
    }

    fn code(result: Result<Option<Any>, LedgerError>) -> u32 {
        result.expect_err("refused").code
    }

    #[test]
    fn a_basic_allowance_is_used_up_expires_and_filters() {
        let allowed = ["/a".to_owned()];
        let (right, wrong) = ([pack_any("/a", &())], [pack_any("/b", &())]);
        let allowance = basic_for(&allowed, &coins(10), Some(at(100)));
        assert_eq!(code(accept_fee(&allowance, &coins(1), &wrong, &at(1))), 7);
        assert_eq!(code(accept_fee(&allowance, &coins(11), &right, &at(1))), 2);
        assert_eq!(code(accept_fee(&allowance, &coins(1), &right, &at(101))), 3);
        assert!(accept_fee(&allowance, &coins(10), &right, &at(100)).expect("allowed").is_none());
        let left = accept_fee(&allowance, &coins(4), &right, &at(1)).expect("allowed").expect("something is left");
        assert_eq!(code(accept_fee(&left, &coins(7), &right, &at(1))), 2);
        let unlimited = basic_for(&allowed, &[], None);
        assert!(accept_fee(&unlimited, &coins(u128::MAX), &right, &at(1)).expect("allowed").is_some());
    }

    #[test]
    fn a_periodic_allowance_refills_at_its_reset() {
        let messages = [pack_any("/a", &())];
        let hour = prost_types::Duration { seconds: 3600, nanos: 0 };
        let allowance = periodic_for(&["/a".to_owned()], &coins(10), hour, at(1000));
        let spent = accept_fee(&allowance, &coins(10), &messages, &at(999)).expect("allowed").expect("periodic stays");
        assert_eq!(code(accept_fee(&spent, &coins(1), &messages, &at(999))), 2);
        assert!(accept_fee(&spent, &coins(10), &messages, &at(1000)).is_ok());
    }
}
