//! The checks that every delegable message passes, with their numbers in the registry's specification.

use svc_wire::{proto::svc::de::v1::OperatorAuthorization, timestamp};

use crate::{
    context::ExecContext,
    error::LedgerError,
    modules::{
        bank::{self, CoinAmounts},
        feegrant::subtract_amounts,
    },
    values::validate::ensure,
};

/// Returns the type URL of a registry message on this chain.
pub fn message_url(exec: &ExecContext<'_>, module: &str, name: &str) -> String {
    exec.chain.namespace().type_url(module, name)
}

/// Returns the id of the corporation with a policy address.
pub fn find_corporation(exec: &ExecContext<'_>, address: &str) -> Option<u64> {
    exec.state.corporation_by_address.get(&address.to_owned(), exec.gas).map(|id| id.0)
}

/// AUTHZ-CHECK-5: returns the id of the corporation with a policy address; fails with the given (codespace, code).
pub fn require_corporation(
    exec: &ExecContext<'_>,
    address: &str,
    error: (&'static str, u32),
) -> Result<u64, LedgerError> {
    find_corporation(exec, address)
        .ok_or_else(|| LedgerError::new(error.0, error.1, format!("corporation not registered: {address}")))
}

/// AUTHZ-CHECK-1: requires an unexpired authorization that lists the type. An expired one with a period is renewed.
pub fn authorize(exec: &mut ExecContext<'_>, corporation: &str, operator: &str, url: &str) -> Result<(), LedgerError> {
    load_authorization(exec, corporation, operator, url).map(|_| ())
}

fn load_authorization(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    operator: &str,
    url: &str,
) -> Result<OperatorAuthorization, LedgerError> {
    let not_found =
        || LedgerError::new("de", 1105, format!("operator authorization not found: ({corporation}, {operator})"));
    let corporation_id = find_corporation(exec, corporation).ok_or_else(not_found)?;
    let key = (corporation_id, operator.to_owned());
    let id = exec.state.authorization_index.get(&key, exec.gas).ok_or_else(not_found)?.0;
    let mut authorization = exec.state.operator_authorizations.get(&id, exec.gas).cloned().ok_or_else(not_found)?;
    let now = exec.block_time();
    if authorization.expiration.as_ref().is_some_and(|until| timestamp::is_at_or_before(until, &now)) {
        let Some(period) = authorization.period.filter(|period| timestamp::duration_nanos(period) > 0) else {
            return Err(LedgerError::new("de", 1106, format!("operator authorization expired: {id}")));
        };
        authorization.remaining_spend = authorization.spend_limit.clone();
        authorization.expiration = Some(timestamp::add_duration(&now, &period));
        store(exec, authorization.clone());
    }
    ensure(authorization.msg_types.iter().any(|listed| listed == url), "de", 1107, || {
        format!("message type not authorized: {url}")
    })?;
    Ok(authorization)
}

fn store(exec: &mut ExecContext<'_>, authorization: OperatorAuthorization) {
    let id = authorization.id;
    exec.state.operator_authorizations.put(id, authorization, exec.gas);
    exec.emit("operator_authorization_updated", [("authz_id", id.to_string())]);
}

/// Part 3 of AUTHZ-CHECK-1: takes `amounts` from the remaining spend limit. Transaction fees do not count.
pub fn debit_authorization(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    operator: &str,
    url: &str,
    amounts: &[(String, u128)],
) -> Result<(), LedgerError> {
    let mut authorization = load_authorization(exec, corporation, operator, url)?;
    if amounts.is_empty() || authorization.spend_limit.is_empty() {
        return Ok(());
    }
    let left = bank::parse_coins(&authorization.remaining_spend).map_err(LedgerError::unregistered)?;
    authorization.remaining_spend = bank::to_coins(&subtract_spend(&left, amounts, "spend")?);
    store(exec, authorization);
    Ok(())
}

/// Returns `remaining - amounts`; fails with de/1108.
pub fn subtract_spend(
    remaining: &[(String, u128)],
    amounts: &[(String, u128)],
    kind: &str,
) -> Result<CoinAmounts, LedgerError> {
    subtract_amounts(remaining, amounts).ok_or_else(|| {
        let text = |amounts: &[(String, u128)]| bank::coins_text(&bank::to_coins(amounts));
        let text = format!(
            "authorization spend limit exceeded: {kind} {} exceeds remaining {}",
            text(amounts),
            text(remaining)
        );
        LedgerError::new("de", 1108, text)
    })
}
