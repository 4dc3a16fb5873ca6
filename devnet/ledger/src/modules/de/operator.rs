//! Messages on operator authorizations.

use svc_wire::{
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::de::v1::{
            MsgGrantOperatorAuthorization, MsgGrantOperatorAuthorizationResponse, MsgRevokeOperatorAuthorization,
            MsgRevokeOperatorAuthorizationResponse, MsgUpdateParams, MsgUpdateParamsResponse, OperatorAuthorization,
        },
    },
    syntax::SESSION_MESSAGE,
    timestamp,
};

use super::{
    authz::{authorize, message_url, require_corporation},
    fees::{grant_fees, revoke_fees},
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{authority::ensure_authority, bank},
    state::{next_id, table::PlainValue},
    values::validate::{self, ensure},
};

/// Tells whether an operator authorization can list a type URL.
fn is_grantable(chain: &ChainConfig, url: &str) -> bool {
    chain.is_delegable(url) && chain.namespace().split_type_url(url) != Some(SESSION_MESSAGE)
}

fn ensure_valid_limit(what: &str, coins: &[Coin]) -> Result<(), LedgerError> {
    bank::parse_coins(coins).map(|_| ()).map_err(|text| LedgerError::sdk(18, format!("invalid {what}: {text}")))
}

pub fn validate_grant(chain: &ChainConfig, message: &MsgGrantOperatorAuthorization) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", &message.corporation)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    validate::plain_address(&chain.prefix, "grantee", &message.grantee)?;
    if message.msg_types.is_empty() {
        return Err(LedgerError::unregistered("msg_types must not be empty"));
    }
    if let Some(bad) = message.msg_types.iter().find(|url| !is_grantable(chain, url)) {
        return Err(LedgerError::unregistered(format!("message type is not delegable: {bad}")));
    }
    ensure_valid_limit("authz_spend_limit", &message.authz_spend_limit)?;
    ensure_valid_limit("feegrant_spend_limit", &message.feegrant_spend_limit)?;
    if let Some(period) = &message.authz_spend_limit_period {
        if timestamp::duration_nanos(period) <= 0 {
            return Err(LedgerError::unregistered("authz_spend_limit_period must be positive"));
        }
        if !message.authz_spend_limit.is_empty() && message.expiration.is_none() {
            return Err(LedgerError::unregistered("expiration is required with authz_spend_limit_period"));
        }
    }
    if message.feegrant_spend_limit_period.as_ref().is_some_and(|period| timestamp::duration_nanos(period) <= 0) {
        return Err(LedgerError::unregistered("feegrant_spend_limit_period must be positive"));
    }
    Ok(())
}

pub fn grant(
    exec: &mut ExecContext<'_>,
    message: MsgGrantOperatorAuthorization,
) -> Result<MsgGrantOperatorAuthorizationResponse, LedgerError> {
    let corporation_id = require_corporation(exec, &message.corporation, ("co", 1101))?;
    if message.operator != message.corporation {
        let url = message_url(exec, "de", "MsgGrantOperatorAuthorization");
        authorize(exec, &message.corporation, &message.operator, &url)?;
        if message.grantee == message.operator {
            return Err(LedgerError::unregistered("an operator cannot grant an authorization to itself"));
        }
    }
    let now = exec.block_time();
    let is_future = message.expiration.as_ref().is_none_or(|until| !timestamp::is_at_or_before(until, &now));
    ensure(is_future, "de", 1102, || "expiration is in the past".to_owned())?;
    let vs = exec.state.vs_operator_index.get(&message.grantee, exec.gas);
    ensure(vs.is_none_or(|found| found.0.corporation_id != corporation_id), "de", 1103, || {
        format!("VS operator authorization exists: {}", message.grantee)
    })?;

    let key = (corporation_id, message.grantee.clone());
    let id = match exec.state.authorization_index.get(&key, exec.gas) {
        Some(id) => id.0,
        None => next_id(&mut exec.state.next_authorization),
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
    exec.state.authorization_index.put(key, PlainValue(id), exec.gas);
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
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgGrantOperatorAuthorizationResponse {})
}

pub fn validate_revoke(chain: &ChainConfig, message: &MsgRevokeOperatorAuthorization) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "corporation", &message.corporation)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    validate::plain_address(&chain.prefix, "grantee", &message.grantee)
}

pub fn revoke(
    exec: &mut ExecContext<'_>,
    message: MsgRevokeOperatorAuthorization,
) -> Result<MsgRevokeOperatorAuthorizationResponse, LedgerError> {
    let corporation_id = require_corporation(exec, &message.corporation, ("co", 1101))?;
    if message.operator != message.corporation {
        let url = message_url(exec, "de", "MsgRevokeOperatorAuthorization");
        authorize(exec, &message.corporation, &message.operator, &url)?;
    }
    let key = (corporation_id, message.grantee.clone());
    let Some(PlainValue(id)) = exec.state.authorization_index.remove(&key, exec.gas) else {
        return Err(LedgerError::new("de", 1109, format!("operator authorization not found: {}", message.grantee)));
    };
    exec.state.operator_authorizations.remove(&id, exec.gas);
    revoke_fees(exec, &message.corporation, corporation_id, &message.grantee);
    let now = exec.block_time();
    exec.emit(
        "revoke_operator_authorization",
        [
            ("authz_id", id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("grantee", message.grantee),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgRevokeOperatorAuthorizationResponse {})
}

/// The module has no parameters.
pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("de", 1100))?;
    Ok(MsgUpdateParamsResponse {})
}
