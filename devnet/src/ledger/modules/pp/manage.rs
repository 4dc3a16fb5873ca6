//! What happens to participants later: end dates, revocation, slashes and their repayment, re-resolution.

use svc_wire::{
    instant,
    proto::svc::pp::v1::{
        MsgRepayParticipantSlashedTrustDeposit, MsgRepayParticipantSlashedTrustDepositResponse, MsgRevokeParticipant,
        MsgRevokeParticipantResponse, MsgSetParticipantEffectiveUntil, MsgSetParticipantEffectiveUntilResponse,
        MsgSlashParticipantTrustDeposit, MsgSlashParticipantTrustDepositResponse, MsgTriggerResolver,
        MsgTriggerResolverResponse, Participant, ParticipantRole as Role,
    },
};

use super::{
    AUTHORIZATION, active, addresses, authorize, by_operator, controls_ecosystem, debit, load, load_validator,
    others_with_effect, owned, plain, policy_address, registered,
    rules::{ancestors, inactive_reason, is_open, no_overlap},
    store,
};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    modules::{
        bank,
        de::{self, vs},
        td,
    },
};

/// Stateless checks of messages that name one participant and nothing else.
pub fn validate_id(chain: &Chain, corporation: &str, operator: &str, id: u64) -> Result<(), LedgerError> {
    addresses(chain, corporation, operator)?;
    if id == 0 { plain("id must be greater than 0") } else { Ok(()) }
}

pub fn validate_set_effective_until(
    chain: &Chain,
    message: &MsgSetParticipantEffectiveUntil,
) -> Result<(), LedgerError> {
    validate_id(chain, &message.corporation, &message.operator, message.id)?;
    if message.effective_until.is_none() { plain("effective_until is required") } else { Ok(()) }
}

/// Shortens or extends.
pub fn set_effective_until(
    exec: &mut Exec<'_>,
    message: MsgSetParticipantEffectiveUntil,
) -> Result<MsgSetParticipantEffectiveUntilResponse, LedgerError> {
    let name = "MsgSetParticipantEffectiveUntil";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load(exec, message.id)?;
    let now = exec.now();
    active(&participant, "participant", &now)?;
    let Some(until) = message.effective_until.filter(|until| !instant::at_or_before(until, &now)) else {
        return plain("effective_until must be in the future");
    };
    may_set_end(exec, &participant, corporation_id, &until)?;
    let others = others_with_effect(exec, &participant);
    no_overlap(&others, participant.effective_from.as_ref(), Some(&until))?;
    participant.effective_until = Some(until);
    participant.adjusted = Some(now);
    participant.modified = Some(now);
    let owner = policy_address(exec, participant.corporation_id)?;
    store(exec, participant);
    vs::expire_at(exec, &owner, message.id, Some(until));
    exec.emit(
        "set_participant_effective_until",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("new_effective_until", instant::go_text(&until)),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgSetParticipantEffectiveUntilResponse {})
}

/// A root's end is its owner's; under an open schema also the owner's; else the validator's, within the validation.
fn may_set_end(
    exec: &Exec<'_>,
    participant: &Participant,
    corporation_id: u64,
    until: &prost_types::Timestamp,
) -> Result<(), LedgerError> {
    let is_owner = participant.corporation_id == corporation_id;
    let not_allowed = || plain(format!("corporation {corporation_id} may not set the end of this participant"));
    if participant.validator_participant_id == 0 {
        let is_root = participant.role() == Role::Ecosystem;
        return if is_root && is_owner { Ok(()) } else { not_allowed() };
    }
    let validator = load_validator(exec, participant.validator_participant_id)?;
    active(&validator, "validator participant", &exec.now())?;
    let schema = exec.state.schemas.get(&participant.schema_id, exec.gas);
    if schema.is_some_and(|schema| is_open(schema, participant.role())) {
        return if is_owner { Ok(()) } else { not_allowed() };
    }
    if validator.corporation_id != corporation_id {
        return not_allowed();
    }
    if participant.op_exp.as_ref().is_some_and(|end| !instant::at_or_before(until, end)) {
        return plain("effective_until must not be after the end of the validation");
    }
    Ok(())
}

fn belongs_to_active_ancestor(exec: &Exec<'_>, participant: &Participant, corporation_id: u64) -> bool {
    let now = exec.now();
    exec.gas.read(0);
    ancestors(exec.state, participant)
        .iter()
        .any(|above| above.corporation_id == corporation_id && inactive_reason(above, &now).is_none())
}

/// Quirk: after a cancelled renewal `deposit` exceeds what is still staked for this participant, and the release may abort
/// the revocation.
pub fn revoke(exec: &mut Exec<'_>, message: MsgRevokeParticipant) -> Result<MsgRevokeParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgRevokeParticipant")?;
    let mut participant = load(exec, message.id)?;
    let now = exec.now();
    active(&participant, "participant", &now)?;
    let may_revoke = belongs_to_active_ancestor(exec, &participant, corporation_id)
        || controls_ecosystem(exec, participant.schema_id, corporation_id)
        || participant.corporation_id == corporation_id;
    if !may_revoke {
        return plain(format!("corporation {corporation_id} may not revoke participant {}", message.id));
    }
    let owner = policy_address(exec, participant.corporation_id)?;
    td::release(exec, &owner, participant.deposit, "participant_revoke_release_deposit")?;
    participant.deposit = 0;
    participant.revoked = Some(now);
    participant.modified = Some(now);
    store(exec, participant);
    vs::remove(exec, &owner, message.id);
    exec.emit(
        "revoke_participant",
        [
            ("participant_id", message.id.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("revoked_at", instant::go_text(&now)),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgRevokeParticipantResponse {})
}

pub fn validate_slash(chain: &Chain, message: &MsgSlashParticipantTrustDeposit) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
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

/// Expired and revoked participants can be slashed too. Quirk: the participant's `deposit` figure stays.
pub fn slash(
    exec: &mut Exec<'_>,
    message: MsgSlashParticipantTrustDeposit,
) -> Result<MsgSlashParticipantTrustDepositResponse, LedgerError> {
    let name = "MsgSlashParticipantTrustDeposit";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = load(exec, message.id)?;
    if message.amount > participant.deposit {
        return plain(format!("amount {} exceeds the participant's deposit {}", message.amount, participant.deposit));
    }
    let may_slash = belongs_to_active_ancestor(exec, &participant, corporation_id)
        || controls_ecosystem(exec, participant.schema_id, corporation_id);
    if !may_slash {
        return plain(format!("corporation {corporation_id} may not slash participant {}", message.id));
    }
    let owner = policy_address(exec, participant.corporation_id)?;
    td::burn_ecosystem_slash(exec, &owner, message.amount)?;
    let now = exec.now();
    participant.slashed = Some(now);
    participant.modified = Some(now);
    participant.slashed_deposit = td::int64(u128::from(participant.slashed_deposit) + u128::from(message.amount))?;
    store(exec, participant);
    vs::remove(exec, &owner, message.id);
    exec.emit(
        "slash_participant_trust_deposit",
        [
            ("participant_id", message.id.to_string()),
            ("slashed_amount", message.amount.to_string()),
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("reason", message.reason),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgSlashParticipantTrustDepositResponse {})
}

/// Quirks: the whole slash is paid whatever was repaid before, and the participant does not become active again.
pub fn repay(
    exec: &mut Exec<'_>,
    message: MsgRepayParticipantSlashedTrustDeposit,
) -> Result<MsgRepayParticipantSlashedTrustDepositResponse, LedgerError> {
    let name = "MsgRepayParticipantSlashedTrustDeposit";
    let corporation_id = authorize(exec, &message.corporation, &message.operator, name)?;
    let mut participant = owned(exec, message.id, corporation_id)?;
    if participant.slashed.is_none() {
        return plain(format!("participant {} is not slashed", message.id));
    }
    let amount = participant.slashed_deposit;
    if participant.repaid_deposit >= amount {
        return plain(format!("the slash of participant {} is repaid already", message.id));
    }
    let held = bank::balance(exec.state, &message.corporation, &exec.chain.denom, exec.gas);
    if held < u128::from(amount) {
        return plain(format!("insufficient funds to repay: {held} of {amount}"));
    }
    debit(exec, &message.corporation, &message.operator, name, amount)?;
    td::increase(exec, &message.corporation, amount, "participant_repay_slashed_deposit")?;
    let now = exec.now();
    participant.repaid = Some(now);
    participant.modified = Some(now);
    participant.repaid_deposit = amount;
    let mut attributes = vec![("participant_id", message.id.to_string()), ("repaid_amount", amount.to_string())];
    attributes.extend(by_operator(exec, message.corporation, message.operator));
    store(exec, participant);
    exec.emit_all("repay_participant_slashed_trust_deposit", attributes);
    Ok(MsgRepayParticipantSlashedTrustDepositResponse {})
}

/// Asks resolvers to look again; nothing changes on chain.
///
/// Quirk: an ordinary operator of the owner cannot do it for its own participant, unless the owner also owns an ancestor.
pub fn trigger(exec: &mut Exec<'_>, message: MsgTriggerResolver) -> Result<MsgTriggerResolverResponse, LedgerError> {
    let participant = load(exec, message.id)?;
    active(&participant, "participant", &exec.now())?;
    let corporation_id = registered(exec, &message.corporation)?;
    let url = de::url(exec, "pp", "MsgTriggerResolver");
    let is_vs_operator = participant.corporation_id == corporation_id && participant.vs_operator == message.operator;
    let by_record = is_vs_operator
        && exec.attempt(|exec| vs::authorize(exec, corporation_id, &message.operator, message.id, &url)).is_ok();
    if by_record {
        vs::charge_fee(exec, &message.corporation, message.id)?;
    } else {
        let as_ancestor = belongs_to_active_ancestor(exec, &participant, corporation_id)
            && exec.attempt(|exec| de::authorize(exec, &message.corporation, &message.operator, &url)).is_ok();
        if !as_ancestor {
            return plain(format!(
                "{AUTHORIZATION}: {} is neither VS operator of participant {} nor operator of an active ancestor",
                message.operator, message.id
            ));
        }
    }
    let mut attributes = vec![("participant_id", message.id.to_string())];
    attributes.extend(by_operator(exec, message.corporation, message.operator));
    exec.emit_all("trigger_resolver", attributes);
    Ok(MsgTriggerResolverResponse {})
}
