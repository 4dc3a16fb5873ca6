//! Delegation: operator authorizations, VS operator records, and the checks every delegable message passes.

mod check;
pub mod vs;

use prost_types::Timestamp;
use svc_wire::{
    instant,
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::de::v1::{
            FeeGrant, MsgGrantOperatorAuthorization, MsgGrantOperatorAuthorizationResponse,
            MsgRevokeOperatorAuthorization, MsgRevokeOperatorAuthorizationResponse, MsgUpdateParams,
            MsgUpdateParamsResponse, OperatorAuthorization,
        },
    },
    syntax::{DELEGABLE, SESSION_MESSAGE},
};

use super::{authority, bank, feegrant};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    state::next,
    table::Plain,
    validate::{self, ensure},
};

pub use check::{authorize, corporation_of, debit, registered, url};

/// Type URLs that can be delegated at all.
fn is_delegable(chain: &Chain, url: &str) -> bool {
    chain.namespace().split_url(url).is_some_and(|split| DELEGABLE.contains(&split))
}

/// Type URLs that an operator authorization can hold.
fn is_grantable(chain: &Chain, url: &str) -> bool {
    is_delegable(chain, url) && chain.namespace().split_url(url) != Some(SESSION_MESSAGE)
}

fn valid_limit(what: &str, coins: &[Coin]) -> Result<(), LedgerError> {
    bank::parse_coins(coins).map(|_| ()).map_err(|text| LedgerError::sdk(18, format!("invalid {what}: {text}")))
}

pub fn validate_grant(chain: &Chain, message: &MsgGrantOperatorAuthorization) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", &message.corporation)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    validate::plain_address(&chain.prefix, "grantee", &message.grantee)?;
    if message.msg_types.is_empty() {
        return Err(LedgerError::plain("msg_types must not be empty"));
    }
    if let Some(bad) = message.msg_types.iter().find(|url| !is_grantable(chain, url)) {
        return Err(LedgerError::plain(format!("message type is not delegable: {bad}")));
    }
    valid_limit("authz_spend_limit", &message.authz_spend_limit)?;
    valid_limit("feegrant_spend_limit", &message.feegrant_spend_limit)?;
    if let Some(period) = &message.authz_spend_limit_period {
        if instant::span_nanos(period) <= 0 {
            return Err(LedgerError::plain("authz_spend_limit_period must be positive"));
        }
        if !message.authz_spend_limit.is_empty() && message.expiration.is_none() {
            return Err(LedgerError::plain("expiration is required with authz_spend_limit_period"));
        }
    }
    if message.feegrant_spend_limit_period.as_ref().is_some_and(|period| instant::span_nanos(period) <= 0) {
        return Err(LedgerError::plain("feegrant_spend_limit_period must be positive"));
    }
    Ok(())
}

pub fn grant(
    exec: &mut Exec<'_>,
    message: MsgGrantOperatorAuthorization,
) -> Result<MsgGrantOperatorAuthorizationResponse, LedgerError> {
    let corporation_id = registered(exec, &message.corporation, ("co", 1101))?;
    if message.operator != message.corporation {
        let url = url(exec, "de", "MsgGrantOperatorAuthorization");
        authorize(exec, &message.corporation, &message.operator, &url)?;
        if message.grantee == message.operator {
            return Err(LedgerError::plain("an operator cannot grant an authorization to itself"));
        }
    }
    let now = exec.now();
    let is_future = message.expiration.as_ref().is_none_or(|until| !instant::at_or_before(until, &now));
    ensure(is_future, "de", 1102, || "expiration is in the past".to_owned())?;
    let vs = exec.state.vs_operator_index.get(&message.grantee, exec.gas);
    ensure(vs.is_none_or(|found| found.0[0] != corporation_id), "de", 1103, || {
        format!("VS operator authorization exists: {}", message.grantee)
    })?;

    let key = (corporation_id, message.grantee.clone());
    let id = match exec.state.authorization_index.get(&key, exec.gas) {
        Some(id) => id.0,
        None => next(&mut exec.state.next_authorization),
    };
    let has_limit = !message.authz_spend_limit.is_empty();
    let authorization = OperatorAuthorization {
        id,
        corporation_id,
        operator: message.grantee.clone(),
        msg_types: message.msg_types.clone(),
        spend_limit: message.authz_spend_limit.clone(),
        remaining_spend: message.authz_spend_limit.clone(),
        expiration: message.expiration,
        period: message.authz_spend_limit_period.filter(|_| has_limit),
    };
    exec.state.operator_authorizations.put(id, authorization, exec.gas);
    exec.state.authorization_index.put(key, Plain(id), exec.gas);
    if message.with_feegrant {
        grant_fees(exec, &message, corporation_id)?;
    } else {
        revoke_fees(exec, &message.corporation, corporation_id, &message.grantee);
    }
    exec.emit(
        "grant_operator_authorization",
        [
            ("authz_id", id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("grantee", message.grantee),
            ("with_feegrant", message.with_feegrant.to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgGrantOperatorAuthorizationResponse {})
}

/// Replaces the fee allowance of a grantee: periodic when the grant has a fee limit with a period, basic otherwise.
fn grant_fees(
    exec: &mut Exec<'_>,
    message: &MsgGrantOperatorAuthorization,
    corporation_id: u64,
) -> Result<(), LedgerError> {
    let limit = bank::parse_coins(&message.feegrant_spend_limit).map_err(LedgerError::plain)?;
    // A period without a limit is dropped.
    let period = message.feegrant_spend_limit_period.filter(|_| !limit.is_empty());
    let allowance = match period {
        Some(period) => {
            let reset = message.expiration.ok_or_else(|| LedgerError::plain("a fee period needs an expiration"))?;
            feegrant::periodic_for(&message.msg_types, &limit, period, reset)
        }
        None => feegrant::basic_for(&message.msg_types, &limit, message.expiration),
    };
    feegrant::remove(exec, &message.corporation, &message.grantee);
    feegrant::set(exec, &message.corporation, &message.grantee, allowance);
    let record = FeeGrant {
        grantor_corporation_id: corporation_id,
        grantee: message.grantee.clone(),
        msg_types: message.msg_types.clone(),
        spend_limit: message.feegrant_spend_limit.clone(),
        // Quirk: this figure never changes; the live one is in the allowance.
        remaining_spend: message.feegrant_spend_limit.clone(),
        expiration: message.expiration,
        period,
    };
    exec.state.fee_grants.put((corporation_id, message.grantee.clone()), record, exec.gas);
    let now = exec.now();
    fee_event(exec, "grant_fee_allowance", corporation_id, &message.grantee, &now);
    Ok(())
}

fn revoke_fees(exec: &mut Exec<'_>, corporation: &str, corporation_id: u64, grantee: &str) {
    let had_record = exec.state.fee_grants.remove(&(corporation_id, grantee.to_owned()), exec.gas).is_some();
    let had_allowance = feegrant::remove(exec, corporation, grantee);
    if had_record || had_allowance {
        let now = exec.now();
        fee_event(exec, "revoke_fee_allowance", corporation_id, grantee, &now);
    }
}

fn fee_event(exec: &mut Exec<'_>, kind: &str, corporation_id: u64, grantee: &str, now: &Timestamp) {
    exec.emit(
        kind,
        [
            ("corporation_id", corporation_id.to_string()),
            ("grantee", grantee.to_owned()),
            ("timestamp", instant::go_text(now)),
        ],
    );
}

pub fn validate_revoke(chain: &Chain, message: &MsgRevokeOperatorAuthorization) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", &message.corporation)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    validate::plain_address(&chain.prefix, "grantee", &message.grantee)
}

pub fn revoke(
    exec: &mut Exec<'_>,
    message: MsgRevokeOperatorAuthorization,
) -> Result<MsgRevokeOperatorAuthorizationResponse, LedgerError> {
    let corporation_id = registered(exec, &message.corporation, ("co", 1101))?;
    if message.operator != message.corporation {
        let url = url(exec, "de", "MsgRevokeOperatorAuthorization");
        authorize(exec, &message.corporation, &message.operator, &url)?;
    }
    let key = (corporation_id, message.grantee.clone());
    let Some(Plain(id)) = exec.state.authorization_index.remove(&key, exec.gas) else {
        return Err(LedgerError::new("de", 1109, format!("operator authorization not found: {}", message.grantee)));
    };
    exec.state.operator_authorizations.remove(&id, exec.gas);
    revoke_fees(exec, &message.corporation, corporation_id, &message.grantee);
    let now = exec.now();
    exec.emit(
        "revoke_operator_authorization",
        [
            ("authz_id", id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("grantee", message.grantee),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgRevokeOperatorAuthorizationResponse {})
}

/// There are no parameters.
pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("de", 1100))?;
    Ok(MsgUpdateParamsResponse {})
}
