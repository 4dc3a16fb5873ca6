//! Messages on existing participants: end date, revocation, slash and repayment, re-resolution.

use svc_wire::{
    proto::svc::pp::v1::{
        MsgRepayParticipantSlashedTrustDeposit, MsgRepayParticipantSlashedTrustDepositResponse, MsgRevokeParticipant,
        MsgRevokeParticipantResponse, MsgSetParticipantEffectiveUntil, MsgSetParticipantEffectiveUntilResponse,
        MsgSlashParticipantTrustDeposit, MsgSlashParticipantTrustDepositResponse, MsgTriggerResolver,
        MsgTriggerResolverResponse, Participant, ParticipantRole as Role,
    },
    timestamp,
};

use super::{
    participant::{
        AUTHORIZATION_FAILED, authorize, controls_ecosystem, debit, effective_others, ensure_active, ensure_addresses,
        inactive_reason, load_owned, load_participant, load_validator, operator_attributes, policy_address,
        require_corporation, store_participant, unregistered_error,
    },
    rules::{ancestors, ensure_no_overlap, ensure_no_window_overlap, is_self_created},
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{
        bank,
        de::{self, vs},
        td,
    },
};

/// Runs the stateless checks of a message that names one participant and nothing else.
pub fn validate_id(chain: &ChainConfig, corporation: &str, operator: &str, id: u64) -> Result<(), LedgerError> {
    ensure_addresses(chain, corporation, operator)?;
    if id == 0 { unregistered_error("id must be greater than 0") } else { Ok(()) }
}

pub fn validate_set_effective_until(
    chain: &ChainConfig,
    message: &MsgSetParticipantEffectiveUntil,
) -> Result<(), LedgerError> {
    validate_id(chain, &message.corporation, &message.operator, message.id)?;
    if message.effective_until.is_none() { unregistered_error("effective_until is required") } else { Ok(()) }
}

/// Sets the end of a participant, earlier or later.
pub fn set_effective_until(
    exec: &mut ExecContext<'_>,
    message: MsgSetParticipantEffectiveUntil,
) -> Result<MsgSetParticipantEffectiveUntilResponse, LedgerError> {
    let name = "MsgSetParticipantEffectiveUntil";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load_participant(exec, message.id)?;
    let now = exec.block_time();
    ensure_active(&participant, "participant", &now)?;
    let Some(until) = message.effective_until.filter(|until| !timestamp::is_at_or_before(until, &now)) else {
        return unregistered_error("effective_until must be in the future");
    };
    ensure_may_set_end(exec, &participant, corporation_id, &until)?;
    let others = effective_others(exec, &participant);
    match participant.effective_from.filter(|_| exec.chain.has_window_rules()) {
        Some(from) => ensure_no_window_overlap(&others, &from, Some(&until), &now)?,
        None => ensure_no_overlap(&others, participant.effective_from.as_ref(), Some(&until))?,
    }
    participant.effective_until = Some(until);
    participant.adjusted = Some(now);
    participant.modified = Some(now);
    let owner = policy_address(exec, participant.corporation_id)?;
    store_participant(exec, participant);
    vs::set_expiration(exec, &owner, message.id, Some(until))?;
    exec.emit(
        "set_participant_effective_until",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("new_effective_until", timestamp::go_time_text(&until)),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgSetParticipantEffectiveUntilResponse {})
}

/// Checks that the corporation may set the end: the owner for a root and under an open schema; otherwise the validator, within
/// the validation period.
fn ensure_may_set_end(
    exec: &ExecContext<'_>,
    participant: &Participant,
    corporation_id: u64,
    until: &prost_types::Timestamp,
) -> Result<(), LedgerError> {
    let is_owner = participant.corporation_id == corporation_id;
    let not_allowed =
        || unregistered_error(format!("corporation {corporation_id} may not set the end of this participant"));
    if participant.validator_participant_id == 0 {
        let is_root = participant.role() == Role::Ecosystem;
        return if is_root && is_owner { Ok(()) } else { not_allowed() };
    }
    let validator = load_validator(exec, participant.validator_participant_id)?;
    ensure_active(&validator, "validator participant", &exec.block_time())?;
    let schema = exec.state.schemas.get(&participant.schema_id, exec.gas);
    if schema.is_some_and(|schema| is_self_created(schema, participant.role())) {
        return if is_owner { Ok(()) } else { not_allowed() };
    }
    if validator.corporation_id != corporation_id {
        return not_allowed();
    }
    if participant.op_exp.as_ref().is_some_and(|end| !timestamp::is_at_or_before(until, end)) {
        return unregistered_error("effective_until must not be after the end of the validation");
    }
    Ok(())
}

fn belongs_to_active_ancestor(exec: &ExecContext<'_>, participant: &Participant, corporation_id: u64) -> bool {
    let now = exec.block_time();
    exec.gas.charge_read(0);
    ancestors(exec.state, participant)
        .iter()
        .any(|above| above.corporation_id == corporation_id && inactive_reason(above, &now).is_none())
}

/// Quirk: after a cancelled renewal `deposit` exceeds the stake of this participant, and the release can abort the revocation.
pub fn revoke(
    exec: &mut ExecContext<'_>,
    message: MsgRevokeParticipant,
) -> Result<MsgRevokeParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgRevokeParticipant")?;
    let mut participant = load_participant(exec, message.id)?;
    let now = exec.block_time();
    ensure_active(&participant, "participant", &now)?;
    let may_revoke = belongs_to_active_ancestor(exec, &participant, corporation_id)
        || controls_ecosystem(exec, participant.schema_id, corporation_id)
        || participant.corporation_id == corporation_id;
    if !may_revoke {
        return unregistered_error(format!("corporation {corporation_id} may not revoke participant {}", message.id));
    }
    let owner = policy_address(exec, participant.corporation_id)?;
    td::release(exec, &owner, participant.deposit, "participant_revoke_release_deposit")?;
    participant.deposit = 0;
    participant.revoked = Some(now);
    participant.modified = Some(now);
    store_participant(exec, participant);
    vs::remove_record(exec, &owner, message.id)?;
    exec.emit(
        "revoke_participant",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("revoked_at", timestamp::go_time_text(&now)),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgRevokeParticipantResponse {})
}

pub fn validate_slash(chain: &ChainConfig, message: &MsgSlashParticipantTrustDeposit) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    if message.id == 0 {
        return Err(LedgerError::sdk(18, "id must be greater than 0"));
    }
    if message.amount == 0 {
        return Err(LedgerError::sdk(18, "amount must be greater than 0"));
    }
    if message.reason.is_empty() {
        return Err(LedgerError::sdk(18, "reason is required"));
    }
    Ok(())
}

/// Slashes a participant, also an expired or revoked one. Quirk: the `deposit` of the participant does not change.
pub fn slash(
    exec: &mut ExecContext<'_>,
    message: MsgSlashParticipantTrustDeposit,
) -> Result<MsgSlashParticipantTrustDepositResponse, LedgerError> {
    let name = "MsgSlashParticipantTrustDeposit";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load_participant(exec, message.id)?;
    if message.amount > participant.deposit {
        return unregistered_error(format!(
            "amount {} exceeds the participant's deposit {}",
            message.amount, participant.deposit
        ));
    }
    let may_slash = belongs_to_active_ancestor(exec, &participant, corporation_id)
        || controls_ecosystem(exec, participant.schema_id, corporation_id);
    if !may_slash {
        return unregistered_error(format!("corporation {corporation_id} may not slash participant {}", message.id));
    }
    let owner = policy_address(exec, participant.corporation_id)?;
    td::burn_ecosystem_slash(exec, &owner, message.amount)?;
    let now = exec.block_time();
    participant.slashed = Some(now);
    participant.modified = Some(now);
    participant.slashed_deposit =
        td::ensure_int64(u128::from(participant.slashed_deposit) + u128::from(message.amount))?;
    store_participant(exec, participant);
    vs::remove_record(exec, &owner, message.id)?;
    exec.emit(
        "slash_participant_trust_deposit",
        [
            ("participant_id", message.id.to_string()),
            ("slashed_amount", message.amount.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("reason", message.reason),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgSlashParticipantTrustDepositResponse {})
}

/// Repays a slash. Quirks: the amount is the whole slash despite earlier repayments, and the participant stays inactive.
pub fn repay(
    exec: &mut ExecContext<'_>,
    message: MsgRepayParticipantSlashedTrustDeposit,
) -> Result<MsgRepayParticipantSlashedTrustDepositResponse, LedgerError> {
    let name = "MsgRepayParticipantSlashedTrustDeposit";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load_owned(exec, message.id, corporation_id)?;
    if participant.slashed.is_none() {
        return unregistered_error(format!("participant {} is not slashed", message.id));
    }
    if participant.repaid_deposit >= participant.slashed_deposit {
        return unregistered_error(format!("the slash of participant {} is repaid already", message.id));
    }
    let repaid = if exec.chain.has_window_rules() { participant.repaid_deposit } else { 0 };
    let amount = participant.slashed_deposit - repaid;
    let held = bank::balance(exec.state, &message.corporation, &exec.chain.denom, exec.gas);
    if held < u128::from(amount) {
        return unregistered_error(format!("insufficient funds to repay: {held} of {amount}"));
    }
    debit(exec, &message.corporation, &message.operator, name, amount)?;
    td::increase(exec, &message.corporation, amount, "participant_repay_slashed_deposit")?;
    let now = exec.block_time();
    participant.repaid = Some(now);
    participant.modified = Some(now);
    participant.repaid_deposit = repaid + amount;
    let mut attributes = vec![("participant_id", message.id.to_string()), ("repaid_amount", amount.to_string())];
    attributes.extend(operator_attributes(exec, message.corporation, message.operator));
    store_participant(exec, participant);
    exec.emit_attributes("repay_participant_slashed_trust_deposit", attributes);
    Ok(MsgRepayParticipantSlashedTrustDepositResponse {})
}

/// Asks resolvers to resolve the DID again; the state does not change.
///
/// Quirk: an operator of the owner may not send it, unless the owner also owns an ancestor.
pub fn trigger_resolver(
    exec: &mut ExecContext<'_>,
    message: MsgTriggerResolver,
) -> Result<MsgTriggerResolverResponse, LedgerError> {
    let participant = load_participant(exec, message.id)?;
    ensure_active(&participant, "participant", &exec.block_time())?;
    let corporation_id = require_corporation(exec, &message.corporation)?;
    let url = de::message_url(exec, "pp", "MsgTriggerResolver");
    let is_vs_operator = participant.corporation_id == corporation_id && participant.vs_operator == message.operator;
    let by_record = is_vs_operator
        && exec.attempt(|exec| vs::authorize(exec, corporation_id, &message.operator, message.id, &url)).is_ok();
    if by_record {
        vs::charge_fee(exec, &message.corporation, message.id)?;
    } else {
        let as_ancestor = belongs_to_active_ancestor(exec, &participant, corporation_id)
            && exec.attempt(|exec| de::authorize(exec, &message.corporation, &message.operator, &url)).is_ok();
        if !as_ancestor {
            return unregistered_error(format!(
                "{AUTHORIZATION_FAILED}: {} is neither VS operator of participant {} nor operator of an active ancestor",
                message.operator, message.id
            ));
        }
    }
    let mut attributes = vec![("participant_id", message.id.to_string())];
    attributes.extend(operator_attributes(exec, message.corporation, message.operator));
    exec.emit_attributes("trigger_resolver", attributes);
    Ok(MsgTriggerResolverResponse {})
}
