//! The checks every delegable message passes, by the numbers the registry's specification gives them.

use svc_wire::{instant, proto::svc::de::v1::OperatorAuthorization};

use crate::ledger::{
    error::LedgerError,
    exec::Exec,
    modules::{
        bank::{self, Amounts},
        feegrant::subtract,
    },
    validate::ensure,
};

/// Type URL of a registry message on this chain.
pub fn url(exec: &Exec<'_>, module: &str, name: &str) -> String {
    exec.chain.namespace().type_url(module, name)
}

/// The corporation behind a policy address.
pub fn corporation_of(exec: &Exec<'_>, address: &str) -> Option<u64> {
    exec.state.corporation_by_address.get(&address.to_owned(), exec.gas).map(|id| id.0)
}

/// AUTHZ-CHECK-5: the corporation behind a policy address, or the calling module's own error.
pub fn registered(exec: &Exec<'_>, address: &str, error: (&'static str, u32)) -> Result<u64, LedgerError> {
    corporation_of(exec, address)
        .ok_or_else(|| LedgerError::new(error.0, error.1, format!("corporation not registered: {address}")))
}

/// AUTHZ-CHECK-1: an unexpired authorization that lists the type. Renews an expired one that has a period.
pub fn authorize(exec: &mut Exec<'_>, corporation: &str, operator: &str, url: &str) -> Result<(), LedgerError> {
    checked(exec, corporation, operator, url).map(|_| ())
}

fn checked(
    exec: &mut Exec<'_>,
    corporation: &str,
    operator: &str,
    url: &str,
) -> Result<OperatorAuthorization, LedgerError> {
    let not_found =
        || LedgerError::new("de", 1105, format!("operator authorization not found: ({corporation}, {operator})"));
    let corporation_id = corporation_of(exec, corporation).ok_or_else(not_found)?;
    let key = (corporation_id, operator.to_owned());
    let id = exec.state.authorization_index.get(&key, exec.gas).ok_or_else(not_found)?.0;
    let mut authorization = exec.state.operator_authorizations.get(&id, exec.gas).cloned().ok_or_else(not_found)?;
    let now = exec.now();
    if authorization.expiration.as_ref().is_some_and(|until| instant::at_or_before(until, &now)) {
        let Some(period) = authorization.period.filter(|period| instant::span_nanos(period) > 0) else {
            return Err(LedgerError::new("de", 1106, format!("operator authorization expired: {id}")));
        };
        authorization.remaining_spend = authorization.spend_limit.clone();
        authorization.expiration = Some(instant::later(&now, &period));
        store(exec, authorization.clone());
    }
    ensure(authorization.msg_types.iter().any(|listed| listed == url), "de", 1107, || {
        format!("message type not authorized: {url}")
    })?;
    Ok(authorization)
}

fn store(exec: &mut Exec<'_>, authorization: OperatorAuthorization) {
    let id = authorization.id;
    exec.state.operator_authorizations.put(id, authorization, exec.gas);
    exec.emit("operator_authorization_updated", [("authz_id", id.to_string())]);
}

/// Part 3 of AUTHZ-CHECK-1: takes `amounts` from what the authorization may still spend. Transaction fees do not count.
pub fn debit(
    exec: &mut Exec<'_>,
    corporation: &str,
    operator: &str,
    url: &str,
    amounts: &[(String, u128)],
) -> Result<(), LedgerError> {
    let mut authorization = checked(exec, corporation, operator, url)?;
    if amounts.is_empty() || authorization.spend_limit.is_empty() {
        return Ok(());
    }
    let left = bank::parse_coins(&authorization.remaining_spend).map_err(LedgerError::plain)?;
    authorization.remaining_spend = bank::to_coins(&spend(&left, amounts, "spend")?);
    store(exec, authorization);
    Ok(())
}

/// What is left of `remaining`, or de/1108.
pub fn spend(remaining: &[(String, u128)], amounts: &[(String, u128)], what: &str) -> Result<Amounts, LedgerError> {
    subtract(remaining, amounts).ok_or_else(|| {
        let text = |amounts: &[(String, u128)]| bank::coins_text(&bank::to_coins(amounts));
        let text = format!(
            "authorization spend limit exceeded: {what} {} exceeds remaining {}",
            text(amounts),
            text(remaining)
        );
        LedgerError::new("de", 1108, text)
    })
}
