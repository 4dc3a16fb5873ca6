//! Fee allowances that come with authorizations.

use prost_types::Timestamp;
use svc_wire::{
    proto::svc::de::v1::{FeeGrant, MsgGrantOperatorAuthorization},
    timestamp,
};

use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{bank, feegrant},
    state::LedgerState,
};

/// Replaces the fee allowance of a grantee: periodic if the grant has a fee limit with a period, basic otherwise.
pub fn grant_fees(
    exec: &mut ExecContext<'_>,
    message: &MsgGrantOperatorAuthorization,
    corporation_id: u64,
) -> Result<(), LedgerError> {
    let limit = bank::parse_coins(&message.feegrant_spend_limit).map_err(LedgerError::unregistered)?;
    // A period without a limit is ignored.
    let period = message.feegrant_spend_limit_period.filter(|_| !limit.is_empty());
    let allowance = match period {
        Some(period) => {
            let reset =
                message.expiration.ok_or_else(|| LedgerError::unregistered("a fee period needs an expiration"))?;
            feegrant::periodic_for(&message.msg_types, &limit, period, reset)
        }
        None => feegrant::basic_for(&message.msg_types, &limit, message.expiration),
    };
    feegrant::remove_allowance(exec, &message.corporation, &message.grantee);
    feegrant::set_allowance_of_module(exec, &message.corporation, &message.grantee, allowance)?;
    let record = FeeGrant {
        grantor_corporation_id: corporation_id,
        grantee: message.grantee.clone(),
        msg_types: message.msg_types.clone(),
        spend_limit: message.feegrant_spend_limit.clone(),
        // Quirk: this amount never changes before the third generation; the current one is in the allowance.
        remaining_spend: message.feegrant_spend_limit.clone(),
        expiration: message.expiration,
        period,
    };
    exec.state.fee_grants.put((corporation_id, message.grantee.clone()), record, exec.gas);
    let now = exec.block_time();
    emit_fee_event(exec, "grant_fee_allowance", corporation_id, &message.grantee, &now);
    Ok(())
}

/// Returns a record as the node shows it. From the rework of the delegation on it has the rest of its allowance and the end of the running
/// period; x/feegrant keeps no allowance that is used up.
pub fn shown_record(state: &LedgerState, chain: &ChainConfig, record: &FeeGrant) -> FeeGrant {
    let mut shown = record.clone();
    if !chain.has_spend_cycles() {
        return shown;
    }
    let granter = state.corporations.peek(&record.grantor_corporation_id).map(|one| one.policy_address.clone());
    let allowance = granter.and_then(|granter| state.allowances.peek(&(granter, record.grantee.clone())));
    match allowance.and_then(feegrant::rest_of) {
        Some(rest) => (shown.remaining_spend, shown.expiration) = (rest.left, rest.end),
        None => shown.remaining_spend.clear(),
    }
    shown
}

pub fn revoke_fees(exec: &mut ExecContext<'_>, corporation: &str, corporation_id: u64, grantee: &str) {
    let had_record = exec.state.fee_grants.remove(&(corporation_id, grantee.to_owned()), exec.gas).is_some();
    let had_allowance = feegrant::remove_allowance(exec, corporation, grantee);
    if had_record || had_allowance {
        let now = exec.block_time();
        emit_fee_event(exec, "revoke_fee_allowance", corporation_id, grantee, &now);
    }
}

pub fn emit_fee_event(exec: &mut ExecContext<'_>, kind: &str, corporation_id: u64, grantee: &str, now: &Timestamp) {
    exec.emit(
        kind,
        [
            ("corporation_id", corporation_id.to_string()),
            ("grantee", grantee.to_owned()),
            ("timestamp", timestamp::go_time_text(now)),
        ],
    );
}
