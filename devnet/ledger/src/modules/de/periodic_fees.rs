//! The fees of VS operators from the rework of the delegation on: one periodic allowance for a corporation and its operator, which follows from
//! the records whose participants are effective or will be.

use std::collections::BTreeMap;

use prost_types::{Duration, Timestamp};
use svc_wire::proto::svc::{
    de::v1::{FeeGrant, VsOperatorAuthorization},
    pp::v1::Participant,
};

use super::fees::{emit_fee_event, revoke_fees};
use crate::{
    context::ExecContext,
    error::LedgerError,
    modules::{
        bank::{self, CoinAmounts},
        feegrant,
        pp::inactive_reason,
    },
};

/// Length of a period, as the parameters of the module have it.
pub const FEE_PERIOD: Duration = Duration { seconds: 86_400, nanos: 0 };
/// Authorizations that the end of a block looks at.
const MAX_QUEUED: usize = 1_000;

/// The messages and the limit of an allowance.
struct WantedAllowance {
    messages: Vec<String>,
    limit: CoinAmounts,
}

/// Whether a participant is effective, or will be.
fn counts(participant: &Participant, now: &Timestamp) -> bool {
    let reason = inactive_reason(participant, now);
    reason.is_none() || (participant.effective_from.is_some() && reason == Some("participant is not yet effective"))
}

fn wanted(exec: &ExecContext<'_>, authorization: &VsOperatorAuthorization) -> Result<WantedAllowance, LedgerError> {
    let now = exec.block_time();
    let (mut messages, mut limit) = (Vec::new(), BTreeMap::<String, u128>::new());
    for record in authorization.records.iter().filter(|record| record.with_feegrant) {
        let participant = exec.state.participants.peek(&record.participant_id);
        if !participant.is_some_and(|participant| counts(participant, &now)) {
            continue;
        }
        for url in &record.msg_types {
            if !messages.contains(url) {
                messages.push(url.clone());
            }
        }
        for (denom, amount) in bank::parse_coins(&record.fee_spend_limit).map_err(LedgerError::unregistered)? {
            let sum = limit.entry(denom).or_default();
            *sum = sum.saturating_add(amount);
        }
    }
    Ok(WantedAllowance { messages, limit: limit.into_iter().collect() })
}

/// Makes the allowance that the records lead to. The amounts that were spent in the running period count on.
pub fn recompute(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    authorization: &VsOperatorAuthorization,
) -> Result<(), LedgerError> {
    let WantedAllowance { messages, limit } = wanted(exec, authorization)?;
    let (corporation_id, grantee) = (authorization.corporation_id, &authorization.vs_operator);
    if messages.is_empty() || limit.is_empty() {
        revoke_fees(exec, corporation, corporation_id, grantee);
        return Ok(());
    }
    let now = exec.block_time();
    let (spent, reset) = feegrant::running_period(exec, corporation, grantee, &now)
        .unwrap_or_else(|| (CoinAmounts::new(), svc_wire::timestamp::add_duration(&now, &FEE_PERIOD)));
    let left = limit.iter().map(|(denom, amount)| {
        let used = spent.iter().find(|(known, _)| known == denom).map_or(0, |(_, used)| *used);
        (denom.clone(), amount.saturating_sub(used))
    });
    // An amount of nothing is no coin.
    let left: CoinAmounts = left.filter(|(_, amount)| *amount > 0).collect();
    let allowance = feegrant::periodic_with(&messages, [&limit, &left], FEE_PERIOD, reset);
    feegrant::remove_allowance(exec, corporation, grantee);
    feegrant::set_allowance_of_module(exec, corporation, grantee, allowance)?;
    let record = FeeGrant {
        grantor_corporation_id: corporation_id,
        grantee: grantee.clone(),
        msg_types: messages,
        spend_limit: bank::to_coins(&limit),
        remaining_spend: bank::to_coins(&left),
        expiration: Some(reset),
        period: Some(FEE_PERIOD),
    };
    exec.state.fee_grants.put((corporation_id, grantee.clone()), record, exec.gas);
    emit_fee_event(exec, "grant_fee_allowance", corporation_id, grantee, &now);
    Ok(())
}

/// Takes the records out of their allowances whose participants have ended since.
pub fn end_block(exec: &mut ExecContext<'_>) {
    if !exec.chain.has_spend_cycles() {
        return;
    }
    let outdated: Vec<(String, VsOperatorAuthorization)> = exec
        .state
        .vs_authorizations
        .values()
        .filter_map(|authorization| {
            let key = (authorization.corporation_id, authorization.vs_operator.clone());
            let granted = exec.state.fee_grants.peek(&key)?;
            let wanted = wanted(exec, authorization).ok()?;
            let is_same = granted.msg_types == wanted.messages && granted.spend_limit == bank::to_coins(&wanted.limit);
            let corporation = exec.state.corporations.peek(&authorization.corporation_id)?.policy_address.clone();
            (!is_same).then(|| (corporation, authorization.clone()))
        })
        .take(MAX_QUEUED)
        .collect();
    for (corporation, authorization) in outdated {
        // The grantee has an account, since it had an allowance.
        let _ = recompute(exec, &corporation, &authorization);
    }
}
