//! VS operator authorizations: one per (corporation, VS operator), with one record per participant.

use prost_types::{Duration, Timestamp};
use svc_wire::{
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::de::v1::{FeeGrant, ParticipantAuthorizationRecord, VsOperatorAuthorization},
    },
    timestamp,
};

use super::{
    authz::subtract_spend,
    fees::{emit_fee_event, revoke_fees},
    periodic_fees,
};
use crate::{
    context::ExecContext,
    error::LedgerError,
    modules::{bank, feegrant, pp::inactive_reason},
    state::{keys::VsOperatorEntry, next_id, table::PlainValue},
    values::validate::ensure,
};

/// A record to be created, as a participant message describes it.
#[derive(Debug, Clone)]
pub struct NewVsRecord {
    pub participant_id: u64,
    pub vs_operator: String,
    pub msg_types: Vec<String>,
    pub spend_limit: Vec<Coin>,
    pub fee_spend_limit: Vec<Coin>,
    pub with_feegrant: bool,
    pub expiration: Option<Timestamp>,
    pub period: Option<Duration>,
}

/// Creates a record, and its authorization if it is the first record.
pub fn create_record(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    corporation_id: u64,
    new: NewVsRecord,
) -> Result<(), LedgerError> {
    bank::parse_coins(&new.spend_limit)
        .map_err(|text| LedgerError::unregistered(format!("invalid spend limit: {text}")))?;
    if exec.chain.has_spend_cycles() {
        let is_positive = |coin: &Coin| coin.amount.parse::<u128>().is_ok_and(|amount| amount > 0);
        let has_limit = !new.fee_spend_limit.is_empty() && new.fee_spend_limit.iter().all(is_positive);
        ensure(has_limit == new.with_feegrant && has_limit != new.fee_spend_limit.is_empty(), "de", 1117, || {
            format!("fee spend limit of participant {}", new.participant_id)
        })?;
        if new.period.is_some() && new.spend_limit.is_empty() {
            return Err(LedgerError::unregistered("a period requires a spend limit"));
        }
    }
    bank::parse_coins(&new.fee_spend_limit)
        .map_err(|text| LedgerError::new("de", 1104, format!("invalid fee spend limit: {text}")))?;
    if new.period.as_ref().is_some_and(|period| timestamp::duration_nanos(period) <= 0) {
        return Err(LedgerError::unregistered("period must be positive"));
    }
    let is_delegable = |url: &String| exec.chain.is_delegable(url);
    ensure(!new.msg_types.is_empty() && new.msg_types.iter().all(is_delegable), "de", 1101, || {
        format!("invalid message type: {:?}", new.msg_types)
    })?;
    let has_plain = exec.state.authorization_index.contains(&(corporation_id, new.vs_operator.clone()), exec.gas);
    ensure(!has_plain, "de", 1110, || {
        format!("operator authorization exists for the VS operator: {}", new.vs_operator)
    })?;
    let has_record = exec.state.vs_participant_index.contains(&new.participant_id, exec.gas);
    ensure(!has_record, "de", 1112, || format!("participant record exists: {}", new.participant_id))?;
    let existing = exec.state.vs_operator_index.get(&new.vs_operator, exec.gas).map(|found| found.0);
    ensure(existing.is_none_or(|entry| entry.corporation_id == corporation_id), "de", 1113, || {
        format!("VS operator serves another corporation: {}", new.vs_operator)
    })?;
    let id = match existing {
        Some(entry) => entry.authorization_id,
        None => next_id(&mut exec.state.next_vs_authorization),
    };
    let mut authorization = exec.state.vs_authorizations.get(&id, exec.gas).cloned().unwrap_or_else(|| {
        VsOperatorAuthorization { id, corporation_id, vs_operator: new.vs_operator.clone(), records: Vec::new() }
    });
    authorization.records.push(ParticipantAuthorizationRecord {
        participant_id: new.participant_id,
        msg_types: new.msg_types,
        spend_limit: new.spend_limit.clone(),
        remaining_spend: new.spend_limit,
        fee_spend_limit: new.fee_spend_limit.clone(),
        remaining_fee_spend: new.fee_spend_limit,
        with_feegrant: new.with_feegrant,
        // A cycle begins with its first use.
        expiration: new.expiration.filter(|_| !exec.chain.has_spend_cycles()),
        period: new.period,
    });
    exec.state.vs_operator_index.put(
        new.vs_operator,
        PlainValue(VsOperatorEntry { corporation_id, authorization_id: id }),
        exec.gas,
    );
    exec.state.vs_participant_index.put(new.participant_id, PlainValue(id), exec.gas);
    emit_change(exec, "grant_vs_operator_authorization", &authorization, new.participant_id);
    exec.state.vs_authorizations.put(id, authorization.clone(), exec.gas);
    recompute_fees(exec, corporation, &authorization)
}

/// Removes the record of a participant, and the authorization with its last record. No record is a success.
pub fn remove_record(exec: &mut ExecContext<'_>, corporation: &str, participant_id: u64) -> Result<(), LedgerError> {
    let Some(mut authorization) = find_authorization(exec, participant_id) else { return Ok(()) };
    authorization.records.retain(|record| record.participant_id != participant_id);
    exec.state.vs_participant_index.remove(&participant_id, exec.gas);
    if authorization.records.is_empty() {
        exec.state.vs_authorizations.remove(&authorization.id, exec.gas);
        exec.state.vs_operator_index.remove(&authorization.vs_operator, exec.gas);
    } else {
        exec.state.vs_authorizations.put(authorization.id, authorization.clone(), exec.gas);
    }
    emit_change(exec, "revoke_vs_operator_authorization", &authorization, participant_id);
    recompute_fees(exec, corporation, &authorization)
}

/// Sets the expiration of a record to the end of its participant; `None` means no end. No record is a success.
pub fn set_expiration(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    participant_id: u64,
    until: Option<Timestamp>,
) -> Result<(), LedgerError> {
    let Some(mut authorization) = find_authorization(exec, participant_id) else { return Ok(()) };
    if exec.chain.has_spend_cycles() {
        // The right ends with the participant, and its expiration is that of a cycle.
        return recompute_fees(exec, corporation, &authorization);
    }
    for record in authorization.records.iter_mut().filter(|record| record.participant_id == participant_id) {
        record.expiration = until;
    }
    exec.state.vs_authorizations.put(authorization.id, authorization.clone(), exec.gas);
    emit_change(exec, "update_vs_operator_authorization", &authorization, participant_id);
    recompute_fees(exec, corporation, &authorization)
}

/// Brings all records to the rules of spend cycles: only a record with a period has an expiration, the end of its cycle, and the fees of a VS
/// operator are one allowance, which follows from the limits of its records.
pub fn migrate_to_spend_cycles(exec: &mut ExecContext<'_>) {
    let authorizations: Vec<VsOperatorAuthorization> = exec.state.vs_authorizations.values().cloned().collect();
    for mut authorization in authorizations {
        for record in &mut authorization.records {
            record.remaining_fee_spend.clear();
            record.expiration = record.expiration.filter(|_| record.period.is_some());
        }
        let corporation = exec.state.corporations.peek(&authorization.corporation_id);
        let corporation = corporation.map(|found| found.policy_address.clone());
        exec.state.vs_authorizations.put(authorization.id, authorization.clone(), exec.gas);
        if let Some(corporation) = corporation {
            // Fails for limits that are no coins, which no record has.
            let _ = periodic_fees::recompute(exec, &corporation, &authorization);
        }
    }
}

fn find_authorization(exec: &ExecContext<'_>, participant_id: u64) -> Option<VsOperatorAuthorization> {
    let id = exec.state.vs_participant_index.get(&participant_id, exec.gas)?.0;
    exec.state.vs_authorizations.get(&id, exec.gas).cloned()
}

fn emit_change(exec: &mut ExecContext<'_>, kind: &str, authorization: &VsOperatorAuthorization, participant_id: u64) {
    let now = exec.block_time();
    exec.emit(
        kind,
        [
            ("vsoa_id", authorization.id.to_string()),
            ("corporation_id", authorization.corporation_id.to_string()),
            ("vs_operator", authorization.vs_operator.clone()),
            ("participant_id", participant_id.to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
}

/// Derives the fee allowance of a VS operator from its unexpired records with a fee grant: without a limit, until their
/// latest expiration, for the union of their messages. Without such a record there is no allowance.
///
/// Quirk: the renewal of a record by its period does not recompute the allowance.
fn recompute_fees(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    authorization: &VsOperatorAuthorization,
) -> Result<(), LedgerError> {
    if exec.chain.has_spend_cycles() {
        return periodic_fees::recompute(exec, corporation, authorization);
    }
    let now = exec.block_time();
    let paid = authorization.records.iter().filter(|record| {
        record.with_feegrant && record.expiration.as_ref().is_some_and(|until| !timestamp::is_at_or_before(until, &now))
    });
    let (mut messages, mut latest) = (Vec::new(), None::<Timestamp>);
    for record in paid {
        for url in &record.msg_types {
            if !messages.contains(url) {
                messages.push(url.clone());
            }
        }
        latest = latest.into_iter().chain(record.expiration).max_by_key(timestamp::unix_nanos);
    }
    let (corporation_id, grantee) = (authorization.corporation_id, &authorization.vs_operator);
    if messages.is_empty() {
        revoke_fees(exec, corporation, corporation_id, grantee);
        return Ok(());
    }
    let allowance = feegrant::basic_for(&messages, &[], latest);
    feegrant::remove_allowance(exec, corporation, grantee);
    feegrant::set_allowance_of_module(exec, corporation, grantee, allowance)?;
    let record = FeeGrant {
        grantor_corporation_id: corporation_id,
        grantee: grantee.clone(),
        msg_types: messages,
        expiration: latest,
        ..FeeGrant::default()
    };
    exec.state.fee_grants.put((corporation_id, grantee.clone()), record, exec.gas);
    emit_fee_event(exec, "grant_fee_allowance", corporation_id, grantee, &now);
    Ok(())
}

/// AUTHZ-CHECK-3: requires a record of the participant that lets this VS operator send this message.
///
/// Quirks: a record without expiration is unusable; one with a period is renewed, even if it was created disabled.
pub fn authorize(
    exec: &mut ExecContext<'_>,
    corporation_id: u64,
    operator: &str,
    participant_id: u64,
    url: &str,
) -> Result<(), LedgerError> {
    let not_found = || {
        let text = format!("VS operator authorization not found: participant {participant_id}, operator {operator}");
        LedgerError::new("de", 1114, text)
    };
    if exec.chain.has_spend_cycles() {
        let participant = exec.state.participants.get(&participant_id, exec.gas);
        let is_active = participant.is_some_and(|one| inactive_reason(one, &exec.block.time).is_none());
        ensure(is_active, "de", 1116, || format!("participant {participant_id}"))?;
    }
    let mut authorization = find_authorization(exec, participant_id).ok_or_else(not_found)?;
    if authorization.corporation_id != corporation_id || authorization.vs_operator != operator {
        return Err(not_found());
    }
    let record = record_mut(&mut authorization, participant_id).ok_or_else(not_found)?;
    ensure(record.msg_types.iter().any(|listed| listed == url), "de", 1107, || {
        format!("message type not authorized: {url}")
    })?;
    let now = exec.block.time;
    if exec.chain.has_spend_cycles() {
        let is_running = record.expiration.as_ref().is_some_and(|until| !timestamp::is_at_or_before(until, &now));
        if let Some(period) = record.period.filter(|_| !is_running) {
            record.remaining_spend = record.spend_limit.clone();
            record.expiration = Some(timestamp::add_duration(&now, &period));
            store_and_emit(exec, authorization, participant_id);
        }
        return Ok(());
    }
    // Later builds of the second generation know records without an end.
    if exec.chain.has_window_rules() && record.expiration.is_none() {
        return Ok(());
    }
    let is_over = record.expiration.as_ref().is_none_or(|until| timestamp::is_at_or_before(until, &now));
    if !is_over {
        return Ok(());
    }
    let period = record.period.filter(|period| timestamp::duration_nanos(period) > 0 && record.expiration.is_some());
    let Some(period) = period else {
        return Err(LedgerError::new("de", 1106, format!("VS record of participant {participant_id} expired")));
    };
    record.remaining_spend = record.spend_limit.clone();
    record.remaining_fee_spend = record.fee_spend_limit.clone();
    record.expiration = Some(timestamp::add_duration(&now, &period));
    store_and_emit(exec, authorization, participant_id);
    Ok(())
}

fn record_mut(
    authorization: &mut VsOperatorAuthorization,
    participant_id: u64,
) -> Option<&mut ParticipantAuthorizationRecord> {
    authorization.records.iter_mut().find(|record| record.participant_id == participant_id)
}

fn store_and_emit(exec: &mut ExecContext<'_>, authorization: VsOperatorAuthorization, participant_id: u64) {
    let id = authorization.id;
    exec.state.vs_authorizations.put(id, authorization, exec.gas);
    exec.emit(
        "vs_operator_authorization_updated",
        [("vsoa_id", id.to_string()), ("participant_id", participant_id.to_string())],
    );
}

/// Takes `amounts` from the remaining spend limit of a record.
pub fn debit_record(
    exec: &mut ExecContext<'_>,
    participant_id: u64,
    amounts: &[(String, u128)],
) -> Result<(), LedgerError> {
    let Some(mut authorization) = find_authorization(exec, participant_id) else { return Ok(()) };
    let Some(record) = record_mut(&mut authorization, participant_id) else { return Ok(()) };
    if amounts.is_empty() || record.spend_limit.is_empty() {
        return Ok(());
    }
    let left = bank::parse_coins(&record.remaining_spend).map_err(LedgerError::unregistered)?;
    record.remaining_spend = bank::to_coins(&subtract_spend(&left, amounts, "spend")?);
    store_and_emit(exec, authorization, participant_id);
    Ok(())
}

/// AUTHZ-CHECK-4: if the corporation pays the transaction fee, takes it from the remaining fee spend limit of the record.
pub fn charge_fee(exec: &mut ExecContext<'_>, corporation: &str, participant_id: u64) -> Result<(), LedgerError> {
    let Some(fee) = exec.fee.filter(|fee| fee.granter == corporation) else { return Ok(()) };
    let Some(mut authorization) = find_authorization(exec, participant_id) else { return Ok(()) };
    let Some(record) = record_mut(&mut authorization, participant_id) else { return Ok(()) };
    ensure(record.with_feegrant, "de", 1115, || {
        format!("fee grant not authorized: VS record of participant {participant_id} comes without")
    })?;
    // The common allowance bounds the fees of a later generation.
    if exec.chain.has_spend_cycles() || record.fee_spend_limit.is_empty() || fee.amount.is_empty() {
        return Ok(());
    }
    let amounts = bank::parse_coins(&fee.amount).map_err(LedgerError::unregistered)?;
    let left = bank::parse_coins(&record.remaining_fee_spend).map_err(LedgerError::unregistered)?;
    let left = subtract_spend(&left, &amounts, "fee").map_err(|error| error.wrap("fee spend limit exceeded"))?;
    record.remaining_fee_spend = bank::to_coins(&left);
    store_and_emit(exec, authorization, participant_id);
    Ok(())
}

#[cfg(test)]
mod tests;
