//! Fee allowances: basic, periodic, and the message filter around either.

use prost::Message;
use prost_types::{Any, Timestamp};
use svc_wire::{
    instant,
    proto::cosmos::feegrant::v1beta1::{
        AllowedMsgAllowance, BasicAllowance, MsgGrantAllowance, MsgGrantAllowanceResponse, MsgRevokeAllowance,
        MsgRevokeAllowanceResponse, PeriodicAllowance,
    },
};

use super::{
    super::{
        error::LedgerError,
        exec::{Exec, any},
    },
    auth,
    bank::{self, Amounts},
};

const BASIC: &str = "/cosmos.feegrant.v1beta1.BasicAllowance";
const PERIODIC: &str = "/cosmos.feegrant.v1beta1.PeriodicAllowance";
const ALLOWED_MSG: &str = "/cosmos.feegrant.v1beta1.AllowedMsgAllowance";

fn limit_exceeded(text: &str) -> LedgerError {
    LedgerError::new("feegrant", 2, format!("{text}: fee limit exceeded"))
}

fn expired(text: &str) -> LedgerError {
    LedgerError::new("feegrant", 3, format!("{text}: fee allowance expired"))
}

fn decode<M: Message + Default>(packed: &Any) -> Result<M, LedgerError> {
    M::decode(packed.value.as_slice()).map_err(|error| LedgerError::plain(error.to_string()))
}

/// A basic allowance behind a filter on message types.
pub fn basic_for(messages: &[String], spend_limit: &[(String, u128)], expiration: Option<Timestamp>) -> Any {
    let basic = BasicAllowance { spend_limit: bank::to_coins(spend_limit), expiration };
    filtered(any(BASIC, &basic), messages)
}

/// A periodic allowance behind a filter on message types. It renews itself until it is revoked.
pub fn periodic_for(
    messages: &[String],
    limit: &[(String, u128)],
    period: prost_types::Duration,
    reset: Timestamp,
) -> Any {
    let coins = bank::to_coins(limit);
    let periodic = PeriodicAllowance {
        basic: Some(BasicAllowance::default()),
        period: Some(period),
        period_spend_limit: coins.clone(),
        period_can_spend: coins,
        period_reset: Some(reset),
    };
    filtered(any(PERIODIC, &periodic), messages)
}

fn filtered(allowance: Any, messages: &[String]) -> Any {
    any(ALLOWED_MSG, &AllowedMsgAllowance { allowance: Some(allowance), allowed_messages: messages.to_vec() })
}

/// Stores an allowance, replacing another, and creates the grantee's account when it is new.
pub fn set(exec: &mut Exec<'_>, granter: &str, grantee: &str, allowance: Any) {
    auth::ensure_account(exec.state, grantee, exec.gas);
    exec.state.allowances.put((granter.to_owned(), grantee.to_owned()), allowance, exec.gas);
    exec.emit("set_feegrant", [("granter", granter), ("grantee", grantee)]);
}

/// Removes an allowance; false when there is none.
pub fn remove(exec: &mut Exec<'_>, granter: &str, grantee: &str) -> bool {
    let removed = exec.state.allowances.remove(&(granter.to_owned(), grantee.to_owned()), exec.gas).is_some();
    if removed {
        exec.emit("revoke_feegrant", [("granter", granter), ("grantee", grantee)]);
    }
    removed
}

/// Lets `granter` pay `fee` for `grantee`, and keeps what is left of the allowance.
pub fn use_allowance(
    exec: &mut Exec<'_>,
    granter: &str,
    grantee: &str,
    fee: &[(String, u128)],
    messages: &[Any],
) -> Result<(), LedgerError> {
    let key = (granter.to_owned(), grantee.to_owned());
    let Some(allowance) = exec.state.allowances.get(&key, exec.gas).cloned() else {
        return Err(LedgerError::sdk(38, "fee-grant not found"));
    };
    let left = accept(&allowance, fee, messages, &exec.now());
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

/// Takes `fee` from an allowance; `None` when that uses it up.
fn accept(
    allowance: &Any,
    fee: &[(String, u128)],
    messages: &[Any],
    now: &Timestamp,
) -> Result<Option<Any>, LedgerError> {
    match allowance.type_url.as_str() {
        BASIC => {
            let mut basic: BasicAllowance = decode(allowance)?;
            if basic.expiration.as_ref().is_some_and(|until| instant::nanos(until) < instant::nanos(now)) {
                return Err(expired("basic allowance"));
            }
            if basic.spend_limit.is_empty() {
                return Ok(Some(allowance.clone()));
            }
            let left = subtract(&parsed(&basic.spend_limit)?, fee).ok_or_else(|| limit_exceeded("basic allowance"))?;
            basic.spend_limit = bank::to_coins(&left);
            Ok((!left.is_empty()).then(|| any(BASIC, &basic)))
        }
        PERIODIC => {
            let mut periodic: PeriodicAllowance = decode(allowance)?;
            let until = periodic.basic.as_ref().and_then(|basic| basic.expiration);
            if until.as_ref().is_some_and(|until| instant::nanos(until) < instant::nanos(now)) {
                return Err(expired("absolute limit"));
            }
            start_period(&mut periodic, now);
            let can_spend = parsed(&periodic.period_can_spend)?;
            let left = subtract(&can_spend, fee).ok_or_else(|| limit_exceeded("period limit"))?;
            periodic.period_can_spend = bank::to_coins(&left);
            Ok(Some(any(PERIODIC, &periodic)))
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
            let left = accept(inner, fee, messages, now)?;
            Ok(left.map(|left| {
                filter.allowance = Some(left);
                any(ALLOWED_MSG, &filter)
            }))
        }
        other => Err(LedgerError::plain(format!("unknown allowance type {other}"))),
    }
}

/// Refills the budget at or after the reset; the reset moves one period on, or to now plus a period if it missed several.
fn start_period(periodic: &mut PeriodicAllowance, now: &Timestamp) {
    let (Some(reset), Some(period)) = (periodic.period_reset, periodic.period) else { return };
    if instant::nanos(now) < instant::nanos(&reset) {
        return;
    }
    periodic.period_can_spend = periodic.period_spend_limit.clone();
    let next = instant::later(&reset, &period);
    let is_past = instant::nanos(now) > instant::nanos(&next);
    periodic.period_reset = Some(if is_past { instant::later(now, &period) } else { next });
}

fn parsed(coins: &[svc_wire::proto::cosmos::base::v1beta1::Coin]) -> Result<Amounts, LedgerError> {
    bank::parse_coins(coins).map_err(LedgerError::plain)
}

/// `from - amounts` without empty rests; `None` when a denom does not suffice.
pub fn subtract(from: &[(String, u128)], amounts: &[(String, u128)]) -> Option<Amounts> {
    let mut left = from.to_vec();
    for (denom, amount) in amounts {
        let (_, held) = left.iter_mut().find(|(known, _)| known == denom)?;
        *held = held.checked_sub(*amount)?;
    }
    left.retain(|(_, amount)| *amount > 0);
    Some(left)
}

/// Removes expired basic allowances at the end of a block.
pub fn prune_expired(exec: &mut Exec<'_>) {
    let now = instant::nanos(&exec.now());
    let is_over = |allowance: &Any| {
        let inner = match allowance.type_url.as_str() {
            ALLOWED_MSG => decode::<AllowedMsgAllowance>(allowance).ok().and_then(|filter| filter.allowance),
            _ => Some(allowance.clone()),
        };
        let basic = inner.filter(|inner| inner.type_url == BASIC);
        let until = basic.and_then(|basic| decode::<BasicAllowance>(&basic).ok()).and_then(|basic| basic.expiration);
        until.is_some_and(|until| instant::nanos(&until) <= now)
    };
    let over: Vec<_> =
        exec.state.allowances.iter().filter(|(_, allowance)| is_over(allowance)).map(|(key, _)| key.clone()).collect();
    for key in over {
        exec.state.allowances.remove(&key, exec.gas);
    }
}

pub fn grant(exec: &mut Exec<'_>, message: MsgGrantAllowance) -> Result<MsgGrantAllowanceResponse, LedgerError> {
    let key = (message.granter.clone(), message.grantee.clone());
    if exec.state.allowances.contains(&key, exec.gas) {
        return Err(LedgerError::sdk(18, "fee allowance already exists"));
    }
    let allowance = message.allowance.ok_or_else(|| LedgerError::new("feegrant", 5, "no allowance"))?;
    set(exec, &message.granter, &message.grantee, allowance);
    Ok(MsgGrantAllowanceResponse {})
}

pub fn revoke(exec: &mut Exec<'_>, message: MsgRevokeAllowance) -> Result<MsgRevokeAllowanceResponse, LedgerError> {
    if remove(exec, &message.granter, &message.grantee) {
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

    fn coins(amount: u128) -> Amounts {
        vec![("usvc".to_owned(), amount)]
    }

    fn code(result: Result<Option<Any>, LedgerError>) -> u32 {
        result.expect_err("refused").code
    }

    #[test]
    fn a_basic_allowance_is_used_up_expires_and_filters() {
        let allowed = ["/a".to_owned()];
        let (right, wrong) = ([any("/a", &())], [any("/b", &())]);
        let allowance = basic_for(&allowed, &coins(10), Some(at(100)));
        assert_eq!(code(accept(&allowance, &coins(1), &wrong, &at(1))), 7);
        assert_eq!(code(accept(&allowance, &coins(11), &right, &at(1))), 2);
        assert_eq!(code(accept(&allowance, &coins(1), &right, &at(101))), 3);
        assert!(accept(&allowance, &coins(10), &right, &at(100)).expect("allowed").is_none());
        let left = accept(&allowance, &coins(4), &right, &at(1)).expect("allowed").expect("something is left");
        assert_eq!(code(accept(&left, &coins(7), &right, &at(1))), 2);
        let unlimited = basic_for(&allowed, &[], None);
        assert!(accept(&unlimited, &coins(u128::MAX), &right, &at(1)).expect("allowed").is_some());
    }

    #[test]
    fn a_periodic_allowance_refills_at_its_reset() {
        let messages = [any("/a", &())];
        let hour = prost_types::Duration { seconds: 3600, nanos: 0 };
        let allowance = periodic_for(&["/a".to_owned()], &coins(10), hour, at(1000));
        let spent = accept(&allowance, &coins(10), &messages, &at(999)).expect("allowed").expect("periodic stays");
        assert_eq!(code(accept(&spent, &coins(1), &messages, &at(999))), 2);
        assert!(accept(&spent, &coins(10), &messages, &at(1000)).is_ok());
    }
}
