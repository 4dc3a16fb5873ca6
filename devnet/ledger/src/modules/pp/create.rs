//! Messages that create a participant without a validator: the root of an ecosystem, and self-creation under an open schema.

use prost_types::Timestamp;
use svc_wire::{
    proto::svc::pp::v1::{
        MsgCreateRootParticipant, MsgCreateRootParticipantResponse, MsgSelfCreateParticipant,
        MsgSelfCreateParticipantResponse, OnboardingState, Participant, ParticipantRole as Role,
    },
    timestamp,
};

use super::{
    participant::{
        authorize, controls_ecosystem, ensure_addresses, ensure_did_available, insert_participant, load_validator,
        participants_in_context, time_text, unregistered_error,
    },
    rules::{ensure_no_overlap, ensure_no_unrepaid_slash, ensure_no_window_overlap, is_self_created},
    vs_operator::VsOperatorFields,
};
use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError, values::validate};

pub fn validate_create_root(chain: &ChainConfig, message: &MsgCreateRootParticipant) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    if message.schema_id == 0 {
        return unregistered_error("schema_id must be greater than 0");
    }
    if !validate::is_did(&message.did) {
        return unregistered_error(format!("invalid DID: {:?}", message.did));
    }
    VsOperatorFields::from(message).validate(chain, Role::Ecosystem)
}

pub fn create_root(
    exec: &mut ExecContext<'_>,
    message: MsgCreateRootParticipant,
) -> Result<MsgCreateRootParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCreateRootParticipant")?;
    let Some(schema) = exec.state.schemas.get(&message.schema_id, exec.gas).cloned() else {
        return unregistered_error(format!("credential schema {} not found", message.schema_id));
    };
    let now = exec.block_time();
    let may_begin_now = exec.chain.has_window_rules().then_some(now);
    let from = match message.effective_from {
        Some(from) if timestamp::is_at_or_before(&from, &now) => None,
        given => given.or(may_begin_now),
    };
    let Some(from) = from else {
        return unregistered_error("effective_from is required and must be in the future");
    };
    if message.effective_until.as_ref().is_some_and(|until| timestamp::is_at_or_before(until, &from)) {
        return unregistered_error("effective_until must be after effective_from");
    }
    if !controls_ecosystem(exec, schema.id, corporation_id) {
        return unregistered_error(format!(
            "corporation {corporation_id} does not control ecosystem {}",
            schema.ecosystem_id
        ));
    }
    let participant = Participant {
        role: Role::Ecosystem.into(),
        schema_id: schema.id,
        did: message.did.clone(),
        corporation_id,
        vs_operator: message.vs_operator.clone(),
        created: Some(now),
        modified: Some(now),
        effective_from: Some(from),
        effective_until: message.effective_until,
        validation_fees: message.validation_fees,
        issuance_fees: message.issuance_fees,
        verification_fees: message.verification_fees,
        op_state: OnboardingState::Validated.into(),
        op_last_state_change: Some(now),
        ..Participant::default()
    };
    let siblings = participants_in_context(exec, &participant);
    if exec.chain.has_window_rules() {
        ensure_no_window_overlap(&siblings, &from, message.effective_until.as_ref(), &now)?;
    } else {
        ensure_no_overlap(&siblings, Some(&from), message.effective_until.as_ref())?;
    }
    ensure_did_available(exec, &message.did, corporation_id)?;
    let participant = insert_participant(exec, participant);
    VsOperatorFields::from(&message).create_record(
        exec,
        &message.corporation,
        &participant,
        message.effective_until,
    )?;
    exec.emit(
        "create_root_participant",
        [
            ("root_participant_id", participant.id.to_string()),
            ("schema_id", schema.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("effective_from", timestamp::go_time_text(&from)),
            ("effective_until", time_text(message.effective_until.as_ref())),
            ("validation_fees", message.validation_fees.to_string()),
            ("issuance_fees", message.issuance_fees.to_string()),
            ("verification_fees", message.verification_fees.to_string()),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgCreateRootParticipantResponse { id: participant.id })
}

pub fn validate_self_create(chain: &ChainConfig, message: &MsgSelfCreateParticipant) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    if !matches!(message.role(), Role::Issuer | Role::Verifier) || message.role != i32::from(message.role()) {
        return Err(LedgerError::sdk(18, "role must be ISSUER or VERIFIER"));
    }
    if message.validator_participant_id == 0 {
        return Err(LedgerError::sdk(18, "validator_participant_id must be greater than 0"));
    }
    if !validate::is_did(&message.did) {
        return Err(LedgerError::sdk(18, format!("invalid DID: {:?}", message.did)));
    }
    VsOperatorFields::from(message).validate(chain, message.role())
}

/// Checks that the requested period lies in the future and within the validator's.
fn ensure_valid_window(
    exec: &ExecContext<'_>,
    message: &MsgSelfCreateParticipant,
    from: Option<&Timestamp>,
    validator: &Participant,
) -> Result<(), LedgerError> {
    let now = exec.block_time();
    let until = message.effective_until.as_ref();
    let is_before = |left, right| timestamp::unix_nanos(left) < timestamp::unix_nanos(right);
    if let Some(from) = from {
        if message.effective_from.is_some() && timestamp::is_at_or_before(from, &now) {
            return unregistered_error("effective_from must be in the future");
        }
        if validator.effective_from.as_ref().is_some_and(|first| is_before(from, first)) {
            return unregistered_error("effective_from must not be before the validator's");
        }
        if validator.effective_until.as_ref().is_some_and(|last| timestamp::is_at_or_before(last, from)) {
            return unregistered_error("effective_from must be before the validator's effective_until");
        }
    }
    match (until, validator.effective_until.as_ref()) {
        (None, Some(_)) => return unregistered_error("effective_until is required: the validator's is set"),
        (Some(until), Some(last)) if is_before(last, until) => {
            return unregistered_error("effective_until must not be after the validator's");
        }
        _ => {}
    }
    if let (Some(from), Some(until)) = (from, until)
        && timestamp::is_at_or_before(until, from)
    {
        return unregistered_error("effective_until must be after effective_from");
    }
    Ok(())
}

pub fn self_create(
    exec: &mut ExecContext<'_>,
    message: MsgSelfCreateParticipant,
) -> Result<MsgSelfCreateParticipantResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgSelfCreateParticipant")?;
    let validator = load_validator(exec, message.validator_participant_id)?;
    let (now, role) = (exec.block_time(), message.role());
    if validator.role() != Role::Ecosystem {
        return unregistered_error(format!("validator participant {} is not an ecosystem's", validator.id));
    }
    let is_over = validator.effective_until.as_ref().is_some_and(|until| timestamp::is_at_or_before(until, &now));
    let is_ended = validator.revoked.is_some() || validator.slashed.is_some() || validator.repaid.is_some() || is_over;
    if is_ended || validator.effective_from.is_none() {
        return unregistered_error(format!("validator participant {} is not valid", validator.id));
    }
    // From the second generation on a window without a beginning begins with its block.
    let from = message.effective_from.or(exec.chain.has_window_rules().then_some(now));
    ensure_valid_window(exec, &message, from.as_ref(), &validator)?;
    if role != Role::Issuer && (message.validation_fees > 0 || message.verification_fees > 0) {
        return unregistered_error("validation_fees and verification_fees are for issuers only");
    }
    let Some(schema) = exec.state.schemas.get(&validator.schema_id, exec.gas).cloned() else {
        return unregistered_error(format!("credential schema {} not found", validator.schema_id));
    };
    if !is_self_created(&schema, role) {
        return unregistered_error(format!("schema {} is not open for role {}", schema.id, role.as_str_name()));
    }
    ensure_no_unrepaid_slash(exec, corporation_id, schema.ecosystem_id)?;
    let participant = Participant {
        role: message.role,
        schema_id: schema.id,
        did: message.did.clone(),
        corporation_id,
        vs_operator: message.vs_operator.clone(),
        created: Some(now),
        modified: Some(now),
        effective_from: from,
        effective_until: message.effective_until,
        validation_fees: message.validation_fees,
        verification_fees: message.verification_fees,
        validator_participant_id: validator.id,
        op_state: OnboardingState::Validated.into(),
        op_last_state_change: Some(now),
        ..Participant::default()
    };
    let others = participants_in_context(exec, &participant);
    match from.as_ref().filter(|_| exec.chain.has_window_rules()) {
        Some(from) => ensure_no_window_overlap(&others, from, message.effective_until.as_ref(), &now)?,
        None => ensure_no_overlap(&others, from.as_ref(), message.effective_until.as_ref())?,
    }
    ensure_did_available(exec, &message.did, corporation_id)?;
    let participant = insert_participant(exec, participant);
    VsOperatorFields::from(&message).create_record(
        exec,
        &message.corporation,
        &participant,
        message.effective_until,
    )?;
    exec.emit(
        "create_participant",
        [
            ("participant_id", participant.id.to_string()),
            ("schema_id", schema.id.to_string()),
            ("corporation", message.corporation),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("role", role.as_str_name().to_owned()),
            ("effective_from", time_text(from.as_ref())),
            ("effective_until", time_text(message.effective_until.as_ref())),
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgSelfCreateParticipantResponse { id: participant.id })
}
